package scheduler

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/queue"
)

// maxTrialAttempts limits the domains of nodes that a trial tries one after the other, as a gang with a topology does.
const maxTrialAttempts = 100

// Trial is an attempt on an entity that is made for its answer alone, whether or not the entity has its turn. It runs
// on a copy of the Machine, so that the original does not change and no log has the decisions.
type Trial struct {
	m        *Machine
	key      queue.Key
	attempts int
	over     bool
}

// Trial prepares a trial of the pod's entity. It returns nil if the pod is not in the queue, or if its entity is in
// flight or has no member left to attempt. It costs as much as encoding the state and restoring it.
func (m *Machine) Trial(uid types.UID) (*Trial, error) {
	if e := m.queue.Find(uid); e == nil || e.State() == queue.InFlight || e.Next() == nil {
		return nil, nil
	}
	state, err := m.AppendState(nil)
	if err != nil {
		return nil, err
	}
	registry := m.registry
	registry.Events = nil // a trial records no events
	own, err := Restore(registry, state)
	if err != nil {
		return nil, err
	}
	own.extenders.ignored = true
	return &Trial{m: own, key: own.queue.Find(uid).Key()}, nil
}

// Machine returns the trial's copy of the Machine, as the last Apply left it. Callers must not change it.
func (t *Trial) Machine() *Machine { return t.m }

// Attempts returns the number of attempts that have ended. Each attempt tries another domain of nodes.
func (t *Trial) Attempts() int { return t.attempts }

// Decide runs the next cycle of the attempt. It returns false when the attempt is over. A non-nil trace records the
// steps of the cycle.
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

// Apply applies a decision of the trial to its Machine.
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
