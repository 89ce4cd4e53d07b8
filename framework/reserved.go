package framework

import (
	"cmp"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
)

// Reserved has the reservations that keep a pod from nodes with room for it.
type Reserved struct {
	// Why returns the reason why the pod must not use a node that every plugin finds feasible, nil if it may. The
	// status names the plugin.
	Why func(node fwk.NodeInfo) *fwk.Status
	// Limited is set if Why can refuse only the nodes of Nodes. Callers must not change Nodes.
	Limited bool
	Nodes   []string
}

// A ranking has only the answers of plugins, and does not depend on reservations. A search checks reservations
// afterwards: only for feasible nodes, and with Limited only for the nodes of Nodes. Example: 5,000 nodes are full, 3
// have room for a pod, and 16 are reserved. Why is called for 3 nodes at most.

// heldBack is a feasible node that is reserved for others.
type heldBack struct {
	at     int32 // its place in the list of nodes
	status *fwk.Status
	total  int32 // the memory of bestInTree
}

// holdBack finds the feasible nodes of a ranking that are reserved for others, in the order of the list. It returns
// false after an error.
func (c *search) holdBack(r *ranking, nodes []fwk.NodeInfo) bool {
	c.heldBack = c.heldBack[:0]
	if c.reserved == nil || r.feasible == 0 {
		return true
	}
	if !c.reserved.Limited || len(c.reserved.Nodes) >= r.feasible {
		for at, refusal := range r.refusal {
			if refusal == 0 && !c.holdBackAt(at, nodes[at]) {
				return false
			}
		}
		return true
	}
	for _, name := range c.reserved.Nodes {
		at, ok := slices.BinarySearchFunc(nodes, name, func(node fwk.NodeInfo, name string) int {
			return strings.Compare(node.Node().Name, name)
		})
		if ok && r.refusal[at] == 0 && !c.holdBackAt(at, nodes[at]) {
			return false
		}
	}
	slices.SortFunc(c.heldBack, func(a, b heldBack) int { return cmp.Compare(a.at, b.at) })
	c.heldBack = slices.CompactFunc(c.heldBack, func(a, b heldBack) bool { return a.at == b.at })
	return true
}

// holdBackAt is holdBack for one node.
func (c *search) holdBackAt(at int, node fwk.NodeInfo) bool {
	c.p.reservedAsked++
	status := c.reserved.Why(node)
	if status != nil {
		c.heldBack = append(c.heldBack, heldBack{at: int32(at), status: status})
	}
	return !status.IsError()
}

// heldBackAt returns the reason why the node at index at is held back, nil if it is not.
func (c *search) heldBackAt(at int) *fwk.Status {
	i, ok := slices.BinarySearchFunc(c.heldBack, int32(at), func(w heldBack, at int32) int {
		return cmp.Compare(w.at, at)
	})
	if !ok {
		return nil
	}
	return c.heldBack[i].status
}

// bestBeside returns the best node that is not held back, and its total; both are 0 if no node is left. ok is false if
// a plugin failed, gave a score out of range, or the check of a reservation failed.
func (r *ranking) bestBeside(c *search, nodes []fwk.NodeInfo) (at int, total int32, ok bool) {
	if !c.holdBack(r, nodes) {
		return 0, 0, false
	}
	if r.feasible == len(c.heldBack) {
		return 0, 0, true
	}
	if len(c.heldBack) == 0 {
		at = r.totals.first()
		return at, r.totals.numbers()[at], true
	}
	moved := false
	for i := range r.scales {
		s := &r.scales[i]
		s.beside = s.highestBeside(c.heldBack)
		moved = moved || s.beside != s.highest
	}
	if moved || len(c.heldBack)*fan > len(nodes) {
		return r.bestInList(c)
	}
	at, total = r.bestInTree(c)
	return at, total, true
}

// bestInTree removes the nodes that are held back from the tree, finds the best one, and puts them back.
func (r *ranking) bestInTree(c *search) (at int, total int32) {
	for i := range c.heldBack {
		w := &c.heldBack[i]
		w.total = r.totals.numbers()[w.at]
		r.totals.set(w.at, unranked)
	}
	at = r.totals.first()
	total = r.totals.numbers()[at]
	for _, w := range c.heldBack {
		r.totals.set(w.at, w.total)
	}
	return at, total
}

// bestInList compares all totals. It is for many nodes that are held back. It is also for a different highest raw score
// of the nodes that are left, because that changes every total.
func (r *ranking) bestInList(c *search) (best int, most int32, ok bool) {
	most = unranked
	rest := c.heldBack
	// By scale and raw score: the normalized score among the nodes that are left.
	values := make([]map[int32]int32, len(r.scales))
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

// highestBeside returns the highest raw score of the nodes that are not held back.
func (s *scale) highestBeside(heldBack []heldBack) int32 {
	for _, w := range heldBack {
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
	for _, w := range heldBack {
		if raw := s.rawAt(w.at); raw != 0 {
			s.count[raw]++
		}
	}
	return highest
}

// shiftBeside returns the change of a total if beside is the highest raw score. raw is the node's raw score. values has
// the results so far. It returns false if weighted does.
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
