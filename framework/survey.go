package framework

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// Surveyor may be implemented by a plugin that answers faster for all nodes at once than one by one. Its Filter and
// Score must give the same answers. A survey is used only for a pod whose class does not include the plugin.
type Surveyor interface {
	// SurveyFilter sets pass[i] for the nodes for which Filter would return success. It may leave some of them out. It
	// returns false if it cannot answer for any node.
	SurveyFilter(state fwk.CycleState, nodes []fwk.NodeInfo, pass []bool) bool
	// SurveyScore sets scores[i] to Score's result for nodes[i], also if the node is not feasible. It returns false if
	// it cannot; then the content of scores is undefined.
	SurveyScore(state fwk.CycleState, nodes []fwk.NodeInfo, scores []int64) bool
}

// PlaceSurveyor may be implemented by a Surveyor that keeps data about nodes from survey to survey, so that it can also
// answer quickly for some of the nodes. Places are indices in the list of nodes.
type PlaceSurveyor interface {
	Surveyor
	// ReadNodes reads the nodes at places. Only these may have changed since the last call or the last survey of all
	// nodes. The two methods below use the earlier data about the others. A place may occur more than once. But if
	// there are as many places as nodes, they cover all nodes.
	ReadNodes(nodes []fwk.NodeInfo, places []int32)
	// SurveyFilterAt is SurveyFilter for the nodes at places, without duplicates. It sets pass for each of them, to
	// true or false.
	SurveyFilterAt(state fwk.CycleState, nodes []fwk.NodeInfo, places []int32, pass []bool) bool
	// SurveyScoreAt is SurveyScore for the nodes at places.
	SurveyScoreAt(state fwk.CycleState, nodes []fwk.NodeInfo, places []int32, scores []int64) bool
}

// ColumnNormalizer may be implemented by a Surveyor whose NormalizeScore needs no names of nodes. It is used only for
// scores from SurveyScore.
type ColumnNormalizer interface {
	// NormalizeColumn does the work of NormalizeScore on the scores of the feasible nodes. at has their places in the
	// list that SurveyScore received. It returns false, with nothing changed, if it cannot; then NormalizeScore runs.
	NormalizeColumn(state fwk.CycleState, at []int32, column []int64) bool
}

// Changes may be implemented by the Handle. With it, plugins that keep data about nodes learn which nodes have changed.
type Changes interface {
	// ChangedSince returns the places of the nodes that have changed or whose pods have changed. It covers the time
	// since the call that returned since as now. A place may occur more than once. ok is false if it does not know, for
	// example in a rehearsal.
	ChangedSince(since Mark) (places []int32, now Mark, ok bool)
}

// Mark is a point between two changes of nodes. The zero Mark is no such point.
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

// Sharer may be implemented by the Handle. With it, plugins of one profile share data that they keep from pod to pod.
type Sharer interface {
	// Share returns the result of create from the first call with the name.
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

// survey has the answers of Surveyors about all nodes in the current search.
type survey struct {
	passes  [][]bool  // by index in search.filters; nil: the plugin must be called
	scores  [][]int64 // by index in search.scorers
	passed  [][]bool  // the memory of passes
	columns [][]int64
}

func (s *survey) reset() { s.passes, s.scores = s.passes[:0], s.scores[:0] }

// surveyFilters surveys the filters outside the class, about the nodes at places, or about all nodes if places is nil.
// Plugins must have read the nodes at places before, see PlaceSurveyor.ReadNodes.
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

// surveyScores surveys the scorers outside the class, as surveyFilters does.
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

// readColumn fills the column with the raw scores of the scorer at index k, for the nodes at places. It returns false
// if the plugin failed.
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

// sized returns a list of that length, in the memory of list if it is large enough. The content is undefined.
func sized[T any](list []T, length int) []T { return slices.Grow(list[:0], length)[:length] }

// pass reports whether the survey found that the filter passes the node at index at.
func (s *survey) pass(filter, at int) bool {
	return filter < len(s.passes) && s.passes[filter] != nil && s.passes[filter][at]
}

// score returns the survey's score of the scorer for the node at index at.
func (s *survey) score(scorer, at int) (int64, bool) {
	if scorer >= len(s.scores) || s.scores[scorer] == nil {
		return 0, false
	}
	return s.scores[scorer][at], true
}

// onlyAt returns places as a list that is not nil, because surveys take nil to mean all nodes.
func onlyAt(places []int32) []int32 {
	if places == nil {
		return []int32{}
	}
	return places
}
