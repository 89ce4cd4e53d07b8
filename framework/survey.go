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

// ColumnNormalizer may be implemented by a Surveyor whose NormalizeScore needs no names of nodes. It is asked only for
// scores of which SurveyScore gave some.
type ColumnNormalizer interface {
	// NormalizeColumn does what NormalizeScore does to the scores of the feasible nodes; at are their places in the
	// list that SurveyScore was given. It returns false, and has changed nothing, if it cannot: then NormalizeScore is
	// asked.
	NormalizeColumn(state fwk.CycleState, at []int, column []int64) bool
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

// surveyFilters asks for the filters that stand apart from the class.
func (c *search) surveyFilters(nodes []fwk.NodeInfo) {
	s := &c.survey
	s.passes = sized(s.passes, len(c.filters))
	clear(s.passes)
	for n, i := range c.outsideAt {
		plugin, ok := c.filters[i].plugin.(Surveyor)
		if !ok {
			continue
		}
		for len(s.passed) <= n {
			s.passed = append(s.passed, nil)
		}
		s.passed[n] = sized(s.passed[n], len(nodes))
		clear(s.passed[n])
		if plugin.SurveyFilter(c.state, nodes, s.passed[n]) {
			s.passes[i] = s.passed[n]
		}
	}
}

// surveyScores asks for the scorers that stand apart from the class.
func (c *search) surveyScores(nodes []fwk.NodeInfo) {
	s := &c.survey
	s.scores = sized(s.scores, len(c.scorers))
	clear(s.scores)
	for k, in := range c.insideAt {
		plugin, ok := c.scorers[k].plugin.(Surveyor)
		if in >= 0 || !ok {
			continue
		}
		for len(s.columns) <= k {
			s.columns = append(s.columns, nil)
		}
		s.columns[k] = sized(s.columns[k], len(nodes))
		if plugin.SurveyScore(c.state, nodes, s.columns[k]) {
			s.scores[k] = s.columns[k]
		}
	}
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
