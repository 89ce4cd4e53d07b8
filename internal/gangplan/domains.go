package gangplan

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Domain says that the members of some gangs must be on nodes with one value of each of some labels. Example: the gangs
// below a composite must be in one zone, and each of them in one rack. These are three Domains for two gangs.
type Domain struct {
	Labels []string
	Gangs  []*cluster.Group
	// Node is a node in the domain in which members of the gangs have nodes, "" if none of them has one.
	Node string
}

// open is the value of a domain that no member has chosen yet.
const open = -1

// domain is a Domain, and the value that the branch under way has chosen for it.
type domain struct {
	parts  []bool // by gang: its members must stay within the domain
	values []int  // by node: the number of its value, open for a node without one of the labels
	chosen int    // such a number, or open
}

// setDomains finds the values of all nodes.
func (s *Search) setDomains(index map[string]int) {
	for _, each := range s.Domains {
		d := &domain{chosen: open, parts: make([]bool, len(s.unit.gangs))}
		for i, g := range s.unit.gangs {
			d.parts[i] = slices.Contains(each.Gangs, g)
		}
		numbers := map[string]int{}
		for _, info := range s.nodes {
			d.values = append(d.values, numberOf(numbers, info.Node(), each.Labels))
		}
		if i, known := index[each.Node]; known {
			d.chosen = d.values[i]
		}
		s.domains = append(s.domains, d)
	}
}

// numberOf returns the number of a node's values of the labels, open if it lacks one.
func numberOf(numbers map[string]int, node *v1.Node, labels []string) int {
	values := make([]string, len(labels))
	for i, label := range labels {
		value, ok := node.Labels[label]
		if !ok {
			return open
		}
		values[i] = value
	}
	key := strings.Join(values, ",") // a comma is in no value
	if _, known := numbers[key]; !known {
		numbers[key] = len(numbers)
	}
	return numbers[key]
}

// inside reports whether a node is in a chosen domain, or in any if none is chosen.
func (d *domain) inside(node int) bool {
	return d.values[node] != open && (d.chosen == open || d.values[node] == d.chosen)
}

// allowed reports whether the domains allow members of a gang on a node.
func (s *Search) allowed(part, node int) bool {
	return !slices.ContainsFunc(s.domains, func(d *domain) bool { return d.parts[part] && !d.inside(node) })
}

// openFor returns a domain of a gang that is not chosen yet, nil if there is none.
func (s *Search) openFor(part int) *domain {
	for _, d := range s.domains {
		if d.parts[part] && d.chosen == open {
			return d
		}
	}
	return nil
}

// roomOf returns how many members the nodes of a kind have room for, by their requests alone. If a domain is still
// open, it returns the most that the nodes of one value have room for.
func (s *Search) roomOf(k *kind) (most int64) {
	d := s.openFor(k.part)
	if d == nil {
		return k.room
	}
	rooms := map[int]int64{}
	for _, node := range k.order {
		rooms[d.values[node]] += k.on[node].takes
		most = max(most, rooms[d.values[node]])
	}
	s.compares += int64(len(k.order))
	return most
}

// placeIn chooses a value of an open domain of a kind, and places a member of the kind there, and then the rest. The
// value of the node that the kind would try first comes first.
func (s *Search) placeIn(d *domain, k *kind) bool {
	inside := slices.DeleteFunc(slices.Clone(s.kinds), func(k *kind) bool { return !d.parts[k.part] || k.left == 0 })
	tried := map[int]bool{}
	for _, node := range slices.Clone(k.order) {
		value := d.values[node]
		if tried[value] {
			continue
		}
		tried[value] = true
		undo := s.choose(d, value)
		if s.reachable(inside...) && s.placeOne(k) {
			return true
		}
		undo()
		if s.stopped {
			return false
		}
	}
	return false
}

// choose chooses the value of an open domain: its members do not use other nodes until undo is called.
func (s *Search) choose(d *domain, value int) (undo func()) {
	d.chosen = value
	if s.dependent {
		return func() { d.chosen = open } // each step finds the feasible nodes again
	}
	var undos []func()
	for _, k := range s.kinds {
		if d.parts[k.part] && k.left > 0 {
			undos = append(undos, k.keepTo(d))
			s.compares += int64(len(k.on))
		}
	}
	return func() {
		d.chosen = open
		for _, undo := range slices.Backward(undos) {
			undo()
		}
	}
}

// chooseAt chooses the open domains of a gang by a node that a member gets.
func (s *Search) chooseAt(part, node int) (undo func()) {
	var undos []func()
	for d := s.openFor(part); d != nil; d = s.openFor(part) {
		undos = append(undos, s.choose(d, d.values[node]))
	}
	return func() {
		for _, undo := range slices.Backward(undos) {
			undo()
		}
	}
}

// keepTo stops a kind from using the nodes outside of a domain, until undo is called.
func (k *kind) keepTo(d *domain) (undo func()) {
	order, room := k.order, k.room
	k.order = nil
	var outside []int
	for _, node := range order {
		if d.inside(node) {
			k.order = append(k.order, node)
			continue
		}
		k.room -= k.on[node].takes
		k.on[node].outside = true
		outside = append(outside, node)
	}
	return func() {
		k.order, k.room = order, room
		for _, node := range outside {
			k.on[node].outside = false
		}
	}
}
