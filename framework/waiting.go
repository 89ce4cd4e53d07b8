package framework

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// WaitingPods has the waiting pods of a cluster as plugins see them. The cluster's state owns the pods. A plugin's call
// on a fwk.WaitingPod changes no state: between StartCycle and EndCycle WaitingPods records it, and the scheduler puts
// it into a decision.
type WaitingPods struct {
	*cluster.Waits

	inCycle bool
	// heldInCycle: a Permit plugin in the running cycle wants to hold the cycle's own pod.
	heldInCycle bool
	approvals   []eventlog.Approval
	heard       map[types.UID]heard
}

// NewWaitingPods returns the waiting pods of a cluster as plugins see them.
func NewWaitingPods(waits *cluster.Waits) *WaitingPods { return &WaitingPods{Waits: waits} }

// heard has the verdict on one pod so far in the running cycle.
type heard struct {
	approved []string
	verdict  verdict
}

// verdict is the outcome for a pod, 0 while there is none.
type verdict uint8

const (
	allowed verdict = iota + 1
	rejected
)

// Verdicts has the answers of plugins about waiting pods in one cycle.
type Verdicts struct {
	// Approvals are the permissions, in the order in which plugins gave them. A pod with the last permission that it
	// needs is in Allowed, unless it was rejected first.
	Approvals []eventlog.Approval
	// Allowed are the pods that no plugin holds any longer, in order of Seq.
	Allowed []types.UID
	// Rejected are the pods that a plugin rejected, in order of Seq.
	Rejected []types.UID
}

// StartCycle starts recording plugins' calls about waiting pods. It panics if a cycle is open.
func (w *WaitingPods) StartCycle() {
	if w.inCycle {
		panic("waiting pods: a cycle begins inside another")
	}
	w.inCycle, w.heldInCycle = true, false
}

// HeldInCycle reports whether a Permit plugin that has run in this cycle wants to hold the cycle's own pod. It is for
// plugins that implement PermitsLast.
func (w *WaitingPods) HeldInCycle() bool { return w.heldInCycle }

// EndCycle returns the answers since StartCycle and forgets them. It panics if no cycle is open.
func (w *WaitingPods) EndCycle() Verdicts {
	if !w.inCycle {
		panic("waiting pods: a cycle ends that has not begun")
	}
	out := Verdicts{Approvals: w.approvals}
	if len(w.heard) > 0 {
		w.Each(func(wait *cluster.Wait) bool {
			switch uid := wait.Pod.Object.UID; w.heard[uid].verdict {
			case allowed:
				out.Allowed = append(out.Allowed, uid)
			case rejected:
				out.Rejected = append(out.Rejected, uid)
			}
			return true
		})
	}
	w.inCycle, w.approvals = false, nil
	clear(w.heard)
	return out
}

// hear records the verdict on the pod so far in the running cycle.
func (w *WaitingPods) hear(pod *cluster.Wait, h heard) {
	if w.heard == nil {
		w.heard = make(map[types.UID]heard)
	}
	w.heard[pod.Pod.Object.UID] = h
}

// view is a waiting pod as plugins see it.
type view struct {
	all *WaitingPods
	pod *cluster.Wait
}

var _ fwk.WaitingPod = view{}

// GetPod returns the pod.
func (v view) GetPod() *v1.Pod { return v.pod.Pod.Object }

// GetPendingPlugins returns the plugins that still hold the pod, sorted. A plugin that has approved the pod in this
// cycle does not count.
func (v view) GetPendingPlugins() []string {
	approved := v.all.heard[v.pod.Pod.Object.UID].approved
	return slices.DeleteFunc(slices.Clone(v.pod.Plugins), func(p string) bool { return slices.Contains(approved, p) })
}

// Allow records that the plugin no longer holds the pod. As in upstream, it does nothing if the plugin did not hold the
// pod, or if the pod was already allowed or rejected.
func (v view) Allow(plugin string) {
	v.mustBeInCycle("allows", plugin)
	uid := v.pod.Pod.Object.UID
	h := v.all.heard[uid]
	if h.verdict != 0 || !slices.Contains(v.pod.Plugins, plugin) || slices.Contains(h.approved, plugin) {
		return
	}
	v.all.approvals = append(v.all.approvals, eventlog.Approval{UID: uid, Plugin: plugin})
	h.approved = append(h.approved, plugin)
	if len(h.approved) == len(v.pod.Plugins) {
		h.verdict = allowed
	}
	v.all.hear(v.pod, h)
}

// Reject records that the pod is rejected. It returns false if the pod was already allowed or rejected.
func (v view) Reject(plugin, _ string) bool {
	v.mustBeInCycle("rejects", plugin)
	h := v.all.heard[v.pod.Pod.Object.UID]
	if h.verdict != 0 {
		return false
	}
	h.verdict = rejected
	v.all.hear(v.pod, h)
	return true
}

// Preempt is Reject, because a released pod is tried again either way.
func (v view) Preempt(plugin, msg string) bool { return v.Reject(plugin, msg) }

// mustBeInCycle panics outside a cycle: nothing would record the verdict, so a replay could not repeat it.
func (v view) mustBeInCycle(does, plugin string) {
	if !v.all.inCycle {
		panic(fmt.Sprintf("plugin %s %s waiting pod %s/%s outside a scheduling cycle: nothing records that",
			plugin, does, v.pod.Pod.Object.Namespace, v.pod.Pod.Object.Name))
	}
}

// each calls f with all waiting pods as plugins see them, in order of Seq.
func (w *WaitingPods) each(f func(fwk.WaitingPod)) {
	w.Each(func(wait *cluster.Wait) bool {
		f(view{w, wait})
		return true
	})
}
