package framework

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxPermitWait is the longest that a Permit plugin may hold a pod, as in kube-scheduler.
const maxPermitWait = 15 * time.Minute

// Wait is how long a Permit plugin wants to hold a pod.
type Wait struct {
	Plugin  string
	Timeout time.Duration
}

// PostFilter runs the PostFilter plugins for a pod that fits no node until one succeeds, fails, or answers
// UnschedulableAndUnresolvable. If none does, the answer is Unschedulable with all their reasons, and the
// result that of the last plugin that had one. Reasons in a success are those of the plugins before the one that
// succeeded, of which the first is named.
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
		// Upstream names the first plugin that did not succeed; the first that gave a reason says more.
		if rejector == "" || len(reasons) == 0 && len(status.Reasons()) > 0 {
			rejector = e.name
		}
		reasons = append(reasons, status.Reasons()...)
	}
	return result, fwk.NewStatus(fwk.Unschedulable, reasons...).WithPlugin(rejector)
}

// Reserve runs the Reserve plugins until one does not succeed. Unreserve is the caller's to call then.
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

// Unreserve runs the Unreserve of all Reserve plugins, the last one's first.
func (p *Profile) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	for _, e := range slices.Backward(p.reserve) {
		e.plugin.Unreserve(ctx, state, pod, node)
	}
}

// TakeBack is Unreserve for a pod that keeps its place: it undoes what Reserve did inside plugins whose lasting part
// comes with the applied decision. Plugins that say they reserve nothing are left out.
func (p *Profile) TakeBack(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	for _, e := range slices.Backward(p.reserve) {
		if _, nothing := e.plugin.(ReservesNothing); !nothing {
			e.plugin.Unreserve(ctx, state, pod, node)
		}
	}
}

// ReservesNothing may be implemented by a Reserve plugin whose Reserve leaves nothing behind that Unreserve
// would have to undo.
type ReservesNothing interface {
	fwk.ReservePlugin
	// ReservesNothing does nothing.
	ReservesNothing()
}

// PermitsLast may be implemented by a Permit plugin whose answer depends on those of the profile's other Permit
// plugins: it is asked after all of them, wherever the configuration has it. What they said is in
// WaitingPods.HeldInCycle.
type PermitsLast interface {
	fwk.PermitPlugin
	// PermitsLast does nothing.
	PermitsLast()
}

// OrdersWithoutArgs may be implemented by a QueueSort plugin whose order does not depend on its arguments. Then
// profiles that share the queue may give it different ones.
type OrdersWithoutArgs interface {
	fwk.QueueSortPlugin
	// OrdersWithoutArgs does nothing.
	OrdersWithoutArgs()
}

// Permit runs the Permit plugins until one rejects or fails. If any wants to wait, the status' code is Wait
// and waits says which, sorted by plugin, each for at most 15 minutes. It holds no pod: Hold of
// cluster.State does. The status is nil on success.
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

// rejectedOrFailed names the plugin in its rejection, or makes an error of any other status.
func rejectedOrFailed(point, plugin string, status *fwk.Status) *fwk.Status {
	if status.IsRejected() {
		return status.WithPlugin(plugin)
	}
	return failed(point, plugin, status)
}
