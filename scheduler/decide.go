package scheduler

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

// Decide runs the next scheduling cycle and returns its Decision. It returns false if there is nothing to do before the
// next input or before Wake. It does not change the state that Hash covers, so a second call returns the same bytes. A
// non-nil trace records the steps of the cycle.
func (m *Machine) Decide(trace *framework.Trace) (d eventlog.Decision, ok bool) {
	if m.queue == nil {
		return eventlog.Decision{}, false
	}
	m.keepGates()
	m.recorded.at(m.at.seq + 1)
	m.pick()
	if invariants {
		d, ok = m.decideChecked(trace)
	} else {
		d, ok = m.decide(trace)
	}
	if !ok {
		m.recorded.at(m.at.seq) // events recorded outside cycles belong to the last entry
	}
	return d, ok
}

func (m *Machine) decide(trace *framework.Trace) (eventlog.Decision, bool) {
	if wait, why := m.waits.broken(); wait != nil {
		return m.rejectWait(wait, why), true
	}
	if wait := m.waits.overdue(); wait != nil {
		return m.endWait(wait), true
	}
	if d, ok := m.evictFallen(); ok {
		return d, true
	}
	if d, ok := m.decideReservation(); ok {
		return d, true
	}
	e := m.queue.Head()
	if e == nil {
		return eventlog.Decision{}, false
	}
	next := e.Next()
	if next == nil {
		return eventlog.Decision{}, false
	}
	if d, ok := m.ask(e, trace); ok {
		return d, true
	}
	if d, ok := (gangPlans{m}).decideBefore(e, m.cluster.Pods().Get(next.UID)); ok {
		return d, true
	}
	return newCycle(m, next, trace).run(), true
}

func (m *Machine) decisionOn(p *cluster.Pod) eventlog.Decision {
	d := eventlog.Decision{Cycle: m.at.cycle + 1, Namespace: p.Object.Namespace, Name: p.Object.Name, UID: p.Object.UID}
	if m.entities.keyOf(p).Type != fwk.PodKeyType {
		d.Group = p.Group.Name
	}
	return d
}
