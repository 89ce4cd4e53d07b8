package framework

import (
	"cmp"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
)

// Reserved is what is kept from a pod for others, on nodes that have room for it.
type Reserved struct {
	// Why says why the pod must not go to a node that every plugin finds feasible, nil if it may go there, and names
	// its plugin in the status.
	Why func(node fwk.NodeInfo) *fwk.Status
	// Limited says that Why may refuse the nodes of these names only. They must not be changed.
	Limited bool
	Nodes   []string
}

// A ranking says what plugins say of nodes, and stays the same whatever is reserved. So nodes that are reserved are
// looked at after it: only those that are feasible, and with Limited only those of Nodes. Example: 5,000 nodes are
// full, 3 have room for a pod, and 16 are reserved. Why is asked of 3 nodes, or of none if no node has room.

// withheld is a node that plugins find feasible, and that is reserved for others.
type withheld struct {
	at     int32 // its place in the list of nodes
	status *fwk.Status
	total  int32 // the memory of bestInTree
}

// withhold finds the feasible nodes of a ranking that are reserved for others, in the order of the list. It returns
// false if that ends in an error.
func (c *search) withhold(r *ranking, nodes []fwk.NodeInfo) bool {
	c.withheld = c.withheld[:0]
	if c.reserved == nil || r.feasible == 0 {
		return true
	}
	if !c.reserved.Limited || len(c.reserved.Nodes) >= r.feasible {
		for at, refusal := range r.refusal {
			if refusal == 0 && !c.withholdAt(at, nodes[at]) {
				return false
			}
		}
		return true
	}
	for _, name := range c.reserved.Nodes {
		at, ok := slices.BinarySearchFunc(nodes, name, func(node fwk.NodeInfo, name string) int {
			return strings.Compare(node.Node().Name, name)
		})
		if ok && r.refusal[at] == 0 && !c.withholdAt(at, nodes[at]) {
			return false
		}
	}
	slices.SortFunc(c.withheld, func(a, b withheld) int { return cmp.Compare(a.at, b.at) })
	c.withheld = slices.CompactFunc(c.withheld, func(a, b withheld) bool { return a.at == b.at })
	return true
}

// withholdAt is withhold for one node.
func (c *search) withholdAt(at int, node fwk.NodeInfo) bool {
	c.p.reservedAsked++
	status := c.reserved.Why(node)
	if status != nil {
		c.withheld = append(c.withheld, withheld{at: int32(at), status: status})
	}
	return !status.IsError()
}

// withheldAt returns why the at-th node is withheld, nil if it is not.
func (c *search) withheldAt(at int) *fwk.Status {
	i, ok := slices.BinarySearchFunc(c.withheld, int32(at), func(w withheld, at int32) int {
		return cmp.Compare(w.at, at)
	})
	if !ok {
		return nil
	}
	return c.withheld[i].status
}

// bestBeside returns the best of the nodes that are not withheld, and its total; none if none is left. It returns false
// if a plugin failed, or gave a score that it may not give, or it is an error whether a node is reserved.
func (r *ranking) bestBeside(c *search, nodes []fwk.NodeInfo) (at int, total int32, ok bool) {
	if !c.withhold(r, nodes) {
		return 0, 0, false
	}
	if r.feasible == len(c.withheld) {
		return 0, 0, true
	}
	if len(c.withheld) == 0 {
		at = r.totals.first()
		return at, r.totals.numbers()[at], true
	}
	moved := false
	for i := range r.scales {
		s := &r.scales[i]
		s.beside = s.highestBeside(c.withheld)
		moved = moved || s.beside != s.highest
	}
	if moved || len(c.withheld)*fan > len(nodes) {
		return r.bestInList(c)
	}
	at, total = r.bestInTree(c)
	return at, total, true
}

// bestInTree takes the withheld nodes out of the tree, looks for the best, and puts them back.
func (r *ranking) bestInTree(c *search) (at int, total int32) {
	for i := range c.withheld {
		w := &c.withheld[i]
		w.total = r.totals.numbers()[w.at]
		r.totals.set(w.at, unranked)
	}
	at = r.totals.first()
	total = r.totals.numbers()[at]
	for _, w := range c.withheld {
		r.totals.set(w.at, w.total)
	}
	return at, total
}

// bestInList looks at all totals: many nodes are withheld, or what is left of the nodes has another highest raw score,
// by which each total is another one.
func (r *ranking) bestInList(c *search) (best int, most int32, ok bool) {
	most = unranked
	rest := c.withheld
	values := make([]map[int32]int32, len(r.scales)) // by scale: normalized by what is left, by raw score
	for at, total := range r.totals.numbers() {
		if len(rest) > 0 && int(rest[0].at) == at {
			rest = rest[1:]
			continue
		}
		if total == unranked {
			continue
		}
		for i := range r.scales {
			s := &r.scales[i]
			if s.beside == s.highest {
				continue
			}
			if values[i] == nil {
				values[i] = map[int32]int32{}
			}
			shift, ok := s.shiftBeside(c, values[i], s.rawAt(int32(at)))
			if !ok {
				return 0, 0, false
			}
			total += shift
		}
		if total > most {
			best, most = at, total
		}
	}
	return best, most, true
}

// highestBeside returns what the highest raw score is of the nodes that are not withheld.
func (s *scale) highestBeside(withheld []withheld) int32 {
	for _, w := range withheld {
		if raw := s.rawAt(w.at); raw != 0 {
			s.count[raw]--
		}
	}
	highest := int32(0)
	// any order: a maximum
	for raw, nodes := range s.count {
		if nodes > 0 {
			highest = max(highest, raw)
		}
	}
	for _, w := range withheld {
		if raw := s.rawAt(w.at); raw != 0 {
			s.count[raw]++
		}
	}
	return highest
}

// shiftBeside returns by how much the total of a node of a raw score changes if beside is the highest one. values are
// those that are known. It returns false where weighted does.
func (s *scale) shiftBeside(c *search, values map[int32]int32, raw int32) (int32, bool) {
	was, ok := s.weighted(c, raw)
	if !ok {
		return 0, false
	}
	now, known := values[raw]
	if !known {
		if now, ok = s.weightedBy(c, raw, s.beside); !ok {
			return 0, false
		}
		values[raw] = now
	}
	return now - was, true
}
