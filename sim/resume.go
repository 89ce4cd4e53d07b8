package sim

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// A Resumption continues a simulation of which only the log is left. It is a Scheduler, for Cluster.Run on a new
// Cluster of the same plans. While the log has entries it gives their answers, so that the cluster reaches its old
// state. At the end of the log it hands over to a scheduler that was opened on the log.
//
// It compares inputs with the log's, because the cluster consists of them: if they differ, the log is from another
// simulation. Recorded decisions are facts: no plugin has to repeat them.
//
// The log may end with a part of a step: the rest of the inputs goes to the new scheduler. The effects of that step
// were perhaps carried out, in a cluster that is lost. The cluster gets them from the new scheduler, which has to ask
// again for every effect without a result.
type Resumption struct {
	machine  *scheduler.Machine
	config   []byte
	open     func(now time.Time) (Scheduler, error)
	live     Scheduler // nil while the log has entries
	released uint64    // effects up to this entry were given out
	// evicting are the decisions of the last replayed step that evict pods, by their entries.
	evicting map[uint64]*eventlog.Decision

	next  func() (eventlog.Entry, error, bool)
	stop  func()
	ahead []*eventlog.Entry // read, not yet applied
}

// OtherSimulationError says that a log was not written by the simulation that is to continue with it.
type OtherSimulationError struct {
	// Seq is the first entry that differs in this simulation.
	Seq uint64
	// Seq is the first entry that differs in this simulation.
	Recorded, Expected string
}

// Error implements error.
func (e *OtherSimulationError) Error() string {
	if e.Expected == "" {
		return fmt.Sprintf(
			"the log is of another simulation, or of a longer one: its entry %d is %s, and here everything has ended "+
				"before it", e.Seq, e.Recorded)
	}
	return fmt.Sprintf("the log is of another simulation: its entry %d is %s, and here it would be %s", e.Seq,
		e.Recorded, e.Expected)
}

// Resume makes a Resumption of all entries of a log. m is an empty Machine with the plugins that the log's
// configuration may name, and config is the simulation's configuration. open opens the scheduler that continues after
// the last entry, at the virtual time of the last step. Close must be called.
func Resume(entries iter.Seq2[eventlog.Entry, error], m *scheduler.Machine, config []byte,
	open func(now time.Time) (Scheduler, error)) *Resumption {
	r := &Resumption{machine: m, config: config, open: open}
	r.next, r.stop = iter.Pull2(entries)
	return r
}

// Close ends the reading of the log. It is called after Cluster.Run.
func (r *Resumption) Close() { r.stop() }

// Finished returns, after Run, an error unless the whole log was replayed: an *OtherSimulationError that names the
// first entry that was not.
func (r *Resumption) Finished() error {
	if r.live != nil {
		return nil
	}
	for {
		e, err := r.peek()
		if err != nil || e == nil {
			return err
		}
		if e.Kind() != eventlog.KindEpochStarted {
			return &OtherSimulationError{Seq: e.Seq, Recorded: describe(e.Payload)}
		}
		r.ahead = r.ahead[1:]
	}
}

// view is the View of the replayed entries, or of the new scheduler.
func (r *Resumption) view() View {
	if r.live != nil {
		return r.live
	}
	return viewOf(func() *scheduler.Machine { return r.machine })
}

// GangAttempts implements Scheduler.
func (r *Resumption) GangAttempts(namespace, name string) int {
	return r.view().GangAttempts(namespace, name)
}

// PodAttempts implements Scheduler.
func (r *Resumption) PodAttempts(namespace, name string) int {
	return r.view().PodAttempts(namespace, name)
}

// Priority implements Scheduler.
func (r *Resumption) Priority(uid types.UID) (int32, bool) { return r.view().Priority(uid) }

// Reservations implements Scheduler.
func (r *Resumption) Reservations() []report.Reservation { return r.view().Reservations() }

// Step implements Scheduler.
func (r *Resumption) Step(ctx context.Context, now time.Time, inputs []eventlog.Payload) (engine.Ready, error) {
	if r.live != nil {
		return r.live.Step(ctx, now, inputs)
	}
	expected := inputs
	if wake, ok := r.machine.Wake(); len(inputs) == 0 && ok && !wake.After(now) {
		expected = []eventlog.Payload{&eventlog.Tick{}}
	}
	left, ended, err := r.tell(eventlog.TimeOf(now), expected)
	if err != nil {
		return engine.Ready{}, err
	}
	if !ended {
		return r.told(), nil
	}
	if r.live, err = r.open(now); err != nil {
		return engine.Ready{}, err
	}
	if len(inputs) == 0 {
		left = nil // it logs on its own that time passed
	}
	ready, err := r.live.Step(ctx, now, left)
	for i := range ready.Effects { // the new scheduler was not there when the last step's were decided
		if x := &ready.Effects[i]; x.Decision == nil {
			x.Decision = r.evicting[x.Seq]
		}
	}
	return ready, err
}

// told returns the effects of the log's entries that were replayed in a step. The log has the outcomes of binds, and
// plugins are asked again: they have to answer the same.
func (r *Resumption) told() (ready engine.Ready) {
	for _, x := range r.machine.EffectsAfter(r.released) {
		effect := engine.Effect{Effect: x, Decision: r.evicting[x.Seq]}
		if x.Kind == scheduler.Bind {
			if cycle := r.machine.BindingCycle(x.UID); cycle != nil {
				effect.Binding = cycle
			}
		}
		ready.Effects = append(ready.Effects, effect)
	}
	r.released = r.machine.Seq()
	if at, ok := r.machine.Wake(); ok {
		ready.Wake = at
	}
	return ready
}

// tell applies the entries of one step. If the log ends with it or in it, ended is true and left are the inputs that
// are not in it.
func (r *Resumption) tell(now eventlog.Time, inputs []eventlog.Payload) (left []eventlog.Payload, ended bool,
	err error) {
	restarted := false
	r.evicting = map[uint64]*eventlog.Decision{}
	for {
		e, err := r.peek()
		if err != nil || e == nil {
			return inputs, e == nil, err
		}
		switch p := e.Payload.(type) {
		case *eventlog.EpochStarted:
			if !framework.SameConfig(p.Config, r.config) {
				return nil, false,
					&OtherSimulationError{e.Seq, "the start of an epoch", "one with another configuration"}
			}
			restarted = true
		case *eventlog.Decision:
			if len(inputs) > 0 {
				return nil, false, &OtherSimulationError{e.Seq, describe(p), describe(inputs[0])}
			}
			if len(p.Victims) > 0 {
				r.evicting[e.Seq] = p
			}
		default:
			if len(inputs) > 0 {
				if inputs, err = r.take(*e, now, inputs); err != nil {
					return nil, false, err
				}
			} else if _, tick := p.(*eventlog.Tick); !tick || !restarted || e.Time != r.machine.Now() {
				return nil, false, nil // it is the next step's
			} // otherwise the program that opened the log again logged that this step's time had come
		}
		r.ahead = r.ahead[1:]
		if err := r.machine.Apply(*e); err != nil {
			return nil, false, err
		}
	}
}

// peek returns the next entry, nil at the end of the log.
func (r *Resumption) peek() (*eventlog.Entry, error) { return r.look(0) }

// look returns the entry after behind others, nil after the end of the log.
func (r *Resumption) look(behind int) (*eventlog.Entry, error) {
	for len(r.ahead) <= behind {
		e, err, ok := r.next()
		if err != nil || !ok {
			return nil, err
		}
		r.ahead = append(r.ahead, &e)
	}
	return r.ahead[behind], nil
}

// answerTo returns the log's answer to a question to HTTP extenders from the last replayed step. It is nil if the log
// ends before, or is from another simulation: answers are among the inputs of the next step.
func (r *Resumption) answerTo(e *engine.Effect) (*eventlog.ExtenderResult, error) {
	for i := 0; r.live == nil; i++ {
		next, err := r.look(i)
		if err != nil || next == nil {
			return nil, err
		}
		switch p := next.Payload.(type) {
		case *eventlog.ExtenderResult:
			if p.UID == e.UID && p.Decision == e.Seq {
				return p, nil
			}
		case *eventlog.Decision:
			return nil, nil
		}
	}
	return nil, nil
}

// take compares a recorded input with the first of inputs, and returns the others.
func (r *Resumption) take(e eventlog.Entry, now eventlog.Time, inputs []eventlog.Payload) ([]eventlog.Payload, error) {
	input := asRecorded(e.Payload, trimmed(inputs[0]))
	here := e
	here.Time, here.Payload = max(now, r.machine.Now()), input
	want, err := eventlog.AppendRecord(nil, here, [32]byte{})
	if err != nil {
		return nil, err
	}
	// An earlier version may have kept more of the object.
	for _, recorded := range []eventlog.Payload{e.Payload, trimmed(e.Payload)} {
		there := e
		there.Payload = recorded
		got, err := eventlog.AppendRecord(nil, there, [32]byte{})
		if err != nil {
			return nil, err
		}
		if bytes.Equal(got, want) {
			return inputs[1:], nil
		}
	}
	other := &OtherSimulationError{e.Seq, describe(e.Payload), describe(input)}
	switch {
	case here.Time != e.Time:
		other.Recorded += " at " + e.Time.String()
		other.Expected += " at " + here.Time.String()
	case other.Recorded == other.Expected:
		other.Expected = "the same with other content"
	}
	return nil, other
}

// trimmed returns the input as this version logs it.
func trimmed(input eventlog.Payload) eventlog.Payload {
	// own objects are trimmed when they are read
	if up, ok := input.(*eventlog.Upserted); ok && !eventlog.IsOwn(up.Resource) {
		return &eventlog.Upserted{Resource: up.Resource, Object: eventlog.Trim(up.Resource, up.Object)}
	}
	return input
}

// asRecorded returns the input as the version that recorded the other one would have logged it: before format 4, the
// result of a bind did not name its decision.
func asRecorded(recorded, input eventlog.Payload) eventlog.Payload {
	before, ok := recorded.(*eventlog.BindResult)
	result, also := input.(*eventlog.BindResult)
	if !ok || !also || before.Decision != 0 {
		return input
	}
	plain := *result
	plain.Decision = 0
	return &plain
}

// describe names a payload in a few words.
func describe(p eventlog.Payload) string {
	switch p := p.(type) {
	case *eventlog.Upserted:
		return fmt.Sprintf("a change of %s %s", p.Resource, workload.ObjectName(p.Object))
	case *eventlog.Deleted:
		name := p.Name
		if p.Namespace != "" {
			name = p.Namespace + "/" + name
		}
		return fmt.Sprintf("the deletion of %s %s", p.Resource, name)
	case *eventlog.BindResult:
		return fmt.Sprintf("what came of binding pod %s to node %s", p.UID, p.Node)
	case *eventlog.Decision:
		return fmt.Sprintf("a decision on pod %s/%s", p.Namespace, p.Name)
	case *eventlog.Tick:
		return "a tick"
	case *eventlog.EpochStarted:
		return "the start of an epoch"
	case *eventlog.Watched:
		return "how far a recorder has watched"
	}
	return fmt.Sprintf("a %T", p)
}
