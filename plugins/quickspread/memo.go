package quickspread

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/rollcall-sched/rollcall/framework"
)

const (
	// maxMemory bounds what all memos take, in bytes: the one that was not used for longest goes first. But so many
	// memos there may be in any case:
	maxMemory  = 128 << 20
	leastMemos = 16
	// A node takes so many bytes in a memo, for each rule so many more, and such a number where it is a domain of its
	// own.
	bytesPerNode, bytesPerCount, bytesPerDomain = 8, 12, 60
)

// memos are the memos by question.
type memos struct {
	byQuestion map[string]*memo
	clock      uint64
	bytes      int    // of all memos together, as memo.bytes has it
	key        []byte // memory for the next one
	counted    int    // how many nodes were counted, ever: what the memos are there to keep low
	// changed tells which nodes have changed; nil: all are compared.
	changed func(framework.Mark) ([]int32, framework.Mark, bool)
}

// memo is how many pods count on which node, for one question.
type memo struct {
	used      uint64
	bytes     int // for how many it stands in memos.bytes
	all       *memos
	namespace string
	rules     []rule
	soft      bool // the rules are soft constraints'

	list    []fwk.NodeInfo // the nodes as they were counted last
	mark    framework.Mark
	version uint64 // changes with every count

	// Of the pod, as far as the policies of any rule ask for it.
	required    nodeaffinity.RequiredNodeAffinity
	tolerations []v1.Toleration
	comparisons bool

	// generations are those of the nodes counted, in their order: it says all of a node and its pods, and no other
	// node, nor the same at another time, nor a copy that differs, has the same. counts are theirs, one for each rule.
	generations []int64
	counts      []count
	domains     []domains // one for each rule
	values      []string  // memory for one node's domains, by rule
}

// count is what one node brings to one rule's domains.
type count struct {
	domain int32 // nowhere: the node does not count; for soft rules: it lacks a label
	pods   int32
	// apart says that its pods do not count in the domain. The node may be scored nevertheless.
	apart bool
}

const nowhere = -1

// domains are the values of one topology key, numbered as they came up, and what is in each: nodes that count, and
// matching pods on these. A domain that has lost its last node keeps its number.
type domains struct {
	ids   map[string]int32
	nodes []int32
	pods  []int
}

// of returns the memo for the question, an empty one if there is none. nodes is how many nodes there are. It fails if a
// selector is not valid.
func (s *memos) of(q question, nodes int) (*memo, error) {
	key, err := q.appendTo(s.key[:0])
	if err != nil {
		return nil, err
	}
	s.key = key
	m, ok := s.byQuestion[string(key)]
	if !ok || m.outgrown(nodes) {
		if m, err = newMemo(q); err != nil {
			return nil, err
		}
		m.all = s
		s.keep(string(key), m, nodes)
	}
	s.bytes += m.size(nodes) - m.bytes
	m.bytes = m.size(nodes)
	s.clock++
	m.used = s.clock
	return m, nil
}

// keep takes in a memo, and drops those that were not used for longest until there is room for it.
func (s *memos) keep(question string, m *memo, nodes int) {
	if s.byQuestion == nil {
		s.byQuestion = map[string]*memo{}
	}
	m.bytes = m.size(nodes)
	s.drop(question)
	for len(s.byQuestion) >= leastMemos && s.bytes+m.bytes > maxMemory {
		oldest, used := "", uint64(0)
		// any order: the clock never gives a number twice
		for key, other := range s.byQuestion {
			if used == 0 || other.used < used {
				oldest, used = key, other.used
			}
		}
		s.drop(oldest)
	}
	s.byQuestion[question] = m
	s.bytes += m.bytes
}

// drop forgets a memo, if there is one.
func (s *memos) drop(question string) {
	if m, ok := s.byQuestion[question]; ok {
		s.bytes -= m.bytes
		delete(s.byQuestion, question)
	}
}

// size is how many bytes the memo takes with so many nodes.
func (m *memo) size(nodes int) int {
	each := bytesPerNode + bytesPerCount*len(m.rules)
	for i := range m.rules {
		if m.rules[i].byHost() && !m.soft {
			each += bytesPerDomain
		}
	}
	return 4096 + nodes*each
}

func newMemo(q question) (*memo, error) {
	rules, err := q.rules()
	if err != nil {
		return nil, err
	}
	m := &memo{
		namespace:   q.pod.Namespace,
		rules:       rules,
		required:    nodeaffinity.GetRequiredNodeAffinity(q.pod),
		tolerations: q.pod.Spec.Tolerations,
		comparisons: q.gates.comparisons,
		soft:        q.soft,
		domains:     make([]domains, len(rules)),
	}
	for i := range m.domains {
		m.domains[i].ids = map[string]int32{}
	}
	return m, nil
}

// outgrown says that most of the domains that the memo has numbers for must be gone: it is time for a new one.
func (m *memo) outgrown(nodes int) bool {
	for i := range m.domains {
		if len(m.domains[i].ids) > 2*nodes+1024 {
			return true
		}
	}
	return false
}

// update counts the nodes that are not as they were when they were last counted.
func (m *memo) update(logger klog.Logger, nodes []fwk.NodeInfo) {
	m.list = nodes
	changed := m.changed(nodes)
	if len(changed) == 0 {
		return
	}
	m.version++
	before, known := m.takeOut(changed)
	m.resize(len(nodes))
	for _, at := range changed {
		if at >= len(nodes) {
			break
		}
		generation, row := nodes[at].GetGeneration(), m.row(at)
		if i, ok := known[generation]; ok {
			copy(row, before[i:])
		} else {
			m.count(logger, nodes[at], row)
		}
		m.generations[at] = generation
		m.add(row, +1)
	}
}

// changed returns the places of the nodes that are not as they were when they were last counted, in the old list or in
// the new one.
func (m *memo) changed(nodes []fwk.NodeInfo) (changed []int) {
	var places []int32
	known := false
	if m.all.changed != nil {
		places, m.mark, known = m.all.changed(m.mark)
	}
	if known && len(nodes) == len(m.generations) && len(places) < len(nodes) {
		for _, at := range places {
			if m.generations[at] != nodes[at].GetGeneration() {
				changed = append(changed, int(at))
			}
		}
		slices.Sort(changed)
		return slices.Compact(changed)
	}
	for at, node := range nodes {
		if at >= len(m.generations) || m.generations[at] != node.GetGeneration() {
			changed = append(changed, at)
		}
	}
	for at := len(nodes); at < len(m.generations); at++ {
		changed = append(changed, at)
	}
	return changed
}

// row is what the node at that place brings to each rule.
func (m *memo) row(at int) []count { return m.counts[at*len(m.rules) : (at+1)*len(m.rules)] }

// placeOf returns where the node stands, which is likely to be at guess or a little behind it; ok is false if it was
// not counted as it is, or stands elsewhere.
func (m *memo) placeOf(node fwk.NodeInfo, guess int) (at int, ok bool) {
	const reach = 8
	generation := node.GetGeneration()
	for at := guess; at < min(guess+reach, len(m.generations)); at++ {
		if m.generations[at] == generation {
			return at, true
		}
	}
	return 0, false
}

// takeOut takes the nodes at those places out of the domains, and returns their counts, and where among these those of
// a generation begin: when a node comes or goes, the others after it change places and nothing else. A single one
// cannot have.
func (m *memo) takeOut(places []int) (counts []count, known map[int64]int) {
	if len(places) > 1 && len(m.generations) > 0 {
		known = make(map[int64]int, min(len(places), len(m.generations)))
	}
	for _, at := range places {
		if at >= len(m.generations) {
			break
		}
		m.add(m.row(at), -1)
		if known != nil {
			known[m.generations[at]] = len(counts)
			counts = append(counts, m.row(at)...)
		}
	}
	return counts, known
}

// resize makes room for so many nodes. What it adds is not counted yet.
func (m *memo) resize(nodes int) {
	m.generations = resized(m.generations, nodes, 0)
	m.counts = resized(m.counts, nodes*len(m.rules), count{domain: nowhere})
}

// resized returns the list with that length; what it adds has the value.
func resized[T any](list []T, length int, value T) []T {
	before := len(list)
	if length <= before {
		return list[:length]
	}
	list = slices.Grow(list, length-before)[:length]
	for i := before; i < length; i++ {
		list[i] = value
	}
	return list
}

// add puts a node's counts into the domains, or takes them out.
func (m *memo) add(counts []count, sign int) {
	for i, c := range counts {
		if c.domain != nowhere && !c.apart {
			m.domains[i].nodes[c.domain] += int32(sign)
			m.domains[i].pods[c.domain] += sign * int(c.pods)
		}
	}
}

// count fills in what the node brings to each rule.
func (m *memo) count(logger klog.Logger, info fwk.NodeInfo, counts []count) {
	m.all.counted++
	node := info.Node()
	hasAll := m.readLabels(node)
	allowed := m.allowed(logger, node)
	for i := range m.rules {
		r := &m.rules[i]
		counts[i] = count{domain: nowhere}
		apart := !hasAll || !allowed(r)
		if !hasAll || apart && !m.soft {
			continue
		}
		counts[i] = count{domain: m.domainOf(i), apart: apart}
		if r.like < i && counts[r.like].domain != nowhere {
			counts[i].pods = counts[r.like].pods
		} else {
			counts[i].pods = m.matching(info, r.selector)
		}
	}
}

// hasAllLabels reports whether the node has every topology key of the rules.
func (m *memo) hasAllLabels(node *v1.Node) bool {
	for i := range m.rules {
		if _, ok := node.Labels[m.rules[i].topologyKey]; !ok {
			return false
		}
	}
	return true
}

// readLabels leaves the node's domains in m.values. It returns false if the node lacks the topology key of a rule: then
// it counts for none.
func (m *memo) readLabels(node *v1.Node) bool {
	m.values = m.values[:0]
	for i := range m.rules {
		value, ok := node.Labels[m.rules[i].topologyKey]
		if !ok {
			return false
		}
		m.values = append(m.values, value)
	}
	return true
}

// domainOf returns the number of the i-th rule's domain that m.values has. Where soft rules spread over hosts, the pods
// on a node say what it is worth, and no domain is looked at: all hosts have one number.
func (m *memo) domainOf(i int) int32 {
	if m.soft && m.rules[i].byHost() {
		return m.domains[i].id("")
	}
	return m.domains[i].id(m.values[i])
}

// allowed returns what says whether the node counts by a rule's policies. It works out each at most once.
func (m *memo) allowed(logger klog.Logger, node *v1.Node) func(*rule) bool {
	var matches, tolerated *bool
	return func(r *rule) bool {
		if r.affinity {
			if matches == nil {
				match, _ := m.required.Match(node) // a term that cannot be read matches nothing, as upstream has it
				matches = &match
			}
			if !*matches {
				return false
			}
		}
		if r.taints {
			if tolerated == nil {
				_, untolerated := corev1.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, m.tolerations,
					helper.DoNotScheduleTaintsFilterFunc(), m.comparisons)
				fine := !untolerated
				tolerated = &fine
			}
			return *tolerated
		}
		return true
	}
}

// matching counts the node's pods that match. Those being deleted do not count, and a selector that matches everything
// counts none, as upstream has it.
func (m *memo) matching(info fwk.NodeInfo, selector labels.Selector) (n int32) {
	if selector.Empty() {
		return 0
	}
	for _, p := range info.GetPods() {
		pod := p.GetPod()
		if pod.DeletionTimestamp == nil && pod.Namespace == m.namespace && selector.Matches(labels.Set(pod.Labels)) {
			n++
		}
	}
	return n
}

// id returns the domain's number.
func (d *domains) id(value string) int32 {
	id, ok := d.ids[value]
	if !ok {
		id = int32(len(d.nodes))
		d.ids[value] = id
		d.nodes, d.pods = append(d.nodes, 0), append(d.pods, 0)
	}
	return id
}
