package framework

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/canonical"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// WaitingPod is a pod that a Permit plugin holds on its node.
type WaitingPod struct {
	Pod  *v1.Pod
	Node string
	// Plugins are the Permit plugins that have still to approve, sorted.
	Plugins []string
	// Until is when the pod is released if it has not been allowed by then.
	Until eventlog.Time
	// Seq is the sequence number of the decision that holds the pod.
	Seq uint64
}

// WaitingPods are the pods held by Permit: state, changed by Hold, Approve and Release alone. What plugins
// do to a fwk.WaitingPod changes nothing: between BeginCycle and EndCycle it is written down, and whoever
// runs the cycle makes a decision of it.
//
// The zero value is ready to use.
type WaitingPods struct {
	pods  []*WaitingPod // in order of Seq
	byUID map[types.UID]*WaitingPod

	inCycle   bool
	approvals []eventlog.Approval
	heard     map[types.UID]heard
}

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

// Hold adds a pod. It panics if the pod is held already: a pod is decided once before it is released.
func (w *WaitingPods) Hold(pod WaitingPod) {
	uid := pod.Pod.UID
	if old, ok := w.byUID[uid]; ok {
		panic(fmt.Sprintf("pod %s/%s (%s) is held twice: by decision %d and by decision %d",
			pod.Pod.Namespace, pod.Pod.Name, uid, old.Seq, pod.Seq))
	}
	pod.Plugins = slices.Sorted(slices.Values(pod.Plugins))
	if w.byUID == nil {
		w.byUID = make(map[types.UID]*WaitingPod)
	}
	w.byUID[uid] = &pod
	i, _ := slices.BinarySearchFunc(w.pods, pod.Seq, bySeq)
	w.pods = slices.Insert(w.pods, i, &pod)
}

// Approve notes that the plugin does not hold the pod any more. It does nothing if it did not.
func (w *WaitingPods) Approve(uid types.UID, plugin string) {
	if pod, ok := w.byUID[uid]; ok {
		pod.Plugins = slices.DeleteFunc(pod.Plugins, func(p string) bool { return p == plugin })
	}
}

// Release removes a pod, be it allowed, rejected, timed out or gone. It does nothing if it is not held.
func (w *WaitingPods) Release(uid types.UID) {
	pod, ok := w.byUID[uid]
	if !ok {
		return
	}
	delete(w.byUID, uid)
	i, _ := slices.BinarySearchFunc(w.pods, pod.Seq, bySeq)
	for w.pods[i] != pod {
		i++
	}
	w.pods = slices.Delete(w.pods, i, i+1)
}

func bySeq(p *WaitingPod, seq uint64) int { return cmp.Compare(p.Seq, seq) }

// Get returns the held pod of that UID. It is the state itself: do not change it.
func (w *WaitingPods) Get(uid types.UID) (*WaitingPod, bool) {
	pod, ok := w.byUID[uid]
	return pod, ok
}

// Len returns how many pods are held.
func (w *WaitingPods) Len() int { return len(w.pods) }

// Each calls f with the held pods in order of Seq until it returns false. f must neither hold nor release.
func (w *WaitingPods) Each(f func(*WaitingPod) bool) {
	for _, pod := range w.pods {
		if !f(pod) {
			return
		}
	}
}

// Deadline returns the earliest Until; ok is false if no pod is held.
func (w *WaitingPods) Deadline() (t eventlog.Time, ok bool) {
	for _, pod := range w.pods {
		if !ok || pod.Until < t {
			t, ok = pod.Until, true
		}
	}
	return t, ok
}

// Refresh notes that a held pod's object is another one now: plugins must not be shown the one that it was
// when it was held. It does nothing if the pod is not held.
func (w *WaitingPods) Refresh(pod *v1.Pod) {
	if held, ok := w.byUID[pod.UID]; ok {
		held.Pod = pod
	}
}

// AppendState appends the state in one canonical form: equal states give equal bytes, different ones
// different bytes. For the pods themselves stand their UIDs. Restore makes the state of it again.
func (w *WaitingPods) AppendState(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(w.pods)))
	for _, pod := range w.pods {
		dst = binary.AppendUvarint(dst, pod.Seq)
		dst = binary.AppendVarint(dst, int64(pod.Until))
		dst = canonical.AppendString(dst, string(pod.Pod.UID))
		dst = canonical.AppendString(dst, pod.Node)
		dst = binary.AppendUvarint(dst, uint64(len(pod.Plugins)))
		for _, p := range pod.Plugins {
			dst = canonical.AppendString(dst, p)
		}
	}
	return dst
}

// BeginCycle starts to write down what plugins say of waiting pods. It panics if a cycle is open.
func (w *WaitingPods) BeginCycle() {
	if w.inCycle {
		panic("waiting pods: a cycle begins inside another")
	}
	w.inCycle = true
}

// EndCycle returns what plugins said since BeginCycle, and forgets it. It panics if no cycle is open.
func (w *WaitingPods) EndCycle() Verdicts {
	if !w.inCycle {
		panic("waiting pods: a cycle ends that has not begun")
	}
	out := Verdicts{Approvals: w.approvals}
	if len(w.heard) > 0 {
		for _, pod := range w.pods {
			switch w.heard[pod.Pod.UID].verdict {
			case allowed:
				out.Allowed = append(out.Allowed, pod.Pod.UID)
			case rejected:
				out.Rejected = append(out.Rejected, pod.Pod.UID)
			}
		}
	}
	w.inCycle, w.approvals = false, nil
	clear(w.heard)
	return out
}

// hear notes what the running cycle has now heard of the pod.
func (w *WaitingPods) hear(pod *WaitingPod, h heard) {
	if w.heard == nil {
		w.heard = make(map[types.UID]heard)
	}
	w.heard[pod.Pod.UID] = h
}

// Retract takes back what a plugin has approved of in the running cycle, of the pods of which of says so: the pod that it
// approved them for has been turned away since.
func (w *WaitingPods) Retract(plugin string, of func(types.UID) bool) {
	w.approvals = slices.DeleteFunc(w.approvals, func(a eventlog.Approval) bool {
		if a.Plugin != plugin || !of(a.UID) {
			return false
		}
		h := w.heard[a.UID]
		h.approved = slices.DeleteFunc(slices.Clone(h.approved), func(p string) bool { return p == plugin })
		if h.verdict == allowed {
			h.verdict = 0
		}
		w.heard[a.UID] = h
		return true
	})
}

// view is a waiting pod as plugins see it.
type view struct {
	all *WaitingPods
	pod *WaitingPod
}

var _ fwk.WaitingPod = view{}

// GetPod returns the pod.
func (v view) GetPod() *v1.Pod { return v.pod.Pod }

// GetPendingPlugins returns the plugins that hold the pod still, sorted, those gone that have approved
// earlier in the same cycle.
func (v view) GetPendingPlugins() []string {
	approved := v.all.heard[v.pod.Pod.UID].approved
	return slices.DeleteFunc(slices.Clone(v.pod.Plugins), func(p string) bool { return slices.Contains(approved, p) })
}

// Allow writes down that the plugin does not hold the pod any more. Like upstream's it does nothing if the
// plugin did not hold it or the pod's fate is settled.
func (v view) Allow(plugin string) {
	v.mustBeInCycle("allows", plugin)
	uid := v.pod.Pod.UID
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
	h := v.all.heard[v.pod.Pod.UID]
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
			plugin, does, v.pod.Pod.Namespace, v.pod.Pod.Name))
	}
}

// each calls f with all held pods as plugins see them, in order of Seq.
func (w *WaitingPods) each(f func(fwk.WaitingPod)) {
	for _, pod := range w.pods {
		f(view{w, pod})
	}
}
