package framework

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// choose scores the feasible nodes and takes the best.
func (c *search) choose(out Placement) Placement {
	if len(c.feasible) == 1 {
		c.trace.only(c.feasible[0].Node())
		out.Node = c.feasible[0].Node().Name
		out.Rejections = c.tally.rejections()
		return out
	}
	if status := c.rate(); status != nil {
		return c.fail(status, out)
	}
	best, bestTotal := "", int64(0)
	for i, node := range c.feasible {
		name := node.Node().Name
		total := c.verdict.score(name)
		for k := range c.scorers {
			total += c.lists[k][i].Score * c.scorers[k].weight
		}
		if best == "" || total > bestTotal || total == bestTotal && name < best {
			best, bestTotal = name, total
		}
	}
	c.trace.total(c.lists, c.verdict)
	out.Node, out.Score = best, bestTotal
	out.Rejections = c.tally.rejections()
	return out
}

// chooseByClass is choose for a pod with a class. It works plugin by plugin instead of node by node. It returns false,
// with nothing changed, if a plugin failed or gave a score out of range. The caller must then use choose, which reports
// the error.
func (c *search) chooseByClass(nodes []fwk.NodeInfo, out *Placement) bool {
	if len(c.feasible) < 2 || c.preScore() != nil {
		return false
	}
	c.apportion(c.scorers)
	c.surveyScores(nodes, nil)
	if len(c.insideScorers) > 0 {
		for i, at := range c.feasibleAt {
			if _, status := c.class.score(c, int(at), c.feasible[i]); status != nil {
				return false
			}
		}
	}
	c.totals = sized(c.totals, len(c.feasible))
	clear(c.totals)
	for k := range c.scorers {
		if !c.readColumn(k, nodes, c.feasibleAt) || !c.normalizeColumn(k) {
			return false
		}
		weight := c.scorers[k].weight
		for i, score := range c.column {
			if score < fwk.MinScore || score > fwk.MaxScore {
				return false
			}
			c.totals[i] += score * weight
		}
	}
	best := 0
	for i, total := range c.totals {
		if total > c.totals[best] || total == c.totals[best] && c.feasibleAt[i] < c.feasibleAt[best] {
			best = i
		}
	}
	out.Node, out.Score = c.feasible[best].Node().Name, c.totals[best]
	out.Rejections = c.tally.rejections()
	return true
}

// normalizeColumn normalizes the column with the scorer at index k. It returns false if the plugin failed.
func (c *search) normalizeColumn(k int) bool {
	s := &c.scorers[k]
	ext := s.plugin.ScoreExtensions()
	if ext == nil {
		return true
	}
	if slices.Contains(normalizedByHighest, s.name) {
		return c.normalizeByHighest(s)
	}
	if n, ok := s.plugin.(ColumnNormalizer); ok && c.survey.scores[k] != nil &&
		n.NormalizeColumn(c.state, c.feasibleAt, c.column) {
		return true
	}
	list := sized(c.scores, len(c.feasible))
	c.scores = list
	for i, score := range c.column {
		list[i] = fwk.NodeScore{Name: c.feasible[i].Node().Name, Score: score}
	}
	if !ext.NormalizeScore(c.ctx, c.state, c.pod, list).IsSuccess() {
		return false
	}
	for i := range list {
		c.column[i] = list[i].Score
	}
	return true
}

// normalizeByHighest calls the plugin once for each run of equal raw scores in the column.
func (c *search) normalizeByHighest(s *scorer) bool {
	highest, last, value := max(0, slices.Max(c.column)), int64(-1), int64(0)
	for i, raw := range c.column {
		if raw != last || i == 0 {
			var ok bool
			if value, ok = c.normalizedBeside(s, raw, highest); !ok {
				return false
			}
			last = raw
		}
		c.column[i] = value
	}
	return true
}

// rate leaves the normalized scores of the feasible nodes in c.lists, by plugin of c.scorers.
func (c *search) rate() *fwk.Status {
	if status := c.preScore(); status != nil {
		return status
	}
	n := len(c.feasible)
	if need := n * len(c.scorers); cap(c.scores) < need {
		c.scores = make([]fwk.NodeScore, need)
	}
	c.lists = c.lists[:0]
	for k := range c.scorers {
		c.lists = append(c.lists, c.scores[k*n:(k+1)*n:(k+1)*n])
	}
	if status := c.scoreNodes(c.scorers, c.feasible, c.lists); status != nil {
		return status
	}
	c.trace.raw(c.scorers, c.lists)
	status := c.p.normalize(c.ctx, c.state, c.pod, c.scorers, c.lists)
	if status != nil {
		c.trace.failed("NormalizeScore", "", status)
	}
	return status
}

// preScore runs the PreScore plugins and selects the Score plugins to run.
func (c *search) preScore() *fwk.Status {
	clear(c.skip)
	own, isOwn := c.state.(*CycleState)
	var set sets.Set[string]
	if isOwn {
		own.skipScore.reset()
	} else {
		set = sets.New[string]()
	}
	for _, e := range c.p.preScore {
		status := c.runPreScore(e)
		c.trace.preScore(e.name, status)
		switch {
		case status.IsSkip() && isOwn:
			c.skip[e.id] = true
			own.skipScore.add(e.name)
		case status.IsSkip():
			c.skip[e.id] = true
			set.Insert(e.name)
		case !status.IsSuccess():
			return failed("PreScore", e.name, status)
		}
	}
	if !isOwn {
		c.state.SetSkipScorePlugins(set)
	}
	c.scorers = c.scorers[:0]
	for _, s := range c.p.score {
		if !c.skip[s.id] {
			c.scorers = append(c.scorers, s)
		}
	}
	c.trace.scorers(c.p.score, c.skip)
	return nil
}

// runPreScore calls the plugin, or recalls its answer for an earlier pod of the template.
func (c *search) runPreScore(e entry[fwk.PreScorePlugin]) *fwk.Status {
	if c.template == nil || !c.p.prepared[e.id] {
		return e.plugin.PreScore(c.ctx, c.state, c.pod, c.feasible)
	}
	state, memo := c.state.(*CycleState), &c.template.preScores[e.id]
	if memo.known {
		return memo.recall(state)
	}
	before := len(state.data)
	status := e.plugin.PreScore(c.ctx, c.state, c.pod, c.feasible)
	if status.IsSuccess() || status.IsSkip() {
		memo.keep(state, before, status.IsSkip())
	}
	return status
}

// normalize runs NormalizeScore and checks that each result is between 0 and 100.
func (p *Profile) normalize(ctx context.Context, state fwk.CycleState, pod *v1.Pod, scorers []scorer,
	lists []fwk.NodeScoreList) *fwk.Status {
	for k, s := range scorers {
		if ext := s.plugin.ScoreExtensions(); ext != nil {
			if status := ext.NormalizeScore(ctx, state, pod, lists[k]); !status.IsSuccess() {
				return failed("NormalizeScore", s.name, status)
			}
		}
		for _, score := range lists[k] {
			if score.Score < fwk.MinScore || score.Score > fwk.MaxScore {
				return fwk.AsStatus(fmt.Errorf("plugin %q gives node %q the score %d, "+
					"which after normalizing must lie in [%d, %d]",
					s.name, score.Name, score.Score, fwk.MinScore, fwk.MaxScore)).WithPlugin(s.name)
			}
		}
	}
	return nil
}

// failed turns a plugin's status into an error, at a point where the plugin may only succeed.
func failed(point, plugin string, status *fwk.Status) *fwk.Status {
	return fwk.AsStatus(fmt.Errorf("running %s plugin %q: %w", point, plugin, status.AsError())).WithPlugin(plugin)
}
