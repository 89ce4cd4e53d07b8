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

// WaitingPods are the waiting pods of a cluster as plugins see them. The cluster's state owns them. What plugins do to
// a fwk.WaitingPod changes nothing: between StartCycle and EndCycle it is written down, and the scheduler makes a
// decision of it.
type WaitingPods struct {
	*cluster.Waits

	inCycle bool
	// heldInCycle: a Permit plugin asked in the running cycle wants to hold the cycle's own pod.
	heldInCycle bool
	approvals   []eventlog.Approval
	heard       map[types.UID]heard
}

// NewWaitingPods returns the waiting pods of a cluster as plugins see them.
func NewWaitingPods(waits *cluster.Waits) *WaitingPods { return &WaitingPods{Waits: waits} }

// heard is what one cycle has heard of a pod.
type heard struct {
	approved []string
	verdict  verdict
}

// verdict is a pod's fate, 0 while it is open.
type verdict uint8

const (
	allowed verdict = iota + 1
	rejected
)

// Verdicts is what plugins said of waiting pods during one cycle.
type Verdicts struct {
	// Approvals are the permissions given, in the order given. A pod whose last one is among them is in
	// Allowed, unless it was rejected first.
	Approvals []eventlog.Approval
	// Allowed are the pods that no plugin holds any more, in order of Seq.
	Allowed []types.UID
	// Rejected are the pods that a plugin turned away, in order of Seq.
	Rejected []types.UID
}

// StartCycle starts to write down what plugins say of waiting pods. It panics if a cycle is open.
func (w *WaitingPods) StartCycle() {
	if w.inCycle {
		panic("waiting pods: a cycle begins inside another")
	}
	w.inCycle, w.heldInCycle = true, false
}

// HeldInCycle reports whether a Permit plugin that was asked so far in the running cycle wants to hold the cycle's own
// pod. It is for a plugin that implements PermitsLast.
func (w *WaitingPods) HeldInCycle() bool { return w.heldInCycle }

// EndCycle returns what plugins said since StartCycle, and forgets it. It panics if no cycle is open.
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

// hear notes what the running cycle has now heard of the pod.
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

// GetPendingPlugins returns the plugins that hold the pod still, sorted, those gone that have approved
// earlier in the same cycle.
func (v view) GetPendingPlugins() []string {
	approved := v.all.heard[v.pod.Pod.Object.UID].approved
	return slices.DeleteFunc(slices.Clone(v.pod.Plugins), func(p string) bool { return slices.Contains(approved, p) })
}

// Allow writes down that the plugin does not hold the pod any more. Like upstream's it does nothing if the
// plugin did not hold it or the pod's fate is settled.
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

// Reject writes down that the pod is turned away. It returns false if the pod's fate is settled.
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

// Preempt is Reject: a released pod is tried again either way.
func (v view) Preempt(plugin, msg string) bool { return v.Reject(plugin, msg) }

// A verdict outside a cycle could be recorded nowhere, and a plugin that gives one could not be replayed.
func (v view) mustBeInCycle(does, plugin string) {
	if !v.all.inCycle {
		panic(fmt.Sprintf("plugin %s %s waiting pod %s/%s outside a scheduling cycle: nothing records that",
			plugin, does, v.pod.Pod.Object.Namespace, v.pod.Pod.Object.Name))
	}
}

// each calls f with all held pods as plugins see them, in order of Seq.
func (w *WaitingPods) each(f func(fwk.WaitingPod)) {
	w.Each(func(wait *cluster.Wait) bool {
		f(view{w, wait})
		return true
	})
}
