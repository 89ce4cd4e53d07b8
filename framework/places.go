package framework

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// This file keeps the memos of a ranking up to date. It visits the nodes at some places, mostly the changed ones.

// findPlaceSurveyors collects the plugins that implement PlaceSurveyor.
func (p *Profile) findPlaceSurveyors() {
	for _, point := range []ExtensionPoint{Filter, Score} {
		for _, name := range p.at[point] {
			s, ok := p.plugins[name].(PlaceSurveyor)
			if ok && !slices.Contains(p.placeSurveyors, s) {
				p.placeSurveyors = append(p.placeSurveyors, s)
			}
		}
	}
}

// everywhere returns the places of all nodes.
func (m *classes) everywhere(nodes int) []int32 {
	for len(m.all) < nodes {
		m.all = append(m.all, int32(len(m.all)))
	}
	return m.all[:nodes]
}

// distinct returns the places without duplicates. The result is valid until the next call.
func (m *classes) distinct(places []int32, nodes int) []int32 {
	if len(m.seen) != nodes {
		m.seen = make([]bool, nodes)
	}
	out := m.places[:0]
	for _, at := range places {
		if !m.seen[at] {
			m.seen[at] = true
			out = append(out, at)
		}
	}
	for _, at := range out {
		m.seen[at] = false
	}
	m.places = out
	return out
}

// follower tracks the changed nodes for a memo that has all nodes.
type follower struct {
	all   bool   // the memo has had all nodes
	since uint64 // World.Changed's number at the last call of changed
}

// changed returns the places of the nodes that have changed since the last call. The memo must take them in now. all
// reports whether these are all nodes.
func (f *follower) changed(c *search, nodes int) (places []int32, all bool) {
	places, now, known := c.p.world.Changed(f.since)
	all = !f.all || !known || len(places) >= nodes
	*f = follower{all: true, since: now}
	if all {
		places = c.p.classes.everywhere(nodes)
	}
	return places, all
}

// learned is a follower for a memo that rehearsals write to as well. After a rehearsal it returns all nodes.
type learned struct {
	follower
	rehearsals uint64 // classes.rehearsals at the last call of behind
}

// behind returns the places of the nodes that the memo must take in.
func (l *learned) behind(c *search, nodes int) []int32 {
	if l.rehearsals != c.p.classes.rehearsals {
		*l = learned{rehearsals: c.p.classes.rehearsals}
	}
	places, _ := l.changed(c, nodes)
	return places
}

// learn filters the changed nodes with the filters of the pod's class, and lets plugins read these nodes. Afterwards
// the memo holds for every node without a check. It returns false if a plugin failed.
func (c *search) learn(nodes []fwk.NodeInfo) bool {
	m := &c.p.classes
	if places := m.read.behind(c, len(nodes)); len(places) > 0 {
		for _, s := range c.p.placeSurveyors {
			s.ReadNodes(nodes, places)
		}
	}
	for _, at := range c.class.filteredTo.behind(c, len(nodes)) {
		if c.class.filter(c, int(at), nodes[at]).IsError() {
			c.class.filteredTo.all = false
			return false
		}
	}
	return true
}

// passes returns the survey's results for the filters outside the class. all is false if one of the filters has no
// result.
func (c *search) passes() (known [][]bool, all bool) {
	known = c.passed[:0]
	for _, i := range c.outsideAt {
		if c.survey.passes[i] == nil {
			return nil, false
		}
		known = append(known, c.survey.passes[i])
	}
	c.passed = known
	return known, true
}

func passAll(passes [][]bool, at int32) bool {
	for _, pass := range passes {
		if !pass[at] {
			return false
		}
	}
	return true
}
