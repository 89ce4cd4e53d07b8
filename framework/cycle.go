package framework

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxPermitWait is the longest time that a Permit plugin may hold a pod, as in kube-scheduler.
const maxPermitWait = 15 * time.Minute

// Wait is the time for which a Permit plugin wants to hold a pod.
type Wait struct {
	Plugin  string
	Timeout time.Duration
}

// PostFilter runs the PostFilter plugins for a pod that fits no node. It stops at the first plugin that succeeds,
// fails, or answers UnschedulableAndUnresolvable.
//
// If there is none, the status is Unschedulable with the reasons of all plugins, and the result is the last one that a
// plugin gave. If a plugin succeeds, the status has the reasons of the plugins before it, and the name of the first of
// them.
func (p *Profile) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader,
	trace *Trace) (*fwk.PostFilterResult, *fwk.Status) {
	var result *fwk.PostFilterResult
	var reasons []string
	rejector := ""
	for _, e := range p.postFilter {
		r, status := e.plugin.PostFilter(ctx, state, pod, statuses)
		trace.postFilter(e.name, status)
		switch {
		case status.IsSuccess():
			return r, fwk.NewStatus(fwk.Success, reasons...).WithPlugin(rejector)
		case status.Code() == fwk.UnschedulableAndUnresolvable:
			return r, status.WithPlugin(e.name)
		case !status.IsRejected():
			return nil, failed("PostFilter", e.name, status)
		}
		if r != nil && r.Mode() != fwk.ModeNoop {
			result = r
		}
		// Upstream names the first plugin that did not succeed. The first plugin that gave a reason is more useful.
		if rejector == "" || len(reasons) == 0 && len(status.Reasons()) > 0 {
			rejector = e.name
		}
		reasons = append(reasons, status.Reasons()...)
	}
	return result, fwk.NewStatus(fwk.Unschedulable, reasons...).WithPlugin(rejector)
}

// Reserve runs the Reserve plugins until one does not succeed. In that case the caller must call Unreserve.
func (p *Profile) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string,
	trace *Trace) *fwk.Status {
	for _, e := range p.reserve {
		status := e.plugin.Reserve(ctx, state, pod, node)
		trace.reserve(e.name, status)
		if !status.IsSuccess() {
			return rejectedOrFailed("Reserve", e.name, status)
		}
	}
	return nil
}

// Unreserve runs the Unreserve of all Reserve plugins, in reverse order.
func (p *Profile) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	for _, e := range slices.Backward(p.reserve) {
		e.plugin.Unreserve(ctx, state, pod, node)
	}
}

// TakeBack undoes Reserve for a pod that keeps its node: it calls the Unreserve of all plugins except the ones that
// implement ReservesNothing. The applied decision makes the reservation again.
func (p *Profile) TakeBack(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	for _, e := range slices.Backward(p.reserve) {
		if _, nothing := e.plugin.(ReservesNothing); !nothing {
			e.plugin.Unreserve(ctx, state, pod, node)
		}
	}
}

// ReservesNothing may be implemented by a Reserve plugin whose Reserve changes nothing that Unreserve would have to
// undo.
type ReservesNothing interface {
	fwk.ReservePlugin
	// ReservesNothing does nothing.
	ReservesNothing()
}

// PermitsLast may be implemented by a Permit plugin whose answer depends on the profile's other Permit plugins. It runs
// after all of them, at whatever position the configuration lists it. WaitingPods.HeldInCycle has their answer.
type PermitsLast interface {
	fwk.PermitPlugin
	// PermitsLast does nothing.
	PermitsLast()
}

// OrdersWithoutArgs may be implemented by a QueueSort plugin whose order does not depend on its arguments. Profiles
// that share the queue may then give it different arguments.
type OrdersWithoutArgs interface {
	fwk.QueueSortPlugin
	// OrdersWithoutArgs does nothing.
	OrdersWithoutArgs()
}

// Permit runs the Permit plugins until one rejects the pod or fails. If any plugin wants to wait, the status has the
// code Wait, and waits lists the plugins, sorted by name, each with at most 15 minutes. The status is nil on success.
// Permit itself holds no pod; cluster.State.Hold does.
func (p *Profile) Permit(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string,
	trace *Trace) (status *fwk.Status, waits []Wait) {
	for _, e := range p.permit {
		if w := p.world.Waiting; w != nil {
			w.heldInCycle = len(waits) > 0
		}
		s, timeout := e.plugin.Permit(ctx, state, pod, node)
		trace.permit(e.name, s, timeout)
		switch {
		case s.IsSuccess():
		case s.IsWait():
			status = s.WithPlugin(e.name)
			waits = append(waits, Wait{e.name, min(timeout, maxPermitWait)})
		default:
			return rejectedOrFailed("Permit", e.name, s), nil
		}
	}
	slices.SortFunc(waits, func(a, b Wait) int { return cmp.Compare(a.Plugin, b.Plugin) })
	return status, waits
}

// rejectedOrFailed puts the plugin's name into a rejection. It turns any other status into an error.
func rejectedOrFailed(point, plugin string, status *fwk.Status) *fwk.Status {
	if status.IsRejected() {
		return status.WithPlugin(plugin)
	}
	return failed(point, plugin, status)
}
