package quickaffinity

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxMemory bounds what all memos take, in bytes, with the topologies that they count by: the memo that was not used
// for longest goes first. Example: on 50,000 nodes there is room for more than 200 apps whose pods are apart by node
// and prefer another label. maxTopologies bounds the topologies, each of which is read of every node. But leastMemos
// there may be in any case.
const (
	maxMemory     = 256 << 20
	maxTopologies = 64
	leastMemos    = 16
)

// memos are the memos by what pods ask.
type memos struct {
	byKey map[string]*memo
	// The memos in the order in which they were used last.
	oldest, newest *memo

	bytes int // of all memos together
	most  int // maxMemory, or less in tests
	costs costs
}

// costs are what the memos are there to keep low: how often, ever, pods of a kind were compared with the terms of a
// pod, and all pods of all nodes counted.
type costs struct{ compared, counted int }

// memo is what the pods on the nodes are to pods that have the same namespace, terms, and labels as far as selectors
// ask for them: how many of them count for what, by topology.
type memo struct {
	question
	key          string
	older, newer *memo // in the order of their last use

	bytes int    // as memos.bytes has it
	since uint64 // changes of the ledger before this one are counted
	ready bool   // all pods were counted once

	columns []column
	lists   [][]part
	where   []int32 // by kind: the place in lists, from 1, of what a pod of it adds; unknown, or nothing
	touched int64   // how many times a preferred term, of the pod or of another one, matches on a node with its label
}

const (
	unknown = 0
	nothing = -1
)

// question is what a pod asks: its own terms, with the namespaces that their selectors stand for now.
type question struct {
	costs           *costs
	hardWeight      int64 // what a required affinity term of another pod weighs as a preference
	pod             *v1.Pod
	namespaceLabels labels.Set
	selectors       []labels.Selector // of namespaces, in the pod's own terms; without those that select all, or none
	info            fwk.PodInfo
	matchesItself   bool // by all of its required affinity terms

	// affinity are the topologies of the required affinity terms, in their order, each once.
	affinity []*topology
}

// role is what the pods in a column count for.
type role uint8

const (
	// existing pods have required anti-affinity against the pod.
	existing role = iota
	// attracting pods match all of the pod's required affinity terms.
	attracting
	// repelling pods match a required anti-affinity term of the pod.
	repelling
	// preferred is the sum of weights, of the pod's preferred terms and of those of existing pods.
	preferred
)

// column is how much there is in each domain of a topology, for one role. Counts may be negative: pods may be thought
// away that are not there.
type column struct {
	role     role
	topology *topology
	counts   []int64 // by number of the domain; those behind its end are 0
	nonzero  int     // how many of them are not 0
	lent     bool    // counts is also somebody else's, and must not be changed
}

// part is what a pod adds to a column, in the domain that it is in, and for how many terms.
type part struct {
	column int32
	terms  int32
	weight int64
}

// of returns how much there is in a domain.
func (c *column) of(domain int32) int64 {
	if domain < 0 || int(domain) >= len(c.counts) {
		return 0
	}
	return c.counts[domain]
}

func (c *column) add(domain int32, weight int64) {
	if c.lent || int(domain) >= len(c.counts) {
		counts := make([]int64, max(len(c.counts), int(domain)+1, len(c.topology.ids)))
		copy(counts, c.counts)
		c.counts, c.lent = counts, false
	}
	n := &c.counts[domain]
	if *n != 0 {
		c.nonzero--
	}
	if *n += weight; *n != 0 {
		c.nonzero++
	}
}

// findTopology returns the topology of a label of nodes for a column that counts by it.
type findTopology func(key string) *topology

// columns are those of a memo, or of a reading.
type columns []column

// at returns the place of the column, a new one if there is none.
func (c *columns) at(topologies findTopology, role role, key string) int32 {
	for i := range *c {
		if (*c)[i].role == role && (*c)[i].topology.key == key {
			return int32(i)
		}
	}
	*c = append(*c, column{role: role, topology: topologies(key)})
	return int32(len(*c) - 1)
}

// newMemo returns an empty one.
func newMemo(l *ledger, q question) *memo {
	m := &memo{question: q}
	terms := q.info.GetRequiredAffinityTerms()
	for i := range terms {
		at := (*columns)(&m.columns).at(l.use, attracting, terms[i].TopologyKey)
		if int(at) == len(m.affinity) {
			m.affinity = append(m.affinity, m.columns[at].topology)
		}
	}
	return m
}

// countAll counts all pods of all nodes.
func (m *memo) countAll(l *ledger) {
	for i := range m.columns {
		c := &m.columns[i]
		c.counts, c.nonzero, c.lent = make([]int64, len(c.topology.ids)), 0, false
	}
	m.touched = 0
	for at := range l.rows {
		for _, p := range l.rows[at].pods {
			for _, part := range m.partsOf(l, p.kind) {
				if domain := m.columns[part.column].topology.at[at]; domain != nowhere {
					m.add(part, domain, 1)
				}
			}
		}
	}
}

// update counts what has changed since the memo was used last.
func (m *memo) update(l *ledger) {
	if !m.ready || m.since < l.first {
		m.costs.counted++
		m.countAll(l)
	} else {
		for _, c := range l.changes[m.since-l.first:] {
			for _, part := range m.partsOf(l, c.kind) {
				if domain := m.columns[part.column].topology.of(c.node); domain != nowhere {
					m.add(part, domain, int64(c.by))
				}
			}
		}
	}
	m.ready, m.since = true, l.now()
}

func (m *memo) add(p part, domain int32, times int64) {
	c := &m.columns[p.column]
	c.add(domain, p.weight*times)
	if c.role == preferred {
		m.touched += int64(p.terms) * times
	}
}

// partsOf returns what a pod of the kind adds.
func (m *memo) partsOf(l *ledger, kind int32) []part {
	if int(kind) >= len(m.where) {
		m.where = append(m.where, make([]int32, len(l.kinds)-len(m.where))...)
	}
	switch at := m.where[kind]; at {
	case unknown:
	case nothing:
		return nil
	default:
		return m.lists[at-1]
	}
	m.costs.compared++
	list := m.parts(l.use, (*columns)(&m.columns), l.kinds[kind].info, true)
	if m.where[kind] = nothing; len(list) > 0 {
		m.lists = append(m.lists, list)
		m.where[kind] = int32(len(m.lists))
	}
	return list
}

// size returns how many bytes the memo takes, with some KiB for the pod and its terms.
func (m *memo) size() int {
	n := 4096 + len(m.key) + 4*cap(m.where) + 64*len(m.lists)
	for i := range m.columns {
		n += 64 + 8*len(m.columns[i].counts)
	}
	return n
}

// gather collects parts: what matches for the same column is added up.
type gather struct {
	topologies findTopology
	columns    *columns
	parts      []part
}

func (g *gather) add(role role, key string, weight int64) {
	at := g.columns.at(g.topologies, role, key)
	for i := range g.parts {
		if g.parts[i].column == at {
			g.parts[i].weight += weight
			g.parts[i].terms++
			return
		}
	}
	g.parts = append(g.parts, part{column: at, terms: 1, weight: weight})
}

// parts returns what the other pod adds, as upstream counts it. Of preferences only if they are asked for.
func (q *question) parts(topologies findTopology, to *columns, other fwk.PodInfo, preferences bool) []part {
	g := gather{topologies: topologies, columns: to}
	theirs := other.GetRequiredAntiAffinityTerms()
	for i := range theirs {
		if theirs[i].Matches(q.pod, q.namespaceLabels) {
			g.add(existing, theirs[i].TopologyKey, 1)
		}
	}
	// The namespaces of the pod's own terms are those that their selectors stood for when they were asked.
	own := q.info.GetRequiredAffinityTerms()
	if matchesAll(own, other.GetPod()) {
		for i := range own {
			g.add(attracting, own[i].TopologyKey, 1)
		}
	}
	own = q.info.GetRequiredAntiAffinityTerms()
	for i := range own {
		if own[i].Matches(other.GetPod(), nil) {
			g.add(repelling, own[i].TopologyKey, 1)
		}
	}
	if preferences {
		q.preferences(&g, other)
	}
	return g.parts
}

// preferences collects what the pod prefers of the other one, and the other one of the pod.
func (q *question) preferences(g *gather, other fwk.PodInfo) {
	weighted := func(terms []fwk.WeightedAffinityTerm, of *v1.Pod, namespace labels.Set, sign int64) {
		for i := range terms {
			if terms[i].Matches(of, namespace) {
				g.add(preferred, terms[i].TopologyKey, sign*int64(terms[i].Weight))
			}
		}
	}
	weighted(q.info.GetPreferredAffinityTerms(), other.GetPod(), nil, 1)
	weighted(q.info.GetPreferredAntiAffinityTerms(), other.GetPod(), nil, -1)
	if q.hardWeight > 0 {
		terms := other.GetRequiredAffinityTerms()
		for i := range terms {
			if terms[i].Matches(q.pod, q.namespaceLabels) {
				g.add(preferred, terms[i].TopologyKey, q.hardWeight)
			}
		}
	}
	weighted(other.GetPreferredAffinityTerms(), q.pod, q.namespaceLabels, 1)
	weighted(other.GetPreferredAntiAffinityTerms(), q.pod, q.namespaceLabels, -1)
}

// matchesAll reports whether the pod matches every one of the terms, of which there are some.
func matchesAll(terms []fwk.AffinityTerm, pod *v1.Pod) bool {
	for i := range terms {
		if !terms[i].Matches(pod, nil) {
			return false
		}
	}
	return len(terms) > 0
}

// find returns the memo of the key, nil if there is none.
func (s *memos) find(key []byte) *memo {
	m, ok := s.byKey[string(key)]
	if ok {
		s.takeOut(m)
		s.putLast(m)
	}
	return m
}

// keep takes in a new memo.
func (s *memos) keep(key []byte, m *memo) {
	if s.byKey == nil {
		s.byKey = map[string]*memo{}
	}
	m.key = string(key)
	s.byKey[m.key] = m
	s.putLast(m)
}

// putLast puts the memo behind all others in the order of their last use.
func (s *memos) putLast(m *memo) {
	m.older, m.newer = s.newest, nil
	if s.newest == nil {
		s.oldest = m
	} else {
		s.newest.newer = m
	}
	s.newest = m
}

// takeOut takes the memo out of the order.
func (s *memos) takeOut(m *memo) {
	if m.older == nil {
		s.oldest = m.newer
	} else {
		m.older.newer = m.newer
	}
	if m.newer == nil {
		s.newest = m.older
	} else {
		m.newer.older = m.older
	}
}

// account notes how large the memo is that was used just now, and drops those that were not used for longest if all
// together are too large.
func (s *memos) account(l *ledger, m *memo) {
	size := m.size()
	s.bytes += size - m.bytes
	m.bytes = size
	for len(s.byKey) > leastMemos && (len(l.topologies) > maxTopologies || s.bytes+l.size() > s.most) {
		s.dropOne(l, s.oldest)
	}
}

// dropOne forgets a memo, and the topologies that no other one counts by.
func (s *memos) dropOne(l *ledger, m *memo) {
	s.takeOut(m)
	delete(s.byKey, m.key)
	s.bytes -= m.bytes
	for i := range m.columns {
		l.release(m.columns[i].topology)
	}
}

// forget forgets the memos of the pods that ask such a thing.
func (s *memos) forget(l *ledger, such func(*question) bool) {
	for m := s.oldest; m != nil; {
		next := m.newer
		if such(&m.question) {
			s.dropOne(l, m)
		}
		m = next
	}
}

// drop forgets all memos, after the topologies were forgotten.
func (s *memos) drop() { s.byKey, s.oldest, s.newest, s.bytes = nil, nil, nil, 0 }
