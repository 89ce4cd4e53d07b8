package framework

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// What most plugins answer for a node in Filter and Score is the same for many pods, and stays the same until the node
// changes: a placement changes one node. A class is the pods for which it is the same, with the answers for each node.
// Invariant: a class is a memo. Without it the same is decided (TestClassesChangeNoEntry).
//
// Example: 1,000 pods of one job are placed on 5,000 nodes. For the first one the plugins of the class are asked for
// all 5,000 nodes. For each further one they are asked for one node, where the pod before it was placed.
//
// The invariant holds because a kept answer is used only if everything that it depends on is the same. That is
//
//   - what the pods of a class have in common: all that they say but what they request, their metadata, their gang, and
//     what they ask of other pods if the plugin that looks at that stands apart (below). It is the pod itself and not
//     its signature (fwk.SignPlugin), which leaves out what plugins do look at, such as the protocol of a host port;
//   - the node and the pods on it: every change gives the NodeInfo another generation;
//   - everything else in the world, nodes coming and going included: World.Version;
//   - which plugins asked to be left out: compared at every use.
//
// The plugins in insideClasses were examined: their answers depend on nothing else. All others stand apart from the
// class and are asked for every pod: plugins that compare requests with the room on a node, because pods of one class
// may have different requests and the answers are quick; plugins that do not sign for the pod; InterPodAffinity while
// some pod has affinity terms; and plugins that were not examined, for which there is no ranking either. Pods with
// volume claims or CSI volumes have no class. Those with ResourceClaims, or with extended resources that stand for
// devices, have one only while what these ask for and the node are all that matters of devices (World.Claims). For a
// node that pods are nominated to, the class is not used.

const (
	// maxClassBytes bounds the memory of a profile's classes. A node takes 24 bytes in each, 8 for each plugin that
	// scores in the class, and 4 if its scores are unusual. So there is room for 400 classes of 15,000 nodes, or 130 of
	// 50,000. When there are too many, the class that was not used for longest goes. leastClasses may be kept in any
	// case, and never more than maxTemplates: each also takes some KiB that do not depend on the nodes.
	maxClassBytes = 256 << 20
	leastClasses  = 16
	// minClassNodes is the smallest cluster for which a signature costs less than it saves.
	minClassNodes = 64
)

// classes are a profile's memos.
type classes struct {
	off       bool   // no memos are kept
	version   uint64 // World.Version for which the memos hold: with another one all are dropped
	clock     uint64 // counts uses, so that the memo that was not used for longest can be found
	byKey     map[string]*class
	rankings  map[string]*ranking  // by template
	templates map[string]*template // by what encode says
	key       []byte               // the memory of encode

	passing    ranking // of the pods that are the first of their template
	groups     groups  // for these
	read       learned // of the plugins that survey nodes at places
	rehearsals uint64  // how many have ended
	bounds     int     // for tests: in the place of the bounds of memory; 0 for none

	all    []int32 // the places of all nodes
	places []int32 // the memory of distinct
	seen   []bool
}

// most returns the bound of memory that is in force.
func (m *classes) most(bound int) int {
	if m.bounds > 0 {
		return m.bounds
	}
	return bound
}

// class is what the plugins inside of a class answered for each node.
type class struct {
	used    uint64 // classes.clock at the last use
	filters []int  // ids of the plugins whose answers are kept; if others are to run, all answers are dropped
	scorers []int
	nodes   []classNode // as World.Lister lists them
	refused refusals
	raw     []int64 // len(scorers) for each node

	filteredTo learned // up to where the filters of the class have been asked for every node
	scoredTo   learned // up to where its scorers have been, for every node that they let pass
	// For groups: the scores that most nodes have, and the nodes that have others. Of a plugin that normalizes its
	// scores, 0 is taken for what most nodes have.
	usual   []int64
	unusual []int32
}

// bytes is how much memory the class takes by nodes.
func (k *class) bytes() int { return len(k.nodes)*24 + len(k.raw)*8 + cap(k.unusual)*4 }

// classNode is what is known of one node. filtered and scored are the node's generations when it was filtered and
// scored, 0 for never: an answer holds as long as the node has that generation.
type classNode struct {
	filtered, scored int64
	refusal          int32 // the number of the reason in refused; 0: feasible
	unusual          bool  // it is in class.unusual
}

// insideClasses are the plugins whose Filter and Score rest on what a class goes by and on nothing else, for pods that
// they sign for. Where they have a PreScore, it makes no difference to the score of a node which others are feasible.
var insideClasses = []string{
	names.NodeName, names.NodeUnschedulable, names.TaintToleration, names.NodeAffinity, names.NodePorts,
	names.ImageLocality,
	names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone, names.DynamicResources,
	names.PodTopologySpread, names.InterPodAffinity,
}

// besideClasses are the plugins that stand apart because they look at what the pod requests, and rest on that, on the
// rest of the pod, and on the node alone.
var besideClasses = []string{names.NodeResourcesFit, names.NodeResourcesBalancedAllocation, names.NodeDeclaredFeatures}

// prepareClasses finds out what of the profile's plugins can be kept; off says that nothing is to be.
func (p *Profile) prepareClasses(off bool) {
	p.classes.off = off || p.world.Version == nil
	p.prepared, p.claimless = make([]bool, len(p.plugins)), make([]bool, len(p.plugins))
	p.apart = make([]bool, len(p.plugins))
	p.groupClaims = utilfeature.DefaultFeatureGate.Enabled(features.DRAWorkloadResourceClaims)
	p.findPlaceSurveyors()
	// any order: each has its own place
	for name, id := range p.ids {
		p.prepared[id] = slices.Contains(preparesByTemplate, name)
		p.claimless[id] = slices.Contains(skipsClaimless, name)
		p.apart[id] = !slices.Contains(insideClasses, name)
	}
	for _, point := range []ExtensionPoint{Filter, Score} {
		for _, name := range p.at[point] {
			p.unranked = p.unranked || p.isUnknown(name)
		}
	}
	p.uncounted = p.unranked || slices.ContainsFunc(p.at[PreFilter], func(name string) bool {
		return name != coscheduling && p.isUnknown(name) // that one looks at the gang, not at what is placed
	})
}

// isUnknown reports whether it is not known on what a plugin's answers rest.
func (p *Profile) isUnknown(name string) bool {
	return p.apart[p.ids[name]] && !slices.Contains(besideClasses, name)
}

// reset drops everything: the world has another version now.
func (m *classes) reset(version uint64) {
	m.version = version
	m.byKey, m.rankings, m.templates = map[string]*class{}, map[string]*ranking{}, map[string]*template{}
	m.passing, m.read, m.groups = ranking{}, learned{}, groups{}
}

// membership is in which class the pods of a template are.
type membership struct {
	key     string // of the class
	ranked  bool   // there may be a ranking for the template, unless InterPodAffinity has something to say
	outside []bool // by plugin id: the plugin stands apart from the class
}

// membershipOf returns nil if the pod cannot be encoded. affine says that some pod has affinity terms.
func (c *search) membershipOf(affine bool) *membership {
	m := &membership{outside: slices.Clone(c.p.apart), ranked: !c.p.unranked}
	devices, hasDevices := c.p.ids[names.DynamicResources]
	for id, not := range c.p.unsignedBy(c.ctx, c.pod) {
		if hasDevices && id == devices && c.knownClaims {
			continue // it does not sign for pods with claims, and for no other reason
		}
		if not {
			m.outside[id], m.ranked = true, false
		}
	}
	if id, ok := c.p.ids[names.InterPodAffinity]; ok && affine {
		m.outside[id] = true
	}
	key, err := c.p.classes.encode(c.pod, c.p.specInside(&c.pod.Spec, m.outside), c.claims)
	if err != nil {
		return nil
	}
	for _, outside := range m.outside {
		key = strconv.AppendBool(key, outside)
	}
	m.key = string(key)
	return m
}

// specInside returns what of the spec the plugins of a class look at: not what it requests, and not what it asks of
// other pods if the plugin that looks at that stands apart.
func (p *Profile) specInside(spec *v1.PodSpec, outside []bool) *v1.PodSpec {
	out := withoutRequests(spec)
	if id, ok := p.ids[names.InterPodAffinity]; out.Affinity != nil && (!ok || outside[id]) {
		out.Affinity = &v1.Affinity{NodeAffinity: out.Affinity.NodeAffinity}
	}
	if id, ok := p.ids[names.PodTopologySpread]; !ok || outside[id] {
		out.TopologySpreadConstraints = nil
	}
	return out
}

// classify finds the pod's class, if it has one now, and splits the filters into those inside of it and those that
// stand apart from it.
func (c *search) classify(nodes int) {
	t := c.template
	if t == nil || !c.preFilters.AllNodes() || !c.knownClaims || hasVolumes(c.pod) {
		return
	}
	list, err := c.p.stage.NodeInfos().HavePodsWithAffinityList()
	if err != nil {
		return
	}
	in, affine := &t.membership, len(list) > 0
	if affine {
		in = &t.affine
	}
	if *in == nil {
		if *in = c.membershipOf(affine); *in == nil {
			return
		}
	}
	c.member = *in
	c.inside, c.outsideAt, c.affine = c.inside[:0], c.outsideAt[:0], false
	for i := range c.filters {
		if c.member.outside[c.filters[i].id] {
			c.outsideAt = append(c.outsideAt, i)
			c.affine = c.affine || affine && c.filters[i].name == names.InterPodAffinity
		} else {
			c.inside = append(c.inside, c.filters[i])
		}
	}
	c.class = c.p.classes.find(c.member.key, nodes)
	c.class.keepFilters(c.inside)
}

// find returns the class of the key, in the memory of the one that was not used for longest if it is new and there are
// as many as there may be: that one is dropped.
func (m *classes) find(key string, nodes int) *class {
	k, ok := m.byKey[key]
	if !ok {
		sum := 0
		// any order: a sum
		for _, k := range m.byKey {
			sum += k.bytes()
		}
		for k == nil {
			if sum < m.most(maxClassBytes) && len(m.byKey) < maxTemplates || len(m.byKey) < leastClasses {
				k = &class{nodes: make([]classNode, nodes)}
				break
			}
			oldest := leastRecent(m.byKey, func(k *class) uint64 { return k.used })
			if sum -= m.byKey[oldest].bytes(); sum < m.most(maxClassBytes) {
				k = &class{nodes: m.byKey[oldest].nodes, raw: m.byKey[oldest].raw[:0]}
				clear(k.nodes)
			}
			delete(m.byKey, oldest)
		}
		m.byKey[key] = k
	}
	m.clock++
	k.used = m.clock
	return k
}

// leastRecent returns the key of what was not used for longest.
func leastRecent[T any](all map[string]T, used func(T) uint64) (oldest string) {
	first := true
	var least uint64
	// any order: the clock never gives a number twice
	for key, e := range all {
		if u := used(e); first || u < least {
			oldest, least, first = key, u, false
		}
	}
	return oldest
}

// hasVolumes reports whether answers on the pod depend on volumes, whose state changes with placements elsewhere.
func hasVolumes(pod *v1.Pod) bool {
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
	k.refused.reset()
	k.filteredTo = learned{}
	k.forgetScores()
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
	k.forgetScores()
	k.scorers = k.scorers[:0]
	for _, s := range scorers {
		k.scorers = append(k.scorers, s.id)
	}
	k.raw = sized(k.raw, len(k.nodes)*len(scorers))
}

func sameIDs[T any](ids []int, list []T, id func(T) int) bool {
	return slices.EqualFunc(ids, list, func(i int, e T) bool { return i == id(e) })
}

// filter returns what the filters of the class say of the at-th node.
func (k *class) filter(c *search, at int, node fwk.NodeInfo) *fwk.Status {
	n := &k.nodes[at]
	if g := node.GetGeneration(); n.filtered != g {
		c.p.evaluations++
		status := c.run(c.inside, c.state, node)
		if status.IsError() {
			return status
		}
		k.refused.drop(n.refusal)
		n.filtered, n.refusal = g, k.refused.add(status)
	}
	return k.refused.of(n.refusal)
}

// rawOf returns the raw scores that are kept of the at-th node.
func (k *class) rawOf(at int) []int64 { return k.raw[at*len(k.scorers) : (at+1)*len(k.scorers)] }

// score returns the raw scores that the scorers of the class give to the at-th node. They must not be changed.
func (k *class) score(c *search, at int, node fwk.NodeInfo) ([]int64, *fwk.Status) {
	raw := k.rawOf(at)
	n := &k.nodes[at]
	g := node.GetGeneration()
	if n.scored == g {
		return raw, nil
	}
	n.scored = 0 // until all plugins have answered: one may fail
	for i := range c.insideScorers {
		score, status := c.insideScorers[i].plugin.Score(c.ctx, c.state, c.pod, node)
		if !status.IsSuccess() {
			return nil, failed("Score", c.insideScorers[i].name, status)
		}
		raw[i] = score
	}
	n.scored = g
	return raw, nil
}
