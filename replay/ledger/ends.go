package ledger

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// end is the end of a pod's time on nodes, and what became of it.
type end struct {
	uid types.UID
	as  Column
}

// The reasons of the condition DisruptionTarget of pods that are lost because of their nodes.
const (
	byTaints   = "DeletionByTaintManager"
	byEviction = "EvictionByEvictionAPI"
)

// noteEnds notes the pods that an entry ends. It is called before the entry is applied.
func (b *book) noteEnds(e eventlog.Entry) {
	pods := b.m.Cluster().Pods()
	ends := func(p *cluster.Pod, as Column) { b.ended = append(b.ended, end{p.Object.UID, as}) }
	switch payload := e.Payload.(type) {
	case *eventlog.Deleted:
		if p := pods.Get(payload.UID); payload.Resource == eventlog.Pods && p != nil {
			ends(p, b.fate(p, p.Object))
		}
	case *eventlog.Upserted:
		obj, ok := payload.Object.(*v1.Pod)
		if !ok {
			return
		}
		if p := pods.Named(obj.Namespace, obj.Name); p != nil && p.Object.UID != obj.UID {
			ends(p, b.fate(p, p.Object)) // nobody saw its deletion
		}
		if p := pods.Get(obj.UID); p != nil &&
			(obj.Status.Phase == v1.PodSucceeded || obj.Status.Phase == v1.PodFailed) {
			ends(p, b.fate(p, obj))
		}
	case *eventlog.BindResult:
		failed := payload.Outcome == eventlog.BindFailed || payload.Outcome == eventlog.BindConflict
		if p := pods.Get(payload.UID); p != nil && failed && p.Stage == cluster.Binding && p.Node == payload.Node &&
			(payload.Decision == 0 || payload.Decision == b.m.AskedBy(payload.UID, scheduler.Bind)) {
			ends(p, LostFailed)
		}
	}
}

// fate returns the column of the time of a pod that ends now. obj is its last object.
func (b *book) fate(p *cluster.Pod, obj *v1.Pod) Column {
	if by := b.m.AskedBy(p.Object.UID, scheduler.Evict); by > 0 {
		if b.fallen[by] {
			return LostWithGang
		}
		return LostPreempted
	}
	if obj.Status.Phase == v1.PodFailed {
		return LostFailed
	}
	if p.Node == "" || obj.Status.Phase == v1.PodSucceeded {
		return Useful
	}
	on := b.m.Cluster().Nodes().Object(p.Node)
	reason := disruption(obj)
	if on == nil || reason == byTaints || reason == byEviction && on.Spec.Unschedulable {
		return LostFailed
	}
	return Useful
}

// disruption returns the reason of a pod's condition DisruptionTarget, "" for none.
func disruption(pod *v1.Pod) string {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}

// settleEnds books the time of the pods that ended at this instant.
func (b *book) settleEnds() {
	for _, end := range b.ended {
		if r := b.runs[end.uid]; r != nil {
			b.fold(r)
		}
		resolve(b.held, end.uid, end.as, b.edges)
		if _, known := b.fates[end.uid]; !known && b.atStart[end.uid] {
			b.fates[end.uid] = end.as
		}
	}
	b.ended = b.ended[:0]
}

// resolve books the time that was kept with a pod.
func resolve(held map[types.UID][]piece, uid types.UID, as Column, by edges) {
	for _, p := range held[uid] {
		by.enter(p, as)
	}
	delete(held, uid)
}

// lastFate returns the column, as known at the log's end, of a pod that has not ended.
func (b *book) lastFate(uid types.UID) Column {
	p := b.m.Cluster().Pods().Get(uid)
	if p == nil {
		return Useful
	}
	return b.fate(p, p.Object)
}
