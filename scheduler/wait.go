package scheduler

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/gang"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
)

// What becomes of pods that wait in Permit outside of the cycles of their own gang.

// brokenWait returns the first waiting pod, in the order of decisions, that cannot go on waiting, and why.
func (m *Machine) brokenWait() (broken *framework.WaitingPod, why string) {
	if m.waiting.Len() == 0 || !m.waitsDoubtful && m.now < m.waitsUntil {
		return nil, ""
	}
	m.waiting.Each(func(w *framework.WaitingPod) bool {
		if why = m.whyBroken(w); why != "" {
			broken = w
		}
		return broken == nil
	})
	if broken == nil {
		m.waitsDoubtful = false
		m.waitsUntil, _ = m.waiting.Deadline()
	}
	return broken, why
}

// doubtWaits has the next decision look at all waiting pods again, unless the entry is such that if none of them
// was broken before, none is now: another member of the gang in flight was held. It saves looking at all held
// members each time that one more is.
func (m *Machine) doubtWaits(entry eventlog.Entry) {
	d, ok := entry.Payload.(*eventlog.Decision)
	if !ok || d.Outcome != eventlog.Waiting || len(d.Rejected) > 0 || len(d.Approvals) > 0 {
		m.waitsDoubtful, m.noneOverdue = true, false
		return
	}
	// A pod that is held takes room only of what it requests itself, so that it shows in its own node's books whether
	// it took any that others hold: it may, if its profile does not look at resources, or by a decision of a log
	// that was altered.
	p := m.cluster.Pod(d.UID)
	w, held := m.waiting.Get(d.UID)
	if !held || m.whyBroken(w) != "" || m.cluster.Overcommitted(p) {
		m.waitsDoubtful = true
	}
	if p.Group != nil && p.Group.Suffices(gang.OnNodes) {
		m.noneOverdue = false
	}
	m.waitsUntil = min(m.waitsUntil, d.WaitUntil)
}

// whyBroken says why a waiting pod cannot go on waiting; "" if it can.
func (m *Machine) whyBroken(w *framework.WaitingPod) string {
	p, prof := m.cluster.Pod(w.Pod.UID), m.profileOf(w.Pod)
	switch {
	case prof == nil:
		return fmt.Sprintf("no profile schedules the pods of %q any more", w.Pod.Spec.SchedulerName)
	case slices.ContainsFunc(w.Plugins, func(plugin string) bool { return !prof.Has(framework.Permit, plugin) }):
		return "a plugin that holds it is not configured any more"
	case w.Until <= m.now:
		return "it waited until its deadline"
	case m.cluster.Node(w.Node) == nil:
		return fmt.Sprintf("node %q is gone", w.Node)
	case p.Object.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case m.roomChecked[w.Pod.Spec.SchedulerName] && m.cluster.Overcommitted(p):
		return fmt.Sprintf("node %q has too little for its pods by now", w.Node)
	}
	return m.whyStuck(w)
}

// whyStuck says why no other member's cycle is going to come for which the pod is held, or why the gang that it was to
// go with is not there any more; "" if it may go on waiting.
func (m *Machine) whyStuck(w *framework.WaitingPod) string {
	g, held := m.cluster.Pod(w.Pod.UID).Group, slices.Contains(w.Plugins, coscheduling.Name)
	if !held && (g == nil || !plansGangs(m.profileOf(w.Pod))) {
		return ""
	}
	if g != nil && g.Refusal() != "" {
		return g.Refusal() // came up while the pod was held: by now nobody can know how many members are meant
	}
	if g != nil && !g.Declared() {
		return "its pod group does not exist any more"
	}
	if g != nil && (g.Suffices(gang.OnNodes) || g.NonStrict()) {
		return "" // all are there, and some other plugin holds one; or it waits for the rest in its own way
	}
	if !held {
		return "its pod group has fallen below its minimum"
	}
	switch e := m.queue.Find(w.Pod.UID); {
	case e == nil || e.State() != queue.InFlight:
		return "the attempt to place its pod group has ended"
	case e.NumUntried() == 0:
		return "its pod group has no other member to place"
	case g != nil && !m.possible(g):
		return "its pod group has too few members left to place"
	}
	return ""
}

// rejectWait decides that a waiting pod leaves its node, and with it whoever its plugins say.
func (m *Machine) rejectWait(w *framework.WaitingPod, why string) eventlog.Decision {
	p := m.cluster.Pod(w.Pod.UID)
	d := m.decisionOn(p)
	d.Outcome, d.Nominated = eventlog.Unschedulable, m.NominatedNode(p.Object.UID)
	d.Rejections = []eventlog.Rejection{{Plugin: holderOf(w, p.Group), Code: fwk.Unschedulable.String(), Reason: why}}

	m.waiting.BeginCycle()
	if prof := m.profileOf(p.Object); prof != nil {
		prof.Unreserve(m.ctx, framework.NewCycleState(), p.Object, w.Node)
	}
	others := m.waiting.EndCycle().Rejected
	m.waiting.Each(func(each *framework.WaitingPod) bool {
		if uid := each.Pod.UID; uid == w.Pod.UID || slices.Contains(others, uid) {
			d.Rejected = append(d.Rejected, uid)
		}
		return true
	})
	return d
}

// holderOf returns the plugin to blame for a wait that did not end well: the gang plugin, unless the gang is there
// and another plugin is what it waits for.
func holderOf(w *framework.WaitingPod, g *cluster.Group) string {
	held := slices.Contains(w.Plugins, coscheduling.Name)
	if g != nil && !g.Suffices(gang.OnNodes) && (held || !g.NonStrict()) {
		return coscheduling.Name
	}
	for _, plugin := range w.Plugins {
		if plugin != coscheduling.Name {
			return plugin
		}
	}
	return coscheduling.Name
}

// overdueWait returns the first waiting pod that only the gang plugin holds although its gang has its minimum: the
// minimum was lowered, another plugin let a member go, or another scheduler placed one, and no cycle of the gang's
// was there to notice. nil if there is none.
func (m *Machine) overdueWait() (overdue *framework.WaitingPod) {
	if m.waiting.Len() == 0 || m.noneOverdue {
		return nil
	}
	cleared := map[*cluster.Group]int{}
	m.waiting.Each(func(w *framework.WaitingPod) bool {
		if onlyGangHolds(w) {
			cleared[m.cluster.Pod(w.Pod.UID).Group]++
		}
		return true
	})
	judged := map[*cluster.Group]bool{}
	m.waiting.Each(func(w *framework.WaitingPod) bool {
		g := m.cluster.Pod(w.Pod.UID).Group
		if g == nil || judged[g] || !onlyGangHolds(w) {
			return true
		}
		judged[g] = true
		u := g.Tally(func(each *cluster.Group, n *gang.Counts) { n.Cleared = cleared[each] })
		if u.OwnSuffices(gang.Free) {
			overdue = w
		}
		return overdue == nil
	})
	m.noneOverdue = overdue == nil
	return overdue
}

// onlyGangHolds says whether no plugin but the gang plugin holds the pod.
func onlyGangHolds(w *framework.WaitingPod) bool {
	return !slices.ContainsFunc(w.Plugins, func(plugin string) bool { return plugin != coscheduling.Name })
}

// cleared counts the held members of g that no plugin but the gang plugin holds.
func (m *Machine) cleared(g *cluster.Group) int {
	if !m.otherPermits {
		return g.Waiting()
	}
	n := 0
	m.waiting.Each(func(w *framework.WaitingPod) bool {
		if onlyGangHolds(w) && m.cluster.Pod(w.Pod.UID).Group == g {
			n++
		}
		return true
	})
	return n
}

// possible reports whether g can be admitted if all members that the attempt under way has still to try find a node.
func (m *Machine) possible(g *cluster.Group) bool {
	u := m.tally(g)
	return u.OwnSuffices(gang.Possible)
}

// endWait decides that a waiting pod goes on, and with it the members of its gang, and of those that are admitted with
// it, that wait for nothing else.
func (m *Machine) endWait(w *framework.WaitingPod) eventlog.Decision {
	p := m.cluster.Pod(w.Pod.UID)
	d := m.decisionOn(p)
	d.Outcome, d.Node = eventlog.Scheduled, w.Node
	goes, u := map[*cluster.Group]bool{}, m.tally(p.Group)
	for i, g := range p.Group.Unit() {
		goes[g] = i == u.Own || u.Suffices(i, gang.Free)
	}
	m.waiting.Each(func(each *framework.WaitingPod) bool {
		if each.Pod.UID == w.Pod.UID || !goes[m.cluster.Pod(each.Pod.UID).Group] {
			return true
		}
		if onlyGangHolds(each) {
			d.Allowed = append(d.Allowed, each.Pod.UID)
		} else if slices.Contains(each.Plugins, coscheduling.Name) {
			d.Approvals = append(d.Approvals, eventlog.Approval{UID: each.Pod.UID, Plugin: coscheduling.Name})
		}
		return true
	})
	return d
}

// keepTogether takes the gang plugin's approval back when it took the pod for the one that completes its gang, and
// another Permit plugin holds the pod.
func (m *Machine) keepTogether(d *eventlog.Decision, p *cluster.Pod) {
	if d.Outcome != eventlog.Waiting || p.Group == nil || slices.Contains(d.WaitFor, coscheduling.Name) || !plansGangs(m.profileOf(p.Object)) {
		return
	}
	if u := m.tally(p.Group); u.OwnSuffices(gang.Free) {
		return
	}
	d.WaitFor = append(d.WaitFor, coscheduling.Name)
	slices.Sort(d.WaitFor)
	unit := p.Group.Unit()
	others := func(uid types.UID) bool { return !slices.Contains(unit, m.cluster.Pod(uid).Group) }
	d.Allowed = slices.DeleteFunc(d.Allowed, func(uid types.UID) bool { return !others(uid) })
	d.Approvals = slices.DeleteFunc(d.Approvals, func(a eventlog.Approval) bool { return a.Plugin == coscheduling.Name && !others(a.UID) })
}

// retractGang takes the gang plugin's approval of held members back: it took the pod for the one that completes its gang, and
// another Permit plugin behind it has turned the pod away.
func (m *Machine) retractGang(p *cluster.Pod) {
	if p.Group == nil {
		return
	}
	unit := p.Group.Unit()
	m.waiting.Retract(coscheduling.Name, func(uid types.UID) bool { return slices.Contains(unit, m.cluster.Pod(uid).Group) })
}
