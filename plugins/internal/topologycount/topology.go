package topologycount

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Nowhere is the domain of a node that does not have the topology's label.
const Nowhere = -1

// Key names a topology: the nodes that have the same value of Label are one domain. With EachNode every node that has
// the label is a domain of its own.
type Key struct {
	Label    string
	EachNode bool
}

// Topology numbers the domains of a Key in the order in which they were first seen. A domain keeps its number when its
// last node goes.
type Topology struct {
	key Key
	ids map[string]int32
	at  []int32 // by place of the node; only while users > 0
	// users counts the columns of Counts that count by the topology.
	users int
}

func newTopology(key Key) *Topology { return &Topology{key: key, ids: map[string]int32{}} }

// Domains returns the domain of each node of the ledger's list. The caller must not change it. It is nil once no Counts
// count by the topology.
func (t *Topology) Domains() []int32 { return t.at }

// Size returns how many domains have a number, which are those below it.
func (t *Topology) Size() int { return len(t.ids) }

// value returns the name of the node's domain.
func (t *Topology) value(node *v1.Node) (string, bool) {
	value, ok := node.Labels[t.key.Label]
	if ok && t.key.EachNode {
		return node.Name, true
	}
	return value, ok
}

// Number returns the number of the node's domain, and numbers a domain that has none yet.
func (t *Topology) Number(node *v1.Node) int32 {
	value, ok := t.value(node)
	if !ok {
		return Nowhere
	}
	id, ok := t.ids[value]
	if !ok {
		id = int32(len(t.ids))
		t.ids[value] = id
	}
	return id
}

// look is Number for reading: a domain without a number gets one that no column has a count for.
func (t *Topology) look(node *v1.Node) int32 {
	value, ok := t.value(node)
	if !ok {
		return Nowhere
	}
	if id, ok := t.ids[value]; ok {
		return id
	}
	return int32(len(t.ids))
}

// topologies are the ones that Counts count by.
type topologies []*Topology

// find returns the topology of the key, nil if nobody counts by it.
func (s topologies) find(key Key) *Topology {
	for _, t := range s {
		if t.key == key {
			return t
		}
	}
	return nil
}

// place notes the domains of the node at that place.
func (s topologies) place(at int, node *v1.Node) {
	for _, t := range s {
		t.at[at] = t.Number(node)
	}
}

// resize makes the topologies ready for so many nodes.
func (s topologies) resize(nodes int) {
	for _, t := range s {
		t.at = resized(t.at, nodes)
	}
}

// outgrown reports whether a topology has numbers for many domains that must be gone.
func (s topologies) outgrown(nodes int) bool {
	return slices.ContainsFunc(s, func(t *Topology) bool { return len(t.ids) > 2*nodes+slack })
}

// release undoes one use. A topology that nobody uses is dropped; who still reads by it looks domains up by name.
func (s *topologies) release(t *Topology) {
	if t.users--; t.users == 0 {
		*s = slices.DeleteFunc(*s, func(other *Topology) bool { return other == t })
		t.at = nil
	}
}

// bytes estimates the memory that the topologies take.
func (s topologies) bytes() (n int) {
	for _, t := range s {
		n += 64 + 4*cap(t.at) + 60*len(t.ids)
	}
	return n
}

// resized returns the list with another length, in its own memory where that is large enough.
func resized[T any](list []T, length int) []T {
	kept := list[:min(len(list), length)]
	return slices.Grow(kept, length-len(kept))[:length]
}
