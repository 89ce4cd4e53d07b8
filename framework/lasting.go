package framework

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// This file is about Reserve plugins that keep what they reserve in their own memory, such as a limit per rack.

// Stateful may be implemented by a plugin that keeps what it reserves in its own memory. Unreserve has to bring back
// what was before Reserve: cycles that only decide call both. Its state is part of the scheduler's: it is in every
// snapshot and in the state's hash. Without it, a log of the plugin is always read from its first entry.
type Stateful interface {
	fwk.ReservePlugin
	// AppendState appends what the plugin remembers, in one canonical form: two instances that would answer all
	// questions alike append the same bytes. It may be called between any two entries, also beside PreBind and
	// PostBind.
	AppendState(dst []byte) []byte
	// RestoreState makes a new instance remember what AppendState has appended, and nothing else. It is called once,
	// when the listers have the objects of that moment and the handlers of informers were told of them. Each profile
	// has an instance, and a state, of its own.
	RestoreState(state []byte) error
}

// carriedOutReserve are the Reserve plugins of kube-scheduler whose reservations are in the Decision: the state of the
// cluster keeps them.
var carriedOutReserve = []string{names.VolumeBinding, names.DynamicResources}

// findLasting finds the Reserve plugins whose reservations last.
func (p *Profile) findLasting() {
	for _, e := range p.reserve {
		_, nothing := e.plugin.(ReservesNothing)
		if !nothing && !slices.Contains(carriedOutReserve, e.name) {
			p.lasting = append(p.lasting, e)
		}
	}
}

// Lasting returns the names of the Reserve plugins that keep what they reserve in their own memory, in the order in
// which they run. What they have reserved for a pod stays until its binding cycle ends.
func (p *Profile) Lasting() []string {
	names := make([]string, len(p.lasting))
	for i, e := range p.lasting {
		names[i] = e.name
	}
	return names
}

// ReserveLasting has the plugins of Lasting reserve a place that the log gives the pod. Another version of a plugin may
// answer that it cannot: the place is a fact, so what it answers is not asked for.
func (p *Profile) ReserveLasting(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	for _, e := range p.lasting {
		e.plugin.Reserve(ctx, state, pod, node)
	}
}

// UnreserveLasting has the plugins of Lasting give a place up, the last one first.
func (p *Profile) UnreserveLasting(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	for _, e := range slices.Backward(p.lasting) {
		e.plugin.Unreserve(ctx, state, pod, node)
	}
}

// Refused tells the plugins that reserve nothing that a pod is refused, before Reserve or while it waits: it is how the
// gang plugin has the members go that wait. For other plugins there is nothing to unreserve, or not yet: what a waiting
// pod has reserved is given up when the decision is applied.
func (p *Profile) Refused(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	for _, e := range slices.Backward(p.reserve) {
		if _, nothing := e.plugin.(ReservesNothing); nothing {
			e.plugin.Unreserve(ctx, state, pod, node)
		}
	}
}

// Prepare runs again what a pod's cycle ran before Reserve, for one node: PreFilter, Filter of the node and PreScore.
// The result has what the plugins left in the cycle's state. What they answer is not asked for.
func (p *Profile) Prepare(ctx context.Context, pod *v1.Pod, node string) fwk.CycleState {
	state := NewCycleState()
	nodes, err := p.stage.NodeInfos().List()
	if err != nil {
		return state
	}
	c := p.detached(ctx, state, pod)
	c.setPod(ctx, state, pod, nil)
	if status := c.preFilter(nodes); status.IsError() {
		return state
	}
	info, err := p.stage.NodeInfos().Get(node)
	if err != nil {
		return state
	}
	for _, f := range c.filters {
		f.plugin.Filter(ctx, state, pod, info)
	}
	c.feasible = append(c.feasible, info)
	c.preScore()
	return state
}

// StatefulPlugin is a plugin with a state of its own.
type StatefulPlugin struct {
	Name string
	Stateful
}

// Stateful returns the plugins of Lasting that have a state to be written down, and the name of the first that has
// none; "" if all of them have.
func (p *Profile) Stateful() (plugins []StatefulPlugin, without string) {
	for _, e := range p.lasting {
		if s, ok := e.plugin.(Stateful); ok {
			plugins = append(plugins, StatefulPlugin{e.name, s})
		} else if without == "" {
			without = e.name
		}
	}
	return plugins, without
}

// HasBindingCycle reports whether any plugin takes part in the binding cycle of a pod: it keeps what it reserves, or is
// called before, for or after the bind.
func (p *Profile) HasBindingCycle() bool { return p.bindingCycle }
