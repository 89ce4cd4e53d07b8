package explain

import (
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// ofResize reports whether a decision, about to be applied or just applied, is on a resize of the pod: any other
// decision that fails is on a pod that has no node for good.
func ofResize(p *cluster.Pod, d *eventlog.Decision) bool {
	return p != nil && p.Stage == cluster.Bound && recorded{decision: d}.failed()
}

// resizeOf says how far the resize of a pod has come, which stands in the queue for it.
func resizeOf(s *podScan, r *rerun, e *queue.Entity) *answer.Resize {
	x := &answer.Resize{Attempts: e.Attempts(), Queue: queuePlace(r.machine, e), Decision: r.explained(s.resized)}
	if s.resized.exists() {
		x.Fits = slices.ContainsFunc(s.resized.decision.Rejections, func(rejection eventlog.Rejection) bool {
			return rejection.Plugin == names.DeferredPodScheduling && s.resized.decision.Feasible > 0
		})
	}
	return x
}
