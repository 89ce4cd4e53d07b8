package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// maxAppend is how many entries one append holds at the most. A step with more is several appends: each is a
// commit, and a reader or a crash sees whole ones.
const maxAppend = 4096

// Options is what an epoch starts with.
type Options struct {
	// Registry holds the plugins that the configuration may name.
	Registry runtime.Registry
	// Config is the effective configuration as framework.EncodeConfig gives it.
	Config []byte
	// Version is the binary's version.
	Version string
	// Seed is logged for plugins that use chance.
	Seed uint64
	// NewID makes the epoch's UUID; nil stands for a random one.
	NewID func() string
	// Progress is called now and then while Open reads the log, with the last entry read; nil is not called.
	Progress func(seq uint64)
	// Snapshots keeps snapshots of the state, so that Open need not read the whole log; nil for none. The
	// engine calls it from a goroutine of its own, one call at a time.
	Snapshots snapshot.Store
	// SnapshotEvery is after how many entries the next snapshot is due, SnapshotAge after how much time, by
	// the entries' own. 0: that alone makes none due.
	SnapshotEvery uint64
	SnapshotAge   time.Duration
	// Report is told, in a line each, what the state was recovered from and what went wrong with a snapshot;
	// nil is not called. Open, Step and Close call it, from their caller's goroutine.
	Report func(message string)
}

// AppendError says that an append failed. Nothing that was decided in the step was given out. Every entry before
// First is durable; whether First to Last are shows when the log is opened again.
type AppendError struct {
	First, Last uint64
	Err         error
}

// Error implements error.
func (e *AppendError) Error() string {
	return fmt.Sprintf("append entries %d to %d: %v", e.First, e.Last, e.Err)
}

// Unwrap returns what the log said.
func (e *AppendError) Unwrap() error { return e.Err }

// Engine is the one writer of a log. It is not safe for concurrent use.
type Engine struct {
	log      eventlog.Log
	opts     Options
	machine  *scheduler.Machine
	recovery Recovery
	pending  []eventlog.Entry // applied, not durable yet
	released uint64           // effects up to this entry have been given out
	settled  bool             // nothing was left to decide after the last step
	failed   error            // the log's outcome is unknown: nothing more may be done

	snapshotAt   uint64        // the last entry of which a snapshot was made, or tried
	snapshotTime eventlog.Time // that entry's; without one, the first entry's
	writing      *writing      // the snapshot under way
	scratch      []byte        // memory for the next one
	foreign      []uint64      // snapshots that were refused because they are not of this log
}

// Open recovers the state from the newest snapshot that can be trusted, if any, and the log, and starts a new
// epoch, stamped with now or with the log's last time if that is later. The effects that were outstanding when
// the log ended come with the first Step. A log that ends before an entry of which there is a snapshot that is whole
// is an *eventlog.DamagedError that wraps a *snapshot.LostError: nothing is appended over what was lost.
func Open(_ context.Context, log eventlog.Log, now time.Time, opts Options) (*Engine, error) {
	e := &Engine{log: log, opts: opts}
	if err := e.recover(); err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	newID := opts.NewID
	if newID == nil {
		newID = uuid.NewString
	}
	started := eventlog.Entry{
		Seq:   e.machine.Seq() + 1,
		Epoch: e.machine.Epoch() + 1,
		Time:  max(eventlog.TimeOf(now), e.machine.Now()),
		Payload: &eventlog.EpochStarted{
			ID: newID(), Version: opts.Version, Format: eventlog.FormatVersion, Seed: opts.Seed, Config: opts.Config,
		},
	}
	if err := e.take(started); err != nil {
		return nil, err
	}
	return e, e.commit()
}

// Machine returns the state machine, to be read only.
func (e *Engine) Machine() *scheduler.Machine { return e.machine }

// Recovery returns what Open made the state of.
func (e *Engine) Recovery() Recovery { return e.recovery }

// Wake returns when time alone will make work: Step must be called then, with or without inputs.
func (e *Engine) Wake() (time.Time, bool) { return e.machine.Wake() }

// Step takes inputs in at time now (or at the log's last time if that is later), decides until nothing is
// left, and returns the effects of the decisions once all of it is durable. Without inputs it logs that time
// passed, if that makes work, and does nothing otherwise.
//
// After an error the engine is of no more use: what the log holds must be read again (Open), and no effect
// of this step may be carried out.
func (e *Engine) Step(ctx context.Context, now time.Time, inputs []eventlog.Payload) ([]scheduler.Effect, error) {
	if e.failed != nil {
		return nil, fmt.Errorf("the engine has stopped: %w", e.failed)
	}
	if len(inputs) == 0 {
		if wake, ok := e.machine.Wake(); !ok || wake.After(now) {
			if e.settled && e.released == e.machine.Seq() {
				return nil, nil
			}
		} else {
			inputs = []eventlog.Payload{&eventlog.Tick{}}
		}
	}
	effects, err := e.step(ctx, eventlog.TimeOf(now), inputs)
	if err != nil {
		e.failed = err
		return nil, err
	}
	return effects, nil
}

func (e *Engine) step(ctx context.Context, now eventlog.Time, inputs []eventlog.Payload) ([]scheduler.Effect, error) {
	for i, input := range inputs {
		input, err := asLogged(input)
		if err != nil {
			return nil, err
		}
		entry := e.next(max(now, e.machine.Now()), input)
		entry.Settled = i == 0 && e.settled
		if err := e.take(entry); err != nil {
			return nil, err
		}
	}
	e.settled = false
	for {
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, e.commit())
		}
		d, ok := e.machine.Decide(nil)
		if !ok {
			break
		}
		if err := e.take(e.next(e.machine.Now(), &d)); err != nil {
			return nil, err
		}
	}
	if err := e.commit(); err != nil {
		return nil, err
	}
	e.settled = true
	effects := e.machine.EffectsAfter(e.released)
	e.released = e.machine.Seq()
	return effects, nil
}

// asLogged returns the input as whoever reads the log will see it: its object cut down to what scheduling
// reads, and gone through the codec once. The Machine must never see more than the log holds.
func asLogged(input eventlog.Payload) (eventlog.Payload, error) {
	var up *eventlog.Upserted
	switch p := input.(type) {
	case *eventlog.Upserted:
		up = p
	case *eventlog.Deleted, *eventlog.BindResult, *eventlog.Tick:
		return input, nil
	default:
		return nil, fmt.Errorf("take in a %T: it is no input: decisions and epochs are the engine's own", input)
	}
	obj, err := eventlog.Canonical(up.Resource, eventlog.Trim(up.Resource, up.Object))
	if err != nil {
		return nil, fmt.Errorf("take in %s %s/%s: %w", up.Resource, up.Object.GetNamespace(), up.Object.GetName(), err)
	}
	return &eventlog.Upserted{Resource: up.Resource, Object: obj}, nil
}

func (e *Engine) next(t eventlog.Time, p eventlog.Payload) eventlog.Entry {
	return eventlog.Entry{Seq: e.machine.Seq() + 1, Epoch: e.machine.Epoch(), Time: t, Payload: p}
}

// take applies an entry and puts it up for the next commit.
func (e *Engine) take(entry eventlog.Entry) error {
	if err := e.machine.Apply(entry); err != nil {
		return err
	}
	e.pending = append(e.pending, entry)
	if len(e.pending) < maxAppend {
		return nil
	}
	return e.commit()
}

// commit makes what was applied durable.
func (e *Engine) commit() error {
	if len(e.pending) == 0 {
		return nil
	}
	first, last := e.pending[0].Seq, e.pending[len(e.pending)-1].Seq
	if err := e.log.Append(first-1, e.pending); err != nil {
		return &AppendError{First: first, Last: last, Err: err}
	}
	clear(e.pending)
	e.pending = e.pending[:0]
	e.snapshotIfDue()
	return nil
}
