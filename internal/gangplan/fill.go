package gangplan

import (
	"cmp"
	"slices"

	"github.com/rollcall-sched/rollcall/cluster"
)

const (
	// maxMixes bounds the mixes of members that are compared for one node.
	maxMixes = 1_000
	// wholeNode is all that a node offers of a resource: mixes and nodes are compared in such parts.
	wholeNode = 1_000_000
)

// fill fills one node after the other with the mix of members that uses most of it, the fullest node first. Searches
// with higher numbers take the nodes in other orders. fill finds placements in full clusters, where place takes too
// many steps. It takes the members off again if it finds none. It leaves members that depend on one another, or that
// may choose their domain, to place.
func (s *Search) fill() bool {
	if s.dependent || slices.ContainsFunc(s.domains, func(d *domain) bool { return d.chosen == open }) {
		return false
	}
	var added []func()
	for _, node := range s.byRoom() {
		if s.left == 0 || s.exhausted() {
			break
		}
		for i, n := range s.bestMix(node) {
			for k := s.kinds[i]; n > 0 && k.on[node].usable(); n-- {
				takeOff := s.add(k, node)
				if takeOff == nil {
					break
				}
				added = append(added, takeOff)
			}
		}
	}
	if s.enough() {
		return true
	}
	for _, takeOff := range slices.Backward(added) {
		takeOff()
	}
	return false
}

// byRoom returns the nodes that a kind may use, the ones with the least room first.
func (s *Search) byRoom() (nodes []int) {
	most := make([]int64, len(s.resources))
	for node := range s.nodes {
		for r, name := range s.resources {
			most[r] = max(most[r], free(s.nodes[node], name))
		}
	}
	room := make([]int64, len(s.nodes))
	for node := range s.nodes {
		if !slices.ContainsFunc(s.kinds, func(k *kind) bool { return k.on[node].usable() }) {
			continue
		}
		room[node] = s.noise(node)
		for r, name := range s.resources {
			room[node] += cluster.Share(free(s.nodes[node], name), most[r], wholeNode)
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Or(cmp.Compare(room[a], room[b]), a-b) })
	return nodes
}

// noise changes a node's place in the order. It depends on the search's number and the node's index alone.
func (s *Search) noise(node int) int64 {
	if s.Number < 2 {
		return 0
	}
	x := uint64(s.Number)*0x9e3779b97f4a7c15 ^ uint64(node)*0xbf58476d1ce4e5b9 // as in splitmix64
	x = (x ^ x>>31) * 0x94d049bb133111eb
	return int64((x ^ x>>33) % wholeNode)
}

// mix is a number of members of each kind that a node has room for, by their requests.
type mix struct {
	search *Search
	kinds  []int   // the numbers of the kinds that may use the node, the largest first
	free   []int64 // by resource
	total  []int64 // by resource: what the node offers
	counts []int   // by kind
	best   []int
	most   int64 // what best uses: a sum of parts of wholeNode
	tried  int
}

// bestMix returns how many members of each kind to add to a node so that little of it is left.
func (s *Search) bestMix(node int) []int {
	m := &mix{search: s, counts: make([]int, len(s.kinds)), best: make([]int, len(s.kinds)), most: -1}
	for _, name := range s.resources {
		offered, taken := cluster.AmountOn(s.nodes[node], name)
		m.total, m.free = append(m.total, offered), append(m.free, offered-taken)
	}
	for i, k := range s.kinds {
		if k.left > 0 && k.on[node].usable() {
			m.kinds = append(m.kinds, i)
		}
	}
	slices.SortFunc(m.kinds, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.kinds[b].on[node].part, s.kinds[a].on[node].part), a-b)
	})
	m.add(m.kinds)
	s.compares += int64(m.tried)
	return m.best
}

// add tries members of the given kinds beside the ones that are counted: as many as possible of the first kind first.
func (m *mix) add(kinds []int) (perfect bool) {
	if len(kinds) == 0 || m.tried >= maxMixes {
		return m.compare()
	}
	i := kinds[0]
	k := m.search.kinds[i]
	n := int64(k.left)
	for r, request := range k.requests {
		if request > 0 && m.total[r] > 0 {
			n = min(n, max(0, m.free[r])/request)
		}
	}
	for ; n >= 0; n-- {
		m.take(k, n)
		m.counts[i] = int(n)
		perfect = m.add(kinds[1:])
		m.counts[i] = 0
		m.take(k, -n)
		if perfect || m.tried >= maxMixes {
			return perfect
		}
	}
	return false
}

func (m *mix) take(k *kind, n int64) {
	for r, request := range k.requests {
		m.free[r] -= n * request
	}
}

// compare keeps the counts if they use more than the best ones. It returns true if they leave nothing.
func (m *mix) compare() bool {
	m.tried++
	used, left := int64(0), false
	for r, offered := range m.total {
		if offered > 0 {
			used += cluster.Share(offered-m.free[r], offered, wholeNode)
			left = left || m.free[r] > 0
		}
	}
	if used > m.most {
		m.most = used
		copy(m.best, m.counts)
	}
	return !left
}
