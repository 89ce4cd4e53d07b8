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

// A class is a set of pods for which most plugins answer the same in Filter and Score, with the answers for each node.
// An answer holds until its node changes, and a placement changes one node only.
//
// Invariant: a class is a memo. Decisions are the same without it (TestClassesChangeNoEntry).
//
// Example: 1,000 pods of one job are placed on 5,000 nodes. For the first pod, the plugins of the class answer for all
// 5,000 nodes. For each further pod they answer for one node, where the pod before it was placed.
//
// A kept answer is used only if everything that it depends on is unchanged:
//
//   - the pods of a class are equal in all fields except requests, metadata and gang, and except terms about other pods
//     if the plugin for these terms is outside the class. The key is made from the pod and not from its signature
//     (fwk.SignPlugin), which leaves out fields that plugins read, such as the protocol of a host port;
//   - a change of the node or of its pods gives the NodeInfo a new generation;
//   - a change of anything else in the world changes World.Version, also when nodes come or go;
//   - every use compares which plugins asked to be skipped.
//
// insideClasses lists the plugins that were examined: their answers depend on nothing else. All other plugins are
// outside the class and are asked for every pod. These are:
//
//   - plugins that compare requests with a node's free capacity: pods of one class may have different requests, and the
//     answers are quick;
//   - plugins that do not sign for the pod;
//   - InterPodAffinity while some pod has affinity terms;
//   - plugins that were not examined. With such a plugin there is no ranking either.
//
// Pods with volume claims or CSI volumes have no class. Pods with ResourceClaims, or with extended resources that map
// to devices, have one only while the answers depend on their requests and the node alone (World.Claims). For a node
// with nominated pods the class is not used.

const (
	// maxClassBytes bounds the memory of a profile's classes. A node takes 24 bytes in each class, 8 for each plugin
	// that scores in the class, and 4 if its scores are unusual. That is enough for 400 classes of 15,000 nodes, or 130
	// of 50,000. When the bound is reached, the least recently used class is dropped. At least leastClasses are kept in
	// any case, and at most maxTemplates, because each class also takes some KiB besides the nodes.
	maxClassBytes = 256 << 20
	leastClasses  = 16
	// minClassNodes is the size of the smallest cluster in which a class saves more than its key costs.
	minClassNodes = 64
)

// classes has the memos of a profile.
type classes struct {
	off       bool   // keep no memos
	version   uint64 // World.Version of the memos; with another version all are dropped
	clock     uint64 // counts uses, to find the least recently used memo
	byKey     map[string]*class
	rankings  map[string]*ranking  // by the key of the template
	templates map[string]*template // by the result of encode
	key       []byte               // the memory of encode

	passing ranking // for a pod that is the first of its template
	groups  groups  // for the same pods
	// read tracks the nodes that the PlaceSurveyors have read.
	read       learned
	rehearsals uint64 // the number of rehearsals that have ended
	bounds     int    // for tests: replaces the memory bounds, unless it is 0

	all    []int32 // the places of all nodes
	places []int32 // the memory of distinct
	seen   []bool
}

// most returns the memory bound that applies.
func (m *classes) most(bound int) int {
	if m.bounds > 0 {
		return m.bounds
	}
	return bound
}

// class has the answers of the plugins inside a class for each node.
type class struct {
	used    uint64 // classes.clock at the last use
	filters []int  // ids of the plugins whose answers are kept; other filters make all answers invalid
	scorers []int
	nodes   []classNode // as World.Lister lists them
	refused refusals
	raw     []int64 // len(scorers) for each node

	filteredTo learned // for which changes the filters of the class have answered
	scoredTo   learned // the same for its scorers, about the nodes that pass
	// For groups: usual are the scores that most nodes have, and unusual the places of the other nodes. For a plugin
	// that normalizes its scores the usual score is 0.
	usual   []int64
	unusual []int32
}

// bytes returns the memory that the class takes for nodes.
func (k *class) bytes() int { return len(k.nodes)*24 + len(k.raw)*8 + cap(k.unusual)*4 }

// classNode is the part of a class about one node. filtered and scored are the node's generations when it was filtered
// and scored, 0 for never. An answer holds as long as the node has that generation.
type classNode struct {
	filtered, scored int64
	refusal          int32 // the number of the reason in refused; 0: feasible
	unusual          bool  // it is in class.unusual
}

// insideClasses lists the plugins whose Filter and Score depend only on the fields that the key of a class covers, for
// pods that they sign for. If they have a PreScore, the score of a node does not depend on the other feasible nodes.
var insideClasses = []string{
	names.NodeName, names.NodeUnschedulable, names.TaintToleration, names.NodeAffinity, names.NodePorts,
	names.ImageLocality,
	names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone, names.DynamicResources,
	names.PodTopologySpread, names.InterPodAffinity,
}

// besideClasses lists the plugins that are outside classes because they read the pod's requests. Their answers depend
// only on the pod and the node.
var besideClasses = []string{names.NodeResourcesFit, names.NodeResourcesBalancedAllocation, names.NodeDeclaredFeatures}

// prepareClasses determines which of the profile's plugins can be in classes. off turns all memos off.
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
		return name != coscheduling && p.isUnknown(name) // it checks the gang and no placed pods
	})
}

// isUnknown reports whether the dependencies of the plugin's answers are unknown.
func (p *Profile) isUnknown(name string) bool {
	return p.apart[p.ids[name]] && !slices.Contains(besideClasses, name)
}

// reset drops everything, because World.Version has changed.
func (m *classes) reset(version uint64) {
	m.version = version
	m.byKey, m.rankings, m.templates = map[string]*class{}, map[string]*ranking{}, map[string]*template{}
	m.passing, m.read, m.groups = ranking{}, learned{}, groups{}
}

// membership says to which class the pods of a template belong.
type membership struct {
	key     string // of the class
	ranked  bool   // the template may have a ranking, unless InterPodAffinity has terms to check
	outside []bool // by plugin id: the plugin is outside the class
}

// membershipOf returns nil if the pod cannot be encoded. affine is set if some pod has affinity terms.
func (c *search) membershipOf(affine bool) *membership {
	m := &membership{outside: slices.Clone(c.p.apart), ranked: !c.p.unranked}
	devices, hasDevices := c.p.ids[names.DynamicResources]
	for id, not := range c.p.unsignedBy(c.ctx, c.pod) {
		if hasDevices && id == devices && c.knownClaims {
			continue // it declines to sign only because the pod has claims
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

// specInside returns the part of the spec that the plugins of a class read. It leaves out requests. It also leaves out
// terms about other pods if the plugin that reads them is outside the class.
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

// classify finds the pod's class, if it has one now. It splits the filters into the ones inside the class and the ones
// outside it.
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

// find returns the class with the key. If there is none, it creates one; when the memory bound is reached, it drops the
// least recently used class and reuses its memory.
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

// leastRecent returns the key of the least recently used element.
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

// hasVolumes reports whether the pod has volumes whose state changes with placements on other nodes.
func hasVolumes(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil
	})
}

// keepFilters forgets everything if the filters differ from the earlier ones.
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

// keepScorers forgets the scores if the scorers differ from the earlier ones.
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

// filter returns the answer of the class's filters for the node at index at.
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

// rawOf returns the kept raw scores of the node at index at.
func (k *class) rawOf(at int) []int64 { return k.raw[at*len(k.scorers) : (at+1)*len(k.scorers)] }

// score returns the raw scores of the class's scorers for the node at index at. They must not be changed.
func (k *class) score(c *search, at int, node fwk.NodeInfo) ([]int64, *fwk.Status) {
	raw := k.rawOf(at)
	n := &k.nodes[at]
	g := node.GetGeneration()
	if n.scored == g {
		return raw, nil
	}
	n.scored = 0 // until all plugins have answered, because one may fail
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
