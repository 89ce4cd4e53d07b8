package framework

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// What a ranking asks of the nodes at some places, which are mostly those that have changed, and sometimes all.

// PlaceSurveyor may be implemented by a Surveyor that is also quick at some of the nodes, because it keeps what it
// reads of them from survey to survey. Places are indices in the list of nodes.
type PlaceSurveyor interface {
	Surveyor
	// ReadNodes tells that only the nodes at places may have changed since it was last called, or since another survey
	// of all nodes: what the two methods below say of the others rests on what was read before. Some places may be told
	// more than once, but if there are as many as nodes, they are those of all.
	ReadNodes(nodes []fwk.NodeInfo, places []int32)
	// SurveyFilterAt is SurveyFilter for the nodes at places, none of them twice. It sets pass at those, true or false.
	SurveyFilterAt(state fwk.CycleState, nodes []fwk.NodeInfo, places []int32, pass []bool) bool
	// SurveyScoreAt is SurveyScore for the nodes at places.
	SurveyScoreAt(state fwk.CycleState, nodes []fwk.NodeInfo, places []int32, scores []int64) bool
}

// findPlaceSurveyors notes the plugins that implement PlaceSurveyor.
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

// distinct returns the places, each once. It is valid until the next call.
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

// learned is up to where something is known of all nodes.
type learned struct {
	all        bool   // it was known of all nodes once
	since      uint64 // of World.Changed
	rehearsals uint64 // classes.rehearsals then: in a rehearsal something else may be learned of a node
}

// behind returns the places of the nodes of which something else may have to be learned, and notes that it was.
func (l *learned) behind(c *search, nodes int) []int32 {
	m := &c.p.classes
	places, now, known := c.p.world.Changed(l.since)
	if !l.all || l.rehearsals != m.rehearsals || !known || len(places) >= nodes {
		places = m.everywhere(nodes)
	}
	*l = learned{all: true, since: now, rehearsals: m.rehearsals}
	return places
}

// learn has the pod's class filter the nodes that have changed, and plugins read them, so that after it none of them is
// compared with what is known of it. It returns false if a plugin failed.
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

// surveyFiltersAt asks for the filters that stand apart from the class, at places only.
func (c *search) surveyFiltersAt(nodes []fwk.NodeInfo, places []int32) {
	s := &c.survey
	s.passes = sized(s.passes, len(c.filters))
	clear(s.passes)
	for n, i := range c.outsideAt {
		for len(s.passed) <= n {
			s.passed = append(s.passed, nil)
		}
		s.passed[n] = sized(s.passed[n], len(nodes))
		known := false
		if plugin, ok := c.filters[i].plugin.(PlaceSurveyor); ok {
			known = plugin.SurveyFilterAt(c.state, nodes, places, s.passed[n])
		} else if plugin, ok := c.filters[i].plugin.(Surveyor); ok && len(places) == len(nodes) {
			clear(s.passed[n])
			known = plugin.SurveyFilter(c.state, nodes, s.passed[n])
		}
		if known {
			s.passes[i] = s.passed[n]
		}
	}
}

// surveyScoresAt asks for the scorers that stand apart from the class, at places only.
func (c *search) surveyScoresAt(nodes []fwk.NodeInfo, places []int32) {
	s := &c.survey
	s.scores = sized(s.scores, len(c.scorers))
	clear(s.scores)
	for k, in := range c.insideAt {
		if in >= 0 {
			continue
		}
		for len(s.columns) <= k {
			s.columns = append(s.columns, nil)
		}
		s.columns[k] = sized(s.columns[k], len(nodes))
		known := false
		if plugin, ok := c.scorers[k].plugin.(PlaceSurveyor); ok {
			known = plugin.SurveyScoreAt(c.state, nodes, places, s.columns[k])
		} else if plugin, ok := c.scorers[k].plugin.(Surveyor); ok && len(places) == len(nodes) {
			known = plugin.SurveyScore(c.state, nodes, s.columns[k])
		}
		if known {
			s.scores[k] = s.columns[k]
		}
	}
}

// passes returns what the survey knows of the filters that stand apart from the class; all is false if one of these has
// to be asked itself.
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
