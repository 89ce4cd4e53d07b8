package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// maxAppend is how many entries one append holds at the most. Each append is a commit, of which a reader or a crash
// sees all or nothing. So they do of a step, which is never part of two, unless it has more entries than that: then it
// is several appends.
const maxAppend = 4096

// Options is what an epoch starts with.
type Options struct {
	// Registry holds the plugins that the configuration may name.
	Registry framework.Registry
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
	// StandbysSnapshot says that standbys of this log write snapshots, too: the engine leaves those to them that are
	// due, and writes one itself only if none comes.
	StandbysSnapshot bool
	// Standby has the state of the log up to an entry: Open reads the entries behind that one only. nil has it recover
	// the state. It must have ended to follow, and is of no more use afterwards.
	Standby *Standby
	// Report is told, in a line each, what the state was recovered from and what went wrong with a snapshot;
	// nil is not called. Open, Step, Advance and Close call it, from their caller's goroutine.
	Report func(message string)
	// Release says when Advance gives effects out.
	Release Release
	// Decisions is how many decisions one Step or Advance makes at the most; 0 for as many as there are to make. What
	// is left comes with the next call (Ready.Busy), so that a driver takes inputs in, and hands effects on, meanwhile.
	Decisions int
	// Clock says when an append has succeeded, for Commit.At; nil for no time. It is called from a goroutine of the
	// engine.
	Clock func() time.Time
}

// Release says when Advance gives out the effects of a decision.
type Release uint8

const (
	// WhenDurable: once the decision is durable. Nothing that leaves the process may come earlier.
	WhenDurable Release = iota
	// WhenDecided: at once. It is for a world that exists in this log alone, such as a virtual cluster. Effects lead to
	// later entries of the same log only, so what is left after a crash is the beginning of the run.
	WhenDecided
)

// AppendError says that an append failed. No effect of its entries, or of later ones, was given out as durable. Every
// entry before First is durable; whether First to Last are shows when the log is opened again; the log has none of
// those decided after Last.
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

// Log is what the engine needs of an eventlog.Log.
type Log interface {
	eventlog.Appender
	ReadLog
}

// ReadLog is what a state is recovered from.
type ReadLog interface {
	Last() (uint64, error)
	Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error]
	RecordHash(ctx context.Context, seq uint64) ([32]byte, error)
}

// Engine is the one writer of a log. It is not safe for concurrent use.
type Engine struct {
	log  Log
	opts Options
	state
	encoder  eventlog.Encoder
	pending  []eventlog.Entry // applied, not handed to the writer yet
	load     load             // of pending
	writer   *writer
	first    uint64     // the entry that begins the epoch
	released uint64     // effects up to this entry have been given out
	evicting []eviction // in their order
	settled  bool       // nothing was left to decide after the last step: the next input is marked with it
	busy     bool       // the last step ended at Options.Decisions
	failed   error      // why the engine has stopped; nil while it works
	closed   bool
}

// Open takes the state of Options.Standby, or recovers it from the newest snapshot that can be trusted, if any, and the
// log, and starts a new epoch, stamped with now or with the log's last time if that is later. The effects that were
// outstanding when the log ended come with the first Step. A log that ends before an entry of which there is a snapshot
// that is whole is an *eventlog.DamagedError that wraps a *snapshot.LostError: nothing is appended over what was lost.
func Open(ctx context.Context, log Log, now time.Time, opts Options) (*Engine, error) {
	e := &Engine{log: log, opts: opts}
	e.encoder.Own = eventlog.NewOwnTrim(framework.LoggedPluginResources(opts.Config))
	if err := e.begin(ctx); err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	e.writer = newWriter(log, e.machine.Seq())
	e.writer.clock = opts.Clock
	newID := opts.NewID
	if newID == nil {
		newID = uuid.NewString
	}
	started := eventlog.Entry{
		Seq:   e.machine.Seq() + 1,
		Epoch: e.machine.Epoch() + 1,
		Time:  max(eventlog.TimeOf(now), e.machine.Now()),
		Payload: &eventlog.EpochStarted{
			ID:        newID(),
			Version:   opts.Version,
			Format:    eventlog.FormatVersion,
			Behaviour: scheduler.Behaviour,
			Seed:      opts.Seed,
			Config:    opts.Config,
		},
	}
	e.first = started.Seq
	if err := e.take(started); err != nil {
		return nil, err
	}
	e.recovery.State, e.recovery.Began = e.machine, started.Time.Std()
	if err := e.hand(); err != nil {
		return nil, err
	}
	if err := e.machine.Restorable(); err != nil && opts.Snapshots != nil {
		e.unkept = true
		opts.report(err.Error())
	}
	return e, e.writer.await(e.machine.Seq())
}

// Machine returns the state machine, to be read only.
func (e *Engine) Machine() *scheduler.Machine { return e.machine }

// Recovery returns what Open made the state of.
func (e *Engine) Recovery() Recovery { return e.recovery }

// Durable returns the last entry that is known to be durable.
func (e *Engine) Durable() uint64 {
	seq, _ := e.writer.state()
	return seq
}

// Appended returns a channel from which one receives after an append has succeeded or failed: Advance, even without
// inputs, or Await will then say what came of it. It is for one receiver, and holds one message for any number of
// appends.
func (e *Engine) Appended() <-chan struct{} { return e.writer.appended }

// Step takes inputs in at time now (or at the log's last time if that is later), decides until nothing is left, and
// waits until all of it is durable: the Ready has everything. Without inputs it logs that time passed, if that makes
// work, and does nothing otherwise.
//
// After an error the engine is of no more use: what the log holds must be read again (Open), and no effect of this step
// may be carried out. The Ready then has nothing but the Commits that have succeeded.
func (e *Engine) Step(ctx context.Context, now time.Time, inputs []eventlog.Payload) (Ready, error) {
	if err := e.stopped(); err != nil {
		return Ready{}, err
	}
	if err := e.process(ctx, now, inputs); err != nil {
		return e.stop(err)
	}
	return e.ready(e.machine.Seq())
}

// Advance is Step without the wait. It takes inputs in, decides, and hands the entries to the writer. The Ready has
// what has become due since the last call: the effects of decisions that are durable by now, or of all decisions with
// the option WhenDecided. It waits only if too much is in flight, or if a snapshot is due, because a snapshot is of
// what is durable. Example: the call that decides entries 7 to 9 returns no effects while they are being written. The
// next call, after Appended, returns theirs.
//
// If an append has failed, the first call after it returns an *AppendError, and the engine is of no more use, as with
// Step. With WhenDecided, effects of decisions that are lost may have been given out; the world that they were carried
// out in is lost with them.
func (e *Engine) Advance(ctx context.Context, now time.Time, inputs []eventlog.Payload) (Ready, error) {
	if err := e.stopped(); err != nil {
		return Ready{}, err
	}
	if err := e.process(ctx, now, inputs); err != nil {
		return e.stop(err)
	}
	return e.ready(0)
}

// Note takes inputs in at time now as Advance does, and decides nothing. It is for a scheduler that is about to end:
// the outcomes of its last effects belong in the log, and what they make possible is decided by its next epoch.
func (e *Engine) Note(ctx context.Context, now time.Time, inputs []eventlog.Payload) (Ready, error) {
	if err := e.stopped(); err != nil {
		return Ready{}, err
	}
	err := e.takeIn(eventlog.TimeOf(now), inputs)
	if err == nil {
		err = errors.Join(e.hand(), ctx.Err())
	}
	if err != nil {
		return e.stop(err)
	}
	return e.ready(0)
}

// Sync waits until everything is durable.
func (e *Engine) Sync() (Ready, error) { return e.Await(e.machine.Seq()) }

// Await waits until entry seq is durable, or the last one there is if that is an earlier one.
func (e *Engine) Await(seq uint64) (Ready, error) {
	if err := e.stopped(); err != nil {
		return Ready{}, err
	}
	return e.ready(min(seq, e.machine.Seq()))
}

// stopped returns an error if an earlier one has stopped the engine.
func (e *Engine) stopped() error {
	if e.failed == nil {
		return nil
	}
	return fmt.Errorf("the engine has stopped: %w", e.failed)
}

// process takes inputs in, decides, and hands all of it over.
func (e *Engine) process(ctx context.Context, now time.Time, inputs []eventlog.Payload) error {
	if len(inputs) == 0 {
		if wake, ok := e.machine.Wake(); ok && !wake.After(now) {
			inputs = []eventlog.Payload{&eventlog.Tick{}}
		} else if e.settled {
			return nil
		}
	}
	return e.takeAndDecide(ctx, eventlog.TimeOf(now), inputs)
}

// takeAndDecide applies the inputs, decides until nothing is left to decide or the limit is reached, and hands all of
// it over.
func (e *Engine) takeAndDecide(ctx context.Context, now eventlog.Time, inputs []eventlog.Payload) error {
	if err := e.takeIn(now, inputs); err != nil {
		return err
	}
	for made := 0; ; made++ {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, e.handAndStop())
		}
		if made == e.opts.Decisions && made > 0 {
			e.busy = true
			return e.hand()
		}
		d, ok := e.machine.Decide(nil)
		if !ok {
			break
		}
		if len(d.Victims) > 0 {
			e.evicting = append(e.evicting, eviction{e.machine.Seq() + 1, &d})
		}
		if err := e.take(e.next(e.machine.Now(), &d)); err != nil {
			return err
		}
	}
	if err := e.hand(); err != nil {
		return err
	}
	e.settled = true
	return nil
}

// takeIn applies the inputs. The first one is marked if nothing was left to decide before it.
func (e *Engine) takeIn(now eventlog.Time, inputs []eventlog.Payload) error {
	for i, input := range inputs {
		entry := e.next(max(now, e.machine.Now()), input)
		entry.Settled = i == 0 && e.settled
		if err := e.asLogged(&entry); err != nil {
			return err
		}
		if err := e.take(entry); err != nil {
			return err
		}
	}
	e.settled, e.busy = e.settled && len(inputs) == 0, false
	return nil
}

// handAndStop brings what was decided so far to the disk.
func (e *Engine) handAndStop() error {
	if err := e.hand(); err != nil {
		return err
	}
	return e.writer.stop()
}

// asLogged replaces an input's object by what a reader of the log will see: the fields that scheduling reads, encoded
// and decoded once. Invariant: the Machine never sees more than the log has. Example: a pod's env values are dropped
// here, so no decision can depend on them and fail to be repeated by replay.
func (e *Engine) asLogged(entry *eventlog.Entry) (err error) {
	switch p := entry.Payload.(type) {
	case *eventlog.Upserted:
		if entry.Payload, entry.Encoding, err = e.encoder.Logged(p); err != nil {
			return fmt.Errorf("take in %w", err)
		}
		return nil
	case *eventlog.BindResult:
		if message := eventlog.MessageWithoutCredentials(p.Message); message != p.Message {
			clean := *p
			clean.Message = message
			entry.Payload = &clean
		}
		return nil
	case *eventlog.EvictResult:
		if message := eventlog.MessageWithoutCredentials(p.Message); message != p.Message {
			clean := *p
			clean.Message = message
			entry.Payload = &clean
		}
		return nil
	case *eventlog.ExtenderResult:
		entry.Payload = p.WithoutCredentials()
		return nil
	case *eventlog.Deleted, *eventlog.Tick:
		return nil
	default:
		return fmt.Errorf("take in a %T: it is no input: decisions and epochs are the engine's own", p)
	}
}

func (e *Engine) next(t eventlog.Time, p eventlog.Payload) eventlog.Entry {
	return eventlog.Entry{Seq: e.machine.Seq() + 1, Epoch: e.machine.Epoch(), Time: t, Payload: p}
}

// take applies an entry and adds it to those that are to be handed over. It is encoded before it is applied: after that
// its payload belongs to the Machine, and the writer must not read it.
func (e *Engine) take(entry eventlog.Entry) (err error) {
	if entry.Encoding.IsZero() {
		if entry.Encoding, err = e.encoder.Encode(entry.Payload); err != nil {
			return &eventlog.EntryError{Seq: entry.Seq, Err: err}
		}
	}
	next := e.load.plus(load{1, entry.Encoding.Len()})
	if len(e.pending) > 0 && !e.writer.limit.Holds(next.entries, next.bytes) {
		if err := e.hand(); err != nil { // before entry is applied: a snapshot is of what was handed over
			return err
		}
	}
	if err := e.machine.Apply(entry); err != nil {
		return err
	}
	e.pending, e.load = append(e.pending, entry), e.load.plus(load{1, entry.Encoding.Len()})
	if len(e.pending) < e.writer.limit.Entries {
		return nil
	}
	return e.hand()
}

// hand hands over what was applied to be made durable.
func (e *Engine) hand() error {
	if len(e.pending) == 0 {
		return nil
	}
	if err := e.writer.put(e.pending); err != nil {
		return err
	}
	clear(e.pending)
	e.pending, e.load = e.pending[:0], load{}
	return e.snapshotIfDue()
}
