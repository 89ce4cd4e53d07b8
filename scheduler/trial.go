package scheduler

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/queue"
)

// maxTrialAttempts is how many domains of nodes a trial tries one after the other, as a gang with a topology does.
const maxTrialAttempts = 100

// Trial is an attempt that is made for the answer alone: it asks the plugins what they say of an entity in the state as
// it is, whether or not the entity has its turn. It happens on a Machine of its own, so that the Machine that it begins
// from stays as it is, and no log has its decisions.
type Trial struct {
	m        *Machine
	key      queue.Key
	attempts int
	over     bool
}

// Trial prepares a trial of the entity that the pod belongs to; nil if the pod stands in no queue, or its entity has no
// member that could be tried, or is in flight already. It costs as much as writing the state down and reading it.
func (m *Machine) Trial(uid types.UID) (*Trial, error) {
	if e := m.queue.Find(uid); e == nil || e.State() == queue.InFlight || e.Next() == nil {
		return nil, nil
	}
	state, err := m.AppendState(nil)
	if err != nil {
		return nil, err
	}
	registry := m.registry
	registry.Events = nil // nothing is written of a trial
	own, err := Restore(registry, state)
	if err != nil {
		return nil, err
	}
	own.extenders.ignored = true
	return &Trial{m: own, key: own.queue.Find(uid).Key()}, nil
}

// Machine returns the state of the trial: before its first cycle, or after the last one that Apply has taken in. It is
// to be read only.
func (t *Trial) Machine() *Machine { return t.m }

// Attempts returns how many attempts have ended: after each but the last one, another domain of nodes is tried.
func (t *Trial) Attempts() int { return t.attempts }

// Decide runs the next cycle of the attempt; ok is false when the attempt is over. A non-nil trace collects how the
// cycle went.
func (t *Trial) Decide(trace *framework.Trace) (d eventlog.Decision, ok bool) {
	e := t.m.queue.Get(t.key)
	if t.over || e == nil {
		return d, false
	}
	next := e.Next()
	if next == nil {
		return d, false
	}
	t.m.keepGates()
	return newCycle(t.m, next, trace).run(), true
}

// Apply takes a decision of the trial in.
func (t *Trial) Apply(d *eventlog.Decision) error {
	m := t.m
	entry := eventlog.Entry{Seq: m.at.seq + 1, Epoch: m.at.epoch, Time: m.at.now, Payload: d}
	if err := m.Apply(entry); err != nil {
		return err
	}
	if e := m.queue.Get(t.key); e == nil || e.State() != queue.InFlight {
		t.attempts++
		t.over = !d.Elsewhere || t.attempts == maxTrialAttempts
	}
	return nil
}
