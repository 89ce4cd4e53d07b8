package framework

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// This file handles Reserve plugins that keep reservations in their own memory, such as a limit per rack.

// Stateful may be implemented by a plugin that keeps reservations in its own memory. Its state is part of the
// scheduler's state: it is in every snapshot and in the state's hash. Without this interface, a log that uses the
// plugin is always read from its first entry.
//
// Unreserve must restore the state before Reserve, because cycles that only decide call both.
type Stateful interface {
	fwk.ReservePlugin
	// AppendState appends the plugin's state in one canonical form: two instances that would give the same answers
	// append the same bytes. It may be called between any two entries, also while PreBind and PostBind run.
	AppendState(dst []byte) []byte
	// RestoreState makes a new instance remember exactly the state that AppendState has appended. It is called once,
	// after the listers and the handlers of informers have the objects of that moment. Each profile has its own
	// instance and state.
	RestoreState(state []byte) error
}

// carriedOutReserve are the Reserve plugins of kube-scheduler whose reservations are in the Decision. The cluster's
// state keeps them.
var carriedOutReserve = []string{names.VolumeBinding, names.DynamicResources}

// findLasting collects the Reserve plugins that keep their own reservations.
func (p *Profile) findLasting() {
	for _, e := range p.reserve {
		_, nothing := e.plugin.(ReservesNothing)
		if !nothing && !slices.Contains(carriedOutReserve, e.name) {
			p.lasting = append(p.lasting, e)
		}
	}
}

// Lasting returns the names of the Reserve plugins that keep reservations in their own memory, in the order in which
// they run. A pod's reservations stay until its binding cycle ends.
func (p *Profile) Lasting() []string {
	names := make([]string, len(p.lasting))
	for i, e := range p.lasting {
		names[i] = e.name
	}
	return names
}

// ReserveLasting calls Reserve of the plugins of Lasting for a pod whose node the log records. It ignores their
// answers: another version of a plugin may refuse, but the placement is a fact.
func (p *Profile) ReserveLasting(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	for _, e := range p.lasting {
		e.plugin.Reserve(ctx, state, pod, node)
	}
}

// UnreserveLasting calls Unreserve of the plugins of Lasting, in reverse order.
func (p *Profile) UnreserveLasting(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	for _, e := range slices.Backward(p.lasting) {
		e.plugin.Unreserve(ctx, state, pod, node)
	}
}

// Refused calls Unreserve of the plugins that implement ReservesNothing when a pod is refused, before Reserve or while
// it waits. The gang plugin then rejects the waiting members of the gang. Other plugins have nothing to undo yet: the
// reservations of a waiting pod end when the decision is applied.
func (p *Profile) Refused(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	for _, e := range slices.Backward(p.reserve) {
		if _, nothing := e.plugin.(ReservesNothing); nothing {
			e.plugin.Unreserve(ctx, state, pod, node)
		}
	}
}

// Prepare repeats the part of a pod's cycle before Reserve for one node: PreFilter, Filter of the node, and PreScore.
// It returns the cycle's state with the plugins' data, and ignores their answers.
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

// StatefulPlugin is a plugin with its own state, and its name.
type StatefulPlugin struct {
	Name string
	Stateful
}

// Stateful returns the plugins of Lasting that implement Stateful. without is the name of the first plugin that does
// not, "" if all do.
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

// HasBindingCycle reports whether any plugin takes part in the binding cycle of a pod: it keeps its own reservations,
// or runs in PreBind, Bind or PostBind.
func (p *Profile) HasBindingCycle() bool { return p.bindingCycle }
