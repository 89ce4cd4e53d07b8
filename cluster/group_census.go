package cluster

import "k8s.io/apimachinery/pkg/types"

// facts are the fields of a pod that its gang's members must agree on, or that a member must not have. They are read
// once, when the pod's object comes.
type facts struct {
	naming    string // how it names two gangs, "" if it does not
	fault     string // what is wrong with its terms, "" for nothing
	terms     terms  // the zero value: it has none
	own       own    // the zero value: it says nothing
	priority  int32
	scheduler string
	parts     memberParts
	// controller is the UID of its controller, "" for none.
	controller types.UID
}

// census counts members by the value of one fact, and knows two that a message about a contradiction can name.
// A pod that comes costs the same however many there are; so does one that goes, unless it is one of the two and
// they are asked for.
type census[T comparable] struct {
	count map[T]int
	// first is the first member by name. other is the first by name whose value differs from the value of first. Both
	// are nil if there is none, or if lost.
	first, other *Pod
	lost         bool
}

// fact returns the value of a pod; ok is false for one that is not counted.
type fact[T comparable] func(p *Pod) (value T, ok bool)

func namingFact(p *Pod) (string, bool)    { return p.facts.naming, p.facts.naming != "" }
func faultFact(p *Pod) (string, bool)     { return p.facts.fault, p.facts.fault != "" }
func termsFact(p *Pod) (terms, bool)      { return p.facts.terms, p.facts.terms != terms{} }
func ownFact(p *Pod) (own, bool)          { return p.facts.own, p.facts.own != own{} }
func priorityFact(p *Pod) (int32, bool)   { return p.facts.priority, true }
func schedulerFact(p *Pod) (string, bool) { return p.facts.scheduler, true }

func controllerFact(p *Pod) (types.UID, bool) { return p.facts.controller, true }

func (c *census[T]) add(p *Pod, of fact[T]) {
	value, ok := of(p)
	if !ok {
		return
	}
	if c.count == nil {
		c.count = map[T]int{}
	}
	c.count[value]++
	if !c.lost {
		c.see(p, value, of)
	}
}

// see makes p first or other if it is.
func (c *census[T]) see(p *Pod, value T, of fact[T]) {
	if c.first == nil {
		c.first = p
		return
	}
	first, _ := of(c.first)
	switch {
	case comparePods(p, c.first) < 0:
		if first != value {
			c.other = c.first
		}
		c.first = p
	case first != value && (c.other == nil || comparePods(p, c.other) < 0):
		c.other = p
	}
}

func (c *census[T]) remove(p *Pod, of fact[T]) {
	value, ok := of(p)
	if !ok {
		return
	}
	if c.count[value]--; c.count[value] == 0 {
		delete(c.count, value)
	}
	if p == c.first || p == c.other {
		c.first, c.other, c.lost = nil, nil, len(c.count) > 0
	}
}

// sides returns first and other. members are all of the gang's.
func (c *census[T]) sides(members map[types.UID]*Pod, of fact[T]) (first, other *Pod) {
	if c.lost {
		c.lost = false
		// any order: the first by name is found
		for _, p := range members {
			if value, ok := of(p); ok {
				c.see(p, value, of)
			}
		}
	}
	return c.first, c.other
}

// Nodeless reports whether no member has a node: none is bound or being bound, waits, or is leaving.
func (g *Group) Nodeless() bool { return g.counts.Members() == g.counts.Pending }
