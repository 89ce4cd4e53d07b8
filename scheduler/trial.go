package scheduler

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
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
	decided  eventlog.Decision // by the last Decide
	held     []types.UID       // the pods that have a node by the trial, in the order of their decisions
	changed  bool              // the copy differs for other entities
}

// Trial prepares a trial of the pod's entity. It returns nil if the pod is not in the queue, or if its entity is in
// flight or has no member left to attempt. It costs as much as encoding the state and restoring it.
func (m *Machine) Trial(uid types.UID) (*Trial, error) {
	return TrialsOf(m).Next(uid)
}

// Trials makes trials of several entities in one state, one after the other. They share a copy of the Machine as long
// as each leaves it as it was for the others.
type Trials struct {
	of   *Machine
	copy *Machine // nil before the first trial
	last *Trial   // on the copy
}

// TrialsOf returns trials in the present state. The Machine must not change while they are in use.
func TrialsOf(m *Machine) *Trials { return &Trials{of: m} }

// Next prepares a trial of the pod's entity, as Machine.Trial does. The trial before must not be used any more.
func (t *Trials) Next(uid types.UID) (*Trial, error) {
	if e := t.of.queue.Find(uid); e == nil || e.State() == queue.InFlight || e.Next() == nil {
		return nil, nil
	}
	if t.last != nil && !t.last.undo() {
		t.copy = nil
	}
	if t.copy == nil {
		own, err := copyForTrial(t.of)
		if err != nil {
			return nil, err
		}
		t.copy = own
	}
	t.last = &Trial{m: t.copy, key: t.copy.queue.Find(uid).Key()}
	return t.last, nil
}

// stateBytes is about the size of an encoded state for each pod. With a buffer of that size a large state is not
// copied while it grows.
const stateBytes = 768

// copyForTrial returns a Machine with the same state. It records no events, and asks no HTTP extenders.
func copyForTrial(m *Machine) (*Machine, error) {
	state, err := m.AppendState(make([]byte, 0, stateBytes*(m.cluster.Pods().Len()+1)))
	if err != nil {
		return nil, err
	}
	registry := m.registry
	registry.Events = nil
	own, err := Restore(registry, state)
	if err != nil {
		return nil, err
	}
	own.extenders.ignored = true
	return own, nil
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
	t.decided = newCycle(t.m, next, trace).run()
	return t.decided, true
}

// Apply applies a decision of the trial to its Machine.
func (t *Trial) Apply(d *eventlog.Decision) error {
	m := t.m
	entry := eventlog.Entry{Seq: m.at.seq + 1, Epoch: m.at.epoch, Time: m.at.now, Payload: d}
	t.note(d)
	if err := m.Apply(entry); err != nil {
		return err
	}
	if e := m.queue.Get(t.key); e == nil || e.State() != queue.InFlight {
		t.attempts++
		t.over = !d.Elsewhere || t.attempts == maxTrialAttempts
	}
	return nil
}

// note notes what a decision, which is to be applied next, leaves behind for other entities.
func (t *Trial) note(d *eventlog.Decision) {
	m := t.m
	e := m.queue.Get(t.key)
	policy := QueuePolicyOf(m, e.Profile())
	lanes := policy != "" && policy != string(coscheduling.BestEffort) // a failure may let others pass
	if len(d.Victims)+len(d.Nominations)+len(d.Approvals)+len(d.Activated) > 0 || d.Nominated != "" ||
		m.NominatedNode(d.UID) != "" || lanes || d.Outcome == eventlog.Scheduled {
		t.changed = true
	}
	for _, uid := range d.Rejected {
		t.changed = t.changed || !slices.Contains(t.held, uid)
	}
	if d.Outcome == eventlog.Waiting {
		t.held = append(t.held, d.UID)
	}
	t.held = slices.DeleteFunc(t.held, func(uid types.UID) bool { return slices.Contains(d.Rejected, uid) })
}

// undo releases the pods that the trial holds on nodes. It reports whether the copy is as it was for other entities.
func (t *Trial) undo() bool {
	if t.changed || len(t.held) == 0 {
		return !t.changed
	}
	last := &t.decided
	if t.m.cluster.Pods().Get(last.UID).Stage != cluster.Pending {
		return false
	}
	release := eventlog.Decision{Cycle: t.m.at.cycle + 1, Namespace: last.Namespace, Name: last.Name, UID: last.UID,
		Group: last.Group, Outcome: eventlog.Unschedulable, Rejected: slices.Clone(t.held)}
	return t.Apply(&release) == nil && len(t.held) == 0 && !t.changed
}
