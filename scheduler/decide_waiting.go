package scheduler

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
)

// Decisions on waiting pods whose wait ends outside of the cycles of their own gang.

// rejectWait decides that a waiting pod leaves its node, and with it the waiting pods that its plugins reject.
func (m *Machine) rejectWait(w *cluster.Wait, why string) eventlog.Decision {
	p := m.cluster.Pods().Get(w.Pod.Object.UID)
	d := m.decisionOn(p)
	d.Outcome, d.Nominated = eventlog.Unschedulable, m.nominated.nodeOf(p.Object.UID)
	d.Rejections = []eventlog.Rejection{{Plugin: holderOf(w, p.Group), Code: fwk.Unschedulable.String(), Reason: why}}

	m.waits.pods.StartCycle()
	if prof := m.profiles.of(p.Object); prof != nil {
		prof.Refused(m.ctx, framework.NewCycleState(), p.Object, w.Pod.Node)
	}
	others := m.waits.pods.EndCycle().Rejected
	m.waits.pods.Each(func(each *cluster.Wait) bool {
		if uid := each.Pod.Object.UID; uid == w.Pod.Object.UID || slices.Contains(others, uid) {
			d.Rejected = append(d.Rejected, uid)
		}
		return true
	})
	return d
}

// endWait decides that a waiting pod continues to its bind. The members of its gang, and of gangs admitted with it,
// continue with it if they wait for nothing else.
func (m *Machine) endWait(w *cluster.Wait) eventlog.Decision {
	p := m.cluster.Pods().Get(w.Pod.Object.UID)
	d := m.decisionOn(p)
	d.Outcome, d.Node = eventlog.Scheduled, w.Pod.Node
	goes, u := map[*cluster.Group]bool{}, m.waits.tally(p.Group)
	for i, g := range p.Group.Unit() {
		goes[g] = i == u.Own || u.Suffices(i, gang.Free)
	}
	m.waits.pods.Each(func(each *cluster.Wait) bool {
		if each.Pod.Object.UID == w.Pod.Object.UID || !goes[m.cluster.Pods().Get(each.Pod.Object.UID).Group] {
			return true
		}
		if onlyGangHolds(each) {
			d.Allowed = append(d.Allowed, each.Pod.Object.UID)
		} else if slices.Contains(each.Plugins, coscheduling.Name) {
			d.Approvals = append(d.Approvals, eventlog.Approval{UID: each.Pod.Object.UID, Plugin: coscheduling.Name})
		}
		return true
	})
	return d
}
