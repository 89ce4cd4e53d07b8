package framework

import (
	"fmt"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// This file is the loop over nodes, where a cycle spends most of its time. It is the one place that could share the
// work between goroutines one day. Its results equal a walk in the order of the nodes.

// filterNodes filters the nodes from index start on, wrapping around the end, until limit nodes are feasible. It
// appends to c.feasible and c.refused. It stops at the first error and returns it.
func (c *search) filterNodes(nodes []fwk.NodeInfo, start, limit int) *fwk.Status {
	n := len(nodes)
	if n == 0 {
		return nil
	}
	if c.class != nil {
		c.surveyFilters(nodes, nil)
	}
	next := start % n
	for range n {
		at := next
		if next++; next == n {
			next = 0
		}
		node := nodes[at]
		status := c.filterAt(at, node)
		if status == nil && c.reserved != nil {
			status = c.reserved.Why(node)
		}
		if status == nil {
			c.feasible = append(c.feasible, node)
			if c.class != nil {
				c.feasibleAt = append(c.feasibleAt, int32(at))
			}
			if len(c.feasible) >= limit {
				return nil
			}
			continue
		}
		if status.IsError() {
			c.trace.failed("Filter", node.Node().Name, status)
			return status
		}
		c.refused = append(c.refused, refusal{node, status})
	}
	return nil
}

// filterAt filters the node at index at. It uses the pod's class if the pod has one.
func (c *search) filterAt(at int, node fwk.NodeInfo) *fwk.Status {
	k := c.class
	if k == nil || c.nominator != nil && len(c.p.handle.NominatedPodsForNode(node.Node().Name)) > 0 {
		return c.filterNode(node)
	}
	status := k.filter(c, at, node)
	if len(c.outsideAt) == 0 {
		return status
	}
	// The first plugin in order that refuses the node gives the answer.
	end := len(c.filters)
	if status != nil {
		end = slices.IndexFunc(c.filters, func(f entry[fwk.FilterPlugin]) bool { return f.name == status.Plugin() })
	}
	for _, i := range c.outsideAt {
		if i > end {
			break
		}
		if c.survey.pass(i, at) {
			continue
		}
		c.p.apartEvaluations++
		f := &c.filters[i]
		if s := f.plugin.Filter(c.ctx, c.state, c.pod, node); !s.IsSuccess() {
			return filterStatus(f.name, s)
		}
	}
	return status
}

// filterNode returns nil if the node is feasible. It counts the pods nominated to the node as being there.
func (c *search) filterNode(node fwk.NodeInfo) *fwk.Status {
	if c.nominator != nil {
		return c.p.filterNominated(c.ctx, c.state, c.pod, node, c.runFilters)
	}
	return c.runFilters(c.state, node)
}

func (c *search) runFilters(state fwk.CycleState, node fwk.NodeInfo) *fwk.Status {
	c.p.evaluations++
	return c.run(c.filters, state, node)
}

func (c *search) run(filters []entry[fwk.FilterPlugin], state fwk.CycleState, node fwk.NodeInfo) *fwk.Status {
	for i := range filters {
		f := &filters[i]
		if status := f.plugin.Filter(c.ctx, state, c.pod, node); !status.IsSuccess() {
			return filterStatus(f.name, status)
		}
	}
	return nil
}

// filterStatus puts the plugin's name into its status. It turns a code that Filter may not return into an error.
func filterStatus(plugin string, status *fwk.Status) *fwk.Status {
	if !status.IsRejected() {
		status = fwk.AsStatus(fmt.Errorf("running %q filter plugin: %w", plugin, status.AsError()))
	}
	status.SetPlugin(plugin)
	return status
}

// scoreNodes fills lists[k][i] with the score that the k-th plugin gives the i-th node.
func (c *search) scoreNodes(scorers []scorer, nodes []fwk.NodeInfo, lists []fwk.NodeScoreList) *fwk.Status {
	c.apportion(scorers)
	raw := sized(c.rawScores, len(scorers))
	c.rawScores = raw
	for i, node := range nodes {
		at := 0
		if c.class != nil {
			at = int(c.feasibleAt[i])
		}
		if status := c.scoreAt(scorers, at, node, raw); status != nil {
			c.trace.failed("Score", node.Node().Name, status)
			return status
		}
		name := node.Node().Name
		for k, score := range raw {
			lists[k][i] = fwk.NodeScore{Name: name, Score: score}
		}
	}
	return nil
}

// apportion splits the scorers into the ones inside the class and the ones outside it.
func (c *search) apportion(scorers []scorer) {
	c.insideScorers, c.insideAt = c.insideScorers[:0], c.insideAt[:0]
	if c.class == nil {
		for range scorers {
			c.insideAt = append(c.insideAt, -1)
		}
		return
	}
	for _, s := range scorers {
		if c.member.outside[s.id] {
			c.insideAt = append(c.insideAt, -1)
			continue
		}
		c.insideAt = append(c.insideAt, len(c.insideScorers))
		c.insideScorers = append(c.insideScorers, s)
	}
	c.class.keepScorers(c.insideScorers)
}

// scoreAt fills raw with the plugins' scores for the node at index at.
func (c *search) scoreAt(scorers []scorer, at int, node fwk.NodeInfo, raw []int64) *fwk.Status {
	var inside []int64
	if len(c.insideScorers) > 0 {
		var status *fwk.Status
		if inside, status = c.class.score(c, at, node); status != nil {
			return status
		}
	}
	for k, in := range c.insideAt {
		if in >= 0 {
			raw[k] = inside[in]
			continue
		}
		if score, ok := c.survey.score(k, at); ok {
			raw[k] = score
			continue
		}
		score, status := scorers[k].plugin.Score(c.ctx, c.state, c.pod, node)
		if !status.IsSuccess() {
			return failed("Score", scorers[k].name, status)
		}
		raw[k] = score
	}
	return nil
}
