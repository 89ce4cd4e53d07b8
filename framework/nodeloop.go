package framework

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
)

// This file is the loop over nodes: where a cycle spends its time, and the one place where it may one day
// be shared between goroutines. Its results are what a walk in node order gives.

// filterNodes filters nodes from index start on, around the end, until limit are feasible. It appends to
// c.feasible and c.refused and returns the first error, at which it stops.
func (c *search) filterNodes(nodes []fwk.NodeInfo, start, limit int) *fwk.Status {
	n := len(nodes)
	if n == 0 {
		return nil
	}
	next := start % n
	for range n {
		at := next
		if next++; next == n {
			next = 0
		}
		node := nodes[at]
		var status *fwk.Status
		if c.class != nil {
			status = c.class.filter(c, at, node)
		} else {
			status = c.filterNode(node)
		}
		if status == nil && c.reserved != nil {
			status = c.reserved(node)
		}
		if status == nil {
			c.feasible = append(c.feasible, node)
			if c.class != nil {
				c.feasibleAt = append(c.feasibleAt, at)
			}
			if len(c.feasible) >= limit {
				return nil
			}
			continue
		}
		if status.IsError() {
			return status
		}
		c.refused = append(c.refused, refusal{node, status})
	}
	return nil
}

// filterNode returns nil if the node is feasible. Pods nominated to it are taken into account.
func (c *search) filterNode(node fwk.NodeInfo) *fwk.Status {
	if c.nominator != nil {
		return c.p.filterNominated(c.ctx, c.state, c.pod, node, c.runFilters)
	}
	return c.runFilters(c.state, node)
}

func (c *search) runFilters(state fwk.CycleState, node fwk.NodeInfo) *fwk.Status {
	c.p.evaluations++
	for i := range c.filters {
		f := &c.filters[i]
		if status := f.plugin.Filter(c.ctx, state, c.pod, node); !status.IsSuccess() {
			return filterStatus(f.name, status)
		}
	}
	return nil
}

// filterStatus names the plugin in its status and makes an error of a code that Filter may not return.
func filterStatus(plugin string, status *fwk.Status) *fwk.Status {
	if !status.IsRejected() {
		status = fwk.AsStatus(fmt.Errorf("running %q filter plugin: %w", plugin, status.AsError()))
	}
	status.SetPlugin(plugin)
	return status
}

// scoreNodes fills lists[k][i] with the score that the k-th plugin gives the i-th node.
func (c *search) scoreNodes(scorers []scorer, nodes []fwk.NodeInfo, lists []fwk.NodeScoreList) *fwk.Status {
	if c.class != nil {
		c.class.keepScorers(scorers)
		for i, node := range nodes {
			if status := c.class.score(c, c.feasibleAt[i], i, node, scorers, lists); status != nil {
				return status
			}
		}
		return nil
	}
	for i, node := range nodes {
		name := node.Node().Name
		for k := range scorers {
			score, status := scorers[k].plugin.Score(c.ctx, c.state, c.pod, node)
			if !status.IsSuccess() {
				return failed("Score", scorers[k].name, status)
			}
			lists[k][i] = fwk.NodeScore{Name: name, Score: score}
		}
	}
	return nil
}
