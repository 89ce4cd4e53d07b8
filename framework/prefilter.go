package framework

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// preFilter runs the PreFilter plugins and selects the Filter plugins to run. A plugin that answers Unschedulable does
// not stop the others, so that preemption finds their state ready. Its answer is the result unless a later plugin gives
// a worse one.
func (c *search) preFilter(nodes []fwk.NodeInfo) *fwk.Status {
	clear(c.skip)
	status := c.runPreFilters(nodes)
	c.noteSkipped(c.state)
	c.filters = c.filters[:0]
	for _, f := range c.p.filter {
		if !c.skip[f.id] {
			c.filters = append(c.filters, f)
		}
	}
	if status.IsSuccess() {
		c.trace.filters(c.p.filter, c.skip)
	}
	return status
}

// noteSkipped records in the cycle's state which Filter plugins to skip.
func (c *search) noteSkipped(state fwk.CycleState) {
	own, isOwn := state.(*CycleState)
	if isOwn {
		own.skipFilter.reset()
	}
	var set sets.Set[string]
	for _, e := range c.p.preFilter {
		switch {
		case !c.skip[e.id]:
		case isOwn:
			own.skipFilter.add(e.name)
		case set == nil:
			set = sets.New(e.name)
		default:
			set.Insert(e.name)
		}
	}
	if !isOwn {
		state.SetSkipFilterPlugins(set)
	}
}

func (c *search) runPreFilters(nodes []fwk.NodeInfo) *fwk.Status {
	var unschedulable *fwk.Status
	var narrowing []string // plugins that left only some nodes eligible
	left := int64(len(nodes))
	for _, e := range c.p.preFilter {
		if e.name == c.exempt.plugin {
			continue
		}
		result, status := c.runPreFilter(e, nodes)
		c.trace.preFilter(e.name, result, status)
		switch {
		case status.IsSkip():
			c.skip[e.id] = true
			continue
		case status.Code() == fwk.UnschedulableAndUnresolvable:
			status.SetPlugin(e.name)
			c.tally.add(status, 0)
			c.plugins = append(c.plugins[:0], e.name)
			return status
		case status.Code() == fwk.Unschedulable:
			status.SetPlugin(e.name)
			c.tally.add(status, 0)
			unschedulable = status
			continue
		case !status.IsSuccess():
			return failed("PreFilter", e.name, status)
		}
		if result.AllNodes() {
			continue
		}
		narrowing = append(narrowing, e.name)
		c.plugins = append(c.plugins, e.name)
		c.preFilters = c.preFilters.Merge(result)
		if len(c.preFilters.NodeNames) == 0 {
			return c.nothingLeft(narrowing)
		}
		now := c.existing()
		if now < left {
			reason := "node(s) didn't satisfy plugin " + e.name
			c.tally.count(rejectionKey{e.name, fwk.UnschedulableAndUnresolvable.String(), reason}, left-now)
			c.traceLeftOut(nodes, e.name, reason)
		}
		left = now
	}
	if len(narrowing) > 0 {
		c.absent = fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sorted(slices.Clone(narrowing))))
	}
	if unschedulable != nil {
		c.plugins = append(c.plugins, unschedulable.Plugin())
	}
	return unschedulable
}

// traceLeftOut records in the trace the nodes that the plugin has excluded. The tally has only their number.
func (c *search) traceLeftOut(nodes []fwk.NodeInfo, plugin, reason string) {
	if c.trace != nil {
		c.trace.leftOut(nodes, c.narrowed, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason).WithPlugin(plugin))
	}
}

// runPreFilter calls the plugin, or recalls its answer for an earlier pod of the template.
func (c *search) runPreFilter(e entry[fwk.PreFilterPlugin], nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if c.template == nil || !c.p.prepared[e.id] && !(c.claimless && c.p.claimless[e.id]) {
		return e.plugin.PreFilter(c.ctx, c.state, c.pod, nodes)
	}
	state, memo := c.state.(*CycleState), &c.template.preFilters[e.id]
	if memo.known {
		return nil, memo.recall(state)
	}
	before := len(state.data)
	result, status := e.plugin.PreFilter(c.ctx, c.state, c.pod, nodes)
	if result.AllNodes() && (status.IsSuccess() && c.p.prepared[e.id] || status.IsSkip()) {
		memo.keep(state, before, status.IsSkip())
	}
	return result, status
}

// nothingLeft returns the status if the PreFilter plugins together left no node eligible.
func (c *search) nothingLeft(narrowing []string) *fwk.Status {
	msg := "node(s) didn't satisfy plugin " + narrowing[0]
	if len(narrowing) > 1 {
		msg = fmt.Sprintf("node(s) didn't satisfy plugin(s) [%s] simultaneously",
			strings.Join(sorted(slices.Clone(narrowing)), " "))
	}
	for _, name := range narrowing {
		c.tally.add(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, msg).WithPlugin(name), 0)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, msg)
}

// existing puts the nodes that PreFilter left into c.narrowed, sorted by name, and returns their number.
func (c *search) existing() int64 {
	c.narrowed = c.narrowed[:0]
	for _, name := range sets.List(c.preFilters.NodeNames) {
		// The plugins may name nodes that do not exist.
		if node, err := c.p.stage.NodeInfos().Get(name); err == nil {
			c.narrowed = append(c.narrowed, node)
		}
	}
	return int64(len(c.narrowed))
}
