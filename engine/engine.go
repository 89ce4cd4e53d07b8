package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Engine is the one writer of a log. It is not safe for concurrent use.
type Engine struct {
	log  Log
	opts Options
	state
	encoder  eventlog.Encoder
	pending  []eventlog.Entry // applied, not handed to the writer yet
	load     load             // of pending
	writer   *writer
	releases releases
	settled  bool  // nothing was left to decide after the last step: the next input is marked with it
	busy     bool  // the last step ended at Options.Decisions
	records  bool  // the configuration says that others decide
	failed   error // why the engine has stopped; nil while it works
	closed   bool
}

// Open begins a new epoch. It takes the state from Options.Standby, or recovers it from the log and the newest trusted
// snapshot. The epoch's first entry has the time now, or the log's last time if that is later. Effects that were
// outstanding when the log ended come with the first Ready. With a configuration that says recording (framework.Config)
// the epoch has inputs only: no Decision is made, and no effect is given out.
//
// The error is an *eventlog.DamagedError that wraps a *snapshot.LostError if there is a good snapshot of an entry that
// the log lacks: nothing may be appended in place of the lost entries.
func Open(ctx context.Context, log Log, now time.Time, opts Options) (*Engine, error) {
	e := &Engine{log: log, opts: opts, records: framework.LoggedRecording(opts.Config)}
	e.encoder.Own = eventlog.NewOwnTrim(framework.LoggedPluginResources(opts.Config))
	e.encoder.Recording = e.records
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
			Format:    e.format(),
			Behaviour: scheduler.Behaviour,
			Seed:      opts.Seed,
			Config:    opts.Config,
		},
	}
	e.releases.first = started.Seq
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

// format returns the highest format version of the epoch's records.
func (e *Engine) format() uint32 {
	if e.records {
		return eventlog.FormatVersion
	}
	return eventlog.SchedulerFormat
}

// Machine returns the state machine, to be read only.
func (e *Engine) Machine() *scheduler.Machine { return e.machine }

// Recovery says how Open recovered the state.
func (e *Engine) Recovery() Recovery { return e.recovery }

// Durable returns the last entry that is known to be durable.
func (e *Engine) Durable() uint64 {
	seq, _ := e.writer.state()
	return seq
}

// Appended returns a channel that signals that an append has succeeded or failed. The next call of the engine returns
// the result. The channel is for one receiver, and holds one message for any number of appends.
func (e *Engine) Appended() <-chan struct{} { return e.writer.appended }

// Step takes inputs in at time now (or at the log's last time if that is later), decides until nothing is left, and
// waits until all of it is durable. So the Ready has everything. Without inputs it logs that time passed, if that makes
// work, and does nothing otherwise.
//
// After an error the engine cannot be used any more. The Ready then has only the Commits that have succeeded, and no
// effect of this step may be carried out. Open reads again what the log has.
func (e *Engine) Step(ctx context.Context, now time.Time, inputs []eventlog.Payload) (Ready, error) {
	if err := e.stopped(); err != nil {
		return Ready{}, err
	}
	if err := e.process(ctx, now, inputs); err != nil {
		return e.stop(err)
	}
	return e.ready(e.machine.Seq())
}

// Advance is Step without the wait. It takes inputs in, decides, and hands the entries to the writer. The Ready has the
// effects of decisions that have become durable since the last call, or of all decisions with the option WhenDecided.
// Advance waits only if too much is in flight, or if a snapshot is due: a snapshot is made of durable entries only.
//
// For example, the call that makes the decisions at entries 7 to 9 returns no effects while these are being written.
// The next call, after Appended, returns them.
//
// If an append has failed, the next call returns an *AppendError, and the engine cannot be used any more. With
// WhenDecided, effects of decisions that are lost may have been given out. The world that they were carried out in is
// lost with them.
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
// the results of its last effects belong in the log, and the next epoch decides what they make possible.
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

// Await waits until entry seq is durable, or until the last entry is if there is no entry seq.
func (e *Engine) Await(seq uint64) (Ready, error) {
	if err := e.stopped(); err != nil {
		return Ready{}, err
	}
	return e.ready(min(seq, e.machine.Seq()))
}

// stopped returns an error if an earlier error has stopped the engine.
func (e *Engine) stopped() error {
	if e.failed == nil {
		return nil
	}
	return fmt.Errorf("the engine has stopped: %w", e.failed)
}

// process takes inputs in, decides, and hands the entries to the writer. Without inputs it checks whether a Tick is
// due. No Tick is needed for a time that the last entry has reached, until everything is decided. Example: a log ends
// between a Tick and its first Decision, and the engine that resumes it writes no second Tick.
func (e *Engine) process(ctx context.Context, now time.Time, inputs []eventlog.Payload) error {
	if len(inputs) == 0 {
		if e.records {
			return nil
		}
		wake, ok := e.machine.Wake()
		if ok && !wake.After(now) && (e.settled || wake.After(e.machine.Now().Std())) {
			inputs = []eventlog.Payload{&eventlog.Tick{}}
		} else if e.settled {
			return nil
		}
	}
	return e.takeAndDecide(ctx, eventlog.TimeOf(now), inputs)
}

// takeAndDecide applies the inputs, decides until nothing is left to decide or the limit is reached, and hands the
// entries to the writer.
func (e *Engine) takeAndDecide(ctx context.Context, now eventlog.Time, inputs []eventlog.Payload) error {
	if err := e.takeIn(now, inputs); err != nil {
		return err
	}
	if e.records {
		return e.hand() // it is never settled: what is left to decide, others decide
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
			e.releases.note(e.machine.Seq()+1, &d)
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

// handAndStop hands the entries so far to the writer, and waits until they are durable.
func (e *Engine) handAndStop() error {
	if err := e.hand(); err != nil {
		return err
	}
	return e.writer.stop()
}

// asLogged replaces an input's object by the object that a reader of the log will see: the fields that scheduling
// reads, encoded and decoded once. So the Machine never sees more than the log has. For example, a pod's env values are
// dropped here. Otherwise a decision could depend on them, and a replay would decide something else.
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
	case *eventlog.Watched:
		if !e.records {
			return errors.New("take in a Watched: only a recorder has it")
		}
		return nil
	default:
		return fmt.Errorf("take in a %T: it is no input: decisions and epochs are the engine's own", p)
	}
}

func (e *Engine) next(t eventlog.Time, p eventlog.Payload) eventlog.Entry {
	return eventlog.Entry{Seq: e.machine.Seq() + 1, Epoch: e.machine.Epoch(), Time: t, Payload: p}
}

// take applies an entry and adds it to pending. It encodes the entry first: once it is applied, its payload belongs to
// the Machine, and the writer must not read it.
func (e *Engine) take(entry eventlog.Entry) (err error) {
	if entry.Encoding.IsZero() {
		if entry.Encoding, err = e.encoder.Encode(entry.Payload); err != nil {
			return &eventlog.EntryError{Seq: entry.Seq, Err: err}
		}
	}
	next := e.load.plus(load{1, entry.Encoding.Len()})
	if len(e.pending) > 0 && !e.writer.limit.Holds(next.entries, next.bytes) {
		// before entry is applied: hand may make a snapshot of the entries that it hands over
		if err := e.hand(); err != nil {
			return err
		}
	}
	if e.opts.Before != nil {
		e.opts.Before(e.machine, entry)
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

// hand hands pending to the writer.
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

// snapshotIfDue begins a snapshot of the state if one is due. It first waits until the state's last entry is durable:
// Open refuses a log that ends before one of its snapshots. The error is the error of an append. A snapshot that fails
// is no error but reported: the log has everything, and another one will be due.
func (e *Engine) snapshotIfDue() error {
	e.collect(false)
	e.see(e.machine.Now())
	if !e.isDue(e.machine) {
		return nil
	}
	if e.keptByOthers(e.machine.Seq()) {
		return nil
	}
	seq := e.machine.Seq()
	if err := e.writer.await(seq); err != nil {
		return err
	}
	position, err := e.log.RecordHash(context.Background(), seq)
	e.keep(e.machine, position, err)
	return nil
}

// begin takes the state over from the Standby, or recovers it from the log.
func (e *Engine) begin(ctx context.Context) error {
	defer e.leave()
	if s := e.opts.Standby; s != nil && s.machine != nil {
		return e.takeOver(ctx)
	}
	return e.recover(ctx, e.log, &e.opts, true)
}

// takeOver takes the state from the Standby, and applies the entries that have come since.
func (e *Engine) takeOver(ctx context.Context) error {
	s := e.opts.Standby
	last, err := e.log.Last()
	if err != nil {
		return err
	}
	seq := s.machine.Seq()
	if last < seq {
		return &eventlog.DamagedError{Seq: last + 1, Err: fmt.Errorf(
			"the log ends with entry %d, but this process has read entry %d in it: entries %d to %d are missing",
			last, seq, last+1, seq)}
	}
	if err := s.isOf(ctx, e.log); err != nil {
		return err
	}
	if e.opts.Snapshots != nil {
		refused, err := findLoss(&snapshot.Series{Store: e.opts.Snapshots, Registry: e.opts.Registry}, last)
		if err != nil {
			return err
		}
		s.recovery.Refused = append(s.recovery.Refused, refused...)
	}
	e.state, s.state = s.state, state{}
	e.tell, e.shared = e.opts.report, e.opts.StandbysSnapshot
	if err := e.read(ctx, e.log, &e.opts, s.applied); err != nil {
		return err
	}
	e.opts.report(fmt.Sprintf("took over the state of entry %d, and read %d entries more", seq, e.machine.Seq()-seq))
	return nil
}

// ready waits until entry seq is durable, and returns everything that has become due.
func (e *Engine) ready(seq uint64) (Ready, error) {
	if err := e.writer.await(seq); err != nil {
		return e.stop(err)
	}
	commits, durable, err := e.writer.collect()
	r := Ready{Commits: commits, Busy: e.busy, State: e.machine}
	if err != nil {
		e.failed = err
		return r, err
	}
	if e.opts.Release == WhenDecided {
		durable = e.machine.Seq()
	}
	if e.records {
		return r, nil
	}
	r.Effects, r.Withdrawals = e.releases.upTo(e.machine, durable), e.releases.withdrawals(e.machine)
	if at, ok := e.machine.Wake(); ok {
		r.Wake = at
	}
	return r, nil
}

// stop records why the engine has stopped, and returns the entries that have become durable.
func (e *Engine) stop(why error) (Ready, error) {
	e.failed = why
	commits, _, _ := e.writer.collect() // the writer's error is in why, or Close returns it
	return Ready{Commits: commits, State: e.machine}, why
}

// Close waits until all entries are durable. The engine cannot be used after it. The error is the error of a failed
// append, unless an earlier call has returned it. A failed snapshot is reported (Options.Report).
//
// Entries that become durable during Close come in no Ready. A driver that wants all of them calls Sync before. Close
// does not close the log: the caller that opened the log does, after Close.
func (e *Engine) Close() error {
	err := e.writer.stop()
	e.collect(true)
	var told *AppendError
	if e.closed || errors.As(e.failed, &told) {
		err = nil
	}
	if e.closed = true; e.failed == nil {
		e.failed = errClosed
	}
	return err
}

var errClosed = errors.New("it was closed")
