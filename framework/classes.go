package framework

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Pods of equal signature are a class: they are refused by the same nodes for the same reasons, and given the
// same scores. What Filter and Score said of a node for one of them is therefore kept, and asked again only
// once the node has changed: a placement changes one node. It is a memo and nothing else: with and without
// it the same comes out, and a test says so.
//
// A memo is only as good as the list of what the answers depend on. They depend on
//
//   - what the class' pods have in common: the plugins sign for that (fwk.SignPlugin);
//   - the node and the pods on it: every change gives the NodeInfo another generation;
//   - everything else in the world, nodes coming and going included: World.Version;
//   - which plugins asked to be left out: compared at every use;
//   - pods elsewhere that have affinity terms, and pods nominated to nodes: there is no memo while there
//     are any, and none for pods with claims or CSI volumes.

const (
	// maxClassNodes bounds the memory, of which a node takes some 150 bytes in each class: the class that was not used for longest
	// goes first. But so many classes there may be in any case:
	maxClassNodes = 1 << 20
	leastClasses  = 16
	// minClassNodes is the smallest cluster for which a signature costs less than it saves.
	minClassNodes = 64
)

// classes are a profile's memos.
type classes struct {
	usable  bool // all plugins sign, and none of them scores in a way that the memo cannot follow
	version uint64
	clock   uint64
	byKey   map[string]*class
}

// class is the memo of one signature.
type class struct {
	used    uint64
	filters []int // plugin ids
	scorers []int
	nodes   []classNode // as World.Lister lists them
	raw     []int64     // len(scorers) for each node
	again   bool        // it was used before
	rank    ranking
}

// classNode is what is known of one node: of which generation it was filtered and scored, 0 for never.
type classNode struct {
	filtered, scored int64
	status           *fwk.Status // nil: feasible
}

// scoresByNodeAlone are the plugins with a PreScore whose raw score of a node depends on no other node, for
// pods that have a class. Another plugin might look at the feasible nodes in its PreScore.
var scoresByNodeAlone = []string{
	names.TaintToleration, names.NodeAffinity, names.NodeResourcesFit, names.NodeResourcesBalancedAllocation,
	names.PodTopologySpread, names.InterPodAffinity, names.VolumeBinding, names.DynamicResources,
}

// withoutClasses stands in a registry for the wish that there be no classes; it is the name of no plugin.
const withoutClasses = "classes=off"

// WithoutClasses returns a copy of the registry whose profiles keep no classes: every node is filtered and scored anew in
// each cycle, and the same is decided. The wish goes with the registry because everything that makes profiles has one.
func WithoutClasses(registry frameworkruntime.Registry) frameworkruntime.Registry {
	out := maps.Clone(registry)
	out[withoutClasses] = nil
	return out
}

// prepareClasses settles whether the profile's pods can have classes.
func (p *Profile) prepareClasses(registry frameworkruntime.Registry) {
	_, off := registry[withoutClasses]
	p.classes.usable = !off && p.world.Version != nil && len(p.unsigned) == 0 &&
		!slices.ContainsFunc(p.preScore, func(e entry[fwk.PreScorePlugin]) bool { return !slices.Contains(scoresByNodeAlone, e.name) })
}

// classOf returns the pod's class, nil if it has none in the world as it is.
func (c *search) classOf(nodes []fwk.NodeInfo) *class {
	m := &c.p.classes
	if !m.usable || c.trace != nil || c.nominator != nil || len(nodes) < minClassNodes || !c.preFilters.AllNodes() || hasClaims(c.pod) {
		return nil
	}
	if affine, err := c.p.stage.NodeInfos().HavePodsWithAffinityList(); err != nil || len(affine) > 0 {
		return nil
	}
	signature := c.p.SignPod(c.ctx, c.pod)
	if signature == nil {
		return nil
	}
	if v := c.p.world.Version(); v != m.version || m.byKey == nil {
		m.version, m.byKey = v, map[string]*class{}
	}
	k, ok := m.byKey[string(signature)]
	if !ok {
		k = m.newClass(len(nodes))
		m.byKey[string(signature)] = k
	}
	m.clock++
	k.used = m.clock
	k.keepFilters(c.filters)
	return k
}

// newClass returns an empty class, in the memory of the one that was not used for longest if there are as many as there
// may be: that one is dropped.
func (m *classes) newClass(nodes int) *class {
	if len(m.byKey) < max(leastClasses, maxClassNodes/nodes) {
		return &class{nodes: make([]classNode, nodes)}
	}
	oldest, used := "", uint64(0)
	// any order: the clock never gives a number twice
	for key, k := range m.byKey {
		if oldest == "" || k.used < used {
			oldest, used = key, k.used
		}
	}
	k := m.byKey[oldest]
	delete(m.byKey, oldest)
	clear(k.nodes)
	return &class{nodes: k.nodes, raw: k.raw[:0]}
}

// hasClaims says whether answers on the pod depend on claims and volumes, whose standing changes with
// placements elsewhere.
func hasClaims(pod *v1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil
	})
}

// keepFilters forgets everything if other filters are to run than before.
func (k *class) keepFilters(filters []entry[fwk.FilterPlugin]) {
	if sameIDs(k.filters, filters, func(e entry[fwk.FilterPlugin]) int { return e.id }) {
		return
	}
	clear(k.nodes)
	k.rank = ranking{}
	k.filters = k.filters[:0]
	for _, e := range filters {
		k.filters = append(k.filters, e.id)
	}
}

// keepScorers forgets the scores if other plugins are to score than before.
func (k *class) keepScorers(scorers []scorer) {
	if sameIDs(k.scorers, scorers, func(s scorer) int { return s.id }) {
		return
	}
	for i := range k.nodes {
		k.nodes[i].scored = 0
	}
	k.rank = ranking{}
	k.scorers = k.scorers[:0]
	for _, s := range scorers {
		k.scorers = append(k.scorers, s.id)
	}
	k.raw = slices.Grow(k.raw[:0], len(k.nodes)*len(scorers))[:len(k.nodes)*len(scorers)]
}

func sameIDs[T any](ids []int, list []T, id func(T) int) bool {
	return slices.EqualFunc(ids, list, func(i int, e T) bool { return i == id(e) })
}

// filter returns what filterNode would of the at-th node.
func (k *class) filter(c *search, at int, node fwk.NodeInfo) *fwk.Status {
	n := &k.nodes[at]
	if g := node.GetGeneration(); n.filtered != g {
		status := c.filterNode(node)
		if status.IsError() {
			return status
		}
		n.filtered, n.status = g, status
		k.notice(at, g)
	}
	return n.status
}

// notice has the ranking look at the node again where the class has learned of another one in its place: in a rehearsal, or
// in a search that could not go by the ranking.
func (k *class) notice(at int, generation int64) {
	r := &k.rank
	if !r.ready || r.nodes[at].generation == generation {
		return
	}
	if len(r.stale) >= len(r.nodes) {
		r.ready, r.stale = false, nil // it looks at all of them anyway
		return
	}
	r.stale = append(r.stale, int32(at))
}

// score fills in what scoreNodes would for the i-th feasible node, which is the at-th of all.
func (k *class) score(c *search, at, i int, node fwk.NodeInfo, scorers []scorer, lists []fwk.NodeScoreList) *fwk.Status {
	if status := k.scoreRaw(c, at, node, scorers); status != nil {
		return status
	}
	name := node.Node().Name
	for s, score := range k.raw[at*len(scorers) : (at+1)*len(scorers)] {
		lists[s][i] = fwk.NodeScore{Name: name, Score: score}
	}
	return nil
}

// scoreRaw asks the plugins for the at-th node's scores if it has changed.
func (k *class) scoreRaw(c *search, at int, node fwk.NodeInfo, scorers []scorer) *fwk.Status {
	raw := k.raw[at*len(scorers) : (at+1)*len(scorers)]
	n := &k.nodes[at]
	g := node.GetGeneration()
	if n.scored == g {
		return nil
	}
	n.scored = 0 // until all have answered
	for s := range scorers {
		score, status := scorers[s].plugin.Score(c.ctx, c.state, c.pod, node)
		if !status.IsSuccess() {
			return failed("Score", scorers[s].name, status)
		}
		raw[s] = score
	}
	n.scored = g
	k.notice(at, g)
	return nil
}
