package framework

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// Surveyor may be implemented by a plugin that is quicker at all nodes together than at one after the other. Its Filter
// and Score must give the same answers; a survey is asked only for a pod whose class the plugin stands apart from.
type Surveyor interface {
	// SurveyFilter sets pass[i] for each of the nodes for which Filter would return success, as far as it can tell. It
	// returns false if it can tell of none.
	SurveyFilter(state fwk.CycleState, nodes []fwk.NodeInfo, pass []bool) bool
	// SurveyScore sets scores[i] to what Score would return for nodes[i], also where the node is not feasible. It
	// returns false if it cannot, and scores is of no use then.
	SurveyScore(state fwk.CycleState, nodes []fwk.NodeInfo, scores []int64) bool
}

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

// ColumnNormalizer may be implemented by a Surveyor whose NormalizeScore needs no names of nodes. It is asked only for
// scores of which SurveyScore gave some.
type ColumnNormalizer interface {
	// NormalizeColumn does what NormalizeScore does to the scores of the feasible nodes; at are their places in the
	// list that SurveyScore was given. It returns false, and has changed nothing, if it cannot: then NormalizeScore is
	// asked.
	NormalizeColumn(state fwk.CycleState, at []int32, column []int64) bool
}

// Changes may be implemented by the Handle: it tells plugins that keep what they know of nodes which have changed.
type Changes interface {
	// ChangedSince returns the places of the nodes that have changed, or whose pods have, since the call that returned
	// since as now, some of them more than once. ok is false if it cannot tell, as it cannot in a rehearsal.
	ChangedSince(since Mark) (places []int32, now Mark, ok bool)
}

// Mark is a point between two changes of nodes. The zero Mark is none.
type Mark struct {
	Version, Change uint64
	Valid           bool
}

// ChangedSince implements Changes.
func (h *handle) ChangedSince(since Mark) (places []int32, now Mark, ok bool) {
	w := &h.p.world
	if h.p.stage.changed != nil || w.Changed == nil || w.Version == nil {
		return nil, Mark{}, false
	}
	now = Mark{Version: w.Version(), Valid: true}
	places, now.Change, ok = w.Changed(since.Change)
	return places, now, ok && since.Valid && since.Version == now.Version
}

// Sharer may be implemented by the Handle: it lets plugins of one profile share what they keep from pod to pod.
type Sharer interface {
	// Share returns what create returned when Share was first called with the name.
	Share(name string, create func() any) any
}

// Share implements Sharer.
func (h *handle) Share(name string, create func() any) any {
	shared, ok := h.shared[name]
	if !ok {
		if h.shared == nil {
			h.shared = map[string]any{}
		}
		shared = create()
		h.shared[name] = shared
	}
	return shared
}

// survey is what Surveyors said of all nodes in the search under way.
type survey struct {
	passes  [][]bool  // by filter of search.filters; nil: the plugin has to be asked
	scores  [][]int64 // by scorer of search.scorers
	passed  [][]bool  // the memory of passes and scores
	columns [][]int64
}

func (s *survey) reset() { s.passes, s.scores = s.passes[:0], s.scores[:0] }

// surveyFilters asks the filters that stand apart from the class, about the nodes at places, or about all nodes if
// places is nil. Plugins have read the nodes at places before, see PlaceSurveyor.ReadNodes.
func (c *search) surveyFilters(nodes []fwk.NodeInfo, places []int32) {
	s := &c.survey
	s.passes = sized(s.passes, len(c.filters))
	clear(s.passes)
	for n, i := range c.outsideAt {
		for len(s.passed) <= n {
			s.passed = append(s.passed, nil)
		}
		s.passed[n] = sized(s.passed[n], len(nodes))
		known := false
		if plugin, ok := c.filters[i].plugin.(PlaceSurveyor); ok && places != nil {
			known = plugin.SurveyFilterAt(c.state, nodes, places, s.passed[n])
		} else if plugin, ok := c.filters[i].plugin.(Surveyor); ok && (places == nil || len(places) == len(nodes)) {
			clear(s.passed[n])
			known = plugin.SurveyFilter(c.state, nodes, s.passed[n])
		}
		if known {
			s.passes[i] = s.passed[n]
		}
	}
}

// surveyScores asks the scorers that stand apart from the class, as surveyFilters does.
func (c *search) surveyScores(nodes []fwk.NodeInfo, places []int32) {
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
		if plugin, ok := c.scorers[k].plugin.(PlaceSurveyor); ok && places != nil {
			known = plugin.SurveyScoreAt(c.state, nodes, places, s.columns[k])
		} else if plugin, ok := c.scorers[k].plugin.(Surveyor); ok && (places == nil || len(places) == len(nodes)) {
			known = plugin.SurveyScore(c.state, nodes, s.columns[k])
		}
		if known {
			s.scores[k] = s.columns[k]
		}
	}
}

// readColumn fills the column with the k-th scorer's raw scores of the nodes at places. It returns false if a plugin
// failed.
func (c *search) readColumn(k int, nodes []fwk.NodeInfo, places []int32) bool {
	c.column = sized(c.column, len(places))
	if in := c.insideAt[k]; in >= 0 {
		raw, n := c.class.raw, len(c.insideScorers)
		for i, at := range places {
			c.column[i] = raw[int(at)*n+in]
		}
		return true
	}
	if all := c.survey.scores[k]; all != nil {
		for i, at := range places {
			c.column[i] = all[at]
		}
		return true
	}
	for i, at := range places {
		score, status := c.scorers[k].plugin.Score(c.ctx, c.state, c.pod, nodes[at])
		if !status.IsSuccess() {
			return false
		}
		c.column[i] = score
	}
	return true
}

// sized returns a list of that length, in the memory of one that is not needed any more. What it holds is left over.
func sized[T any](list []T, length int) []T { return slices.Grow(list[:0], length)[:length] }

// pass says that the survey knows of the filter that it lets the at-th node pass.
func (s *survey) pass(filter, at int) bool {
	return filter < len(s.passes) && s.passes[filter] != nil && s.passes[filter][at]
}

// score returns what the survey knows of the scorer at the at-th node.
func (s *survey) score(scorer, at int) (int64, bool) {
	if scorer >= len(s.scores) || s.scores[scorer] == nil {
		return 0, false
	}
	return s.scores[scorer][at], true
}

// onlyAt returns places as a list that is not nil: surveys take nil for all nodes.
func onlyAt(places []int32) []int32 {
	if places == nil {
		return []int32{}
	}
	return places
}
