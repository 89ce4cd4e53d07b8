// Package live runs the scheduler on a world that changes by itself, such as a Kubernetes cluster.
//
// It owns the loop between the engine and that world. Each turn it gives the world's changes to the engine, and hands
// the engine.Ready on: first to Options.Observe, then to Options.Effects. It calls the engine again when the world
// changes, when an effect has a result, when an append has ended, or when time alone makes work. At the end it decides
// nothing more, waits for the effects that are under way, and waits until their outcomes are in the log.
//
// It does not read the scheduler's state, talks to no API server and reads no configuration. World and Effects talk
// to the API server, and the caller reads the configuration. The loop's goroutine, which is the engine's, never waits
// for the network.
//
// Start reading at Run.
package live

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/utils/clock"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// World tells the scheduler what there is.
type World interface {
	// Synced is closed once the first lists are complete. Nothing is decided before.
	Synced() <-chan struct{}
	// Changed receives one message for any number of changes.
	Changed() <-chan struct{}
	// Take returns the changes since the last call. The first call returns the difference to the recovered state.
	Take() []eventlog.Payload
}

// Effects carries out what was decided. None of its methods but Drain waits.
type Effects interface {
	// Carry takes on the Effects of a Ready, and no longer sends the evictions of its Withdrawals.
	Carry(engine.Ready)
	// Finished receives one message for any number of results.
	Finished() <-chan struct{}
	// Take returns the results since the last call.
	Take() []eventlog.Payload
	// Drain waits until every effect that was given to Carry has its result. It does not wait for effects that
	// themselves wait for somebody else, such as for a volume.
	Drain(context.Context) error
}

// Options are the options of a run.
type Options struct {
	// Engine has the options for engine.Open. Run sets Release and Decisions.
	Engine engine.Options
	// Log is the log to write.
	Log engine.Log
	// World returns the world. It is called once, with the recovered state to compare the world with.
	World func(engine.Recovery) (World, error)
	// Effects carries out what was decided.
	Effects Effects
	// Observe receives every Ready that has Commits, before Effects does, in the loop's goroutine; nil is not called.
	// It may read the Ready's State until it returns.
	Observe func(engine.Ready)
	// Clock stamps entries and wakes the loop; nil means the clock of this machine.
	Clock clock.Clock
	// Grace is the time for which the end of a run waits for effects that are under way.
	Grace time.Duration
	// Lost is closed when nothing may be sent any more, because another scheduler may be at work. The run then ends
	// without waiting for effects. The caller stops Effects at the same time. nil is never closed.
	Lost <-chan struct{}
	// Stage is called when the run enters a stage; nil is not called.
	Stage func(Stage)
	// Report receives messages for people that are no errors.
	Report func(message string)
}

// Stage is the progress of a run.
type Stage uint8

// The stages, in order.
const (
	// Recovering: the log is being read.
	Recovering Stage = iota
	// Syncing: the state is recovered, and the world is being listed.
	Syncing
	// Scheduling: decisions are being made.
	Scheduling
	// Draining: nothing more is decided, and effects are waited for.
	Draining
	// Ended: everything that was decided is durable, or an error ended the run.
	Ended
)

// String returns the stage's name.
func (s Stage) String() string {
	return [...]string{"recovering", "syncing", "scheduling", "draining", "ended"}[s]
}

// maxDecisions limits the decisions of one turn. The effects of a backlog's first decisions do not wait for its last
// ones: at 10,000 decisions a second, a turn takes 50 ms.
const maxDecisions = 512

// recoveryGC is the garbage collector's target while a log is recovered. Nearly everything that is allocated then
// stays, so there is little to collect.
const recoveryGC = 300

// Run recovers the state from the log, begins an epoch, and schedules until ctx is done or something fails. When ctx is
// done it ends in order, and returns nil if the results of all effects are in the log. When Options.Lost is closed it
// ends at once. The error says what is not in the log. An append that failed is an *engine.AppendError.
func Run(ctx context.Context, opts Options) error {
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	r := &run{Options: opts}
	err := r.run(ctx)
	r.enter(Ended)
	if r.engine != nil {
		err = errors.Join(err, r.engine.Close())
	}
	return err
}

// run is a run under way.
type run struct {
	Options
	engine *engine.Engine
	ready  engine.Ready // the last one
	world  World
	timer  clock.Timer
	began  time.Time // by the clock
	base   time.Time // the time of entries when the clock said began
}

// now returns the time for entries: the clock's time, unless the clock is behind. It may have been set back, or the log
// may come from a machine whose clock is ahead. Then the time passes at the clock's speed from where it was. Otherwise
// every backoff would last until the clock has caught up.
func (r *run) now() time.Time {
	steady := r.base.Add(r.Clock.Since(r.began))
	now := r.Clock.Now()
	if now.After(steady) {
		r.base, r.began = now, now
		return now
	}
	return steady
}

func (r *run) run(ctx context.Context) error {
	r.enter(Recovering)
	if err := r.open(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			return nil // nothing was begun
		}
		return err
	}
	r.enter(Syncing)
	world, err := r.World(r.engine.Recovery())
	if err != nil {
		return err
	}
	r.world = world
	select {
	case <-world.Synced():
	case <-ctx.Done():
		return nil // no effect was given out in this epoch
	case <-r.Lost:
		return nil // nor here
	}
	r.enter(Scheduling)
	r.timer = r.Clock.NewTimer(time.Hour)
	defer r.timer.Stop()
	for ctx.Err() == nil && !r.lost() {
		if err := r.step(); err != nil {
			return err
		}
		if !r.ready.Busy {
			r.wait(ctx)
		}
	}
	r.enter(Draining)
	return r.drain()
}

func (r *run) enter(s Stage) {
	if r.Stage != nil {
		r.Stage(s)
	}
}

// lost reports whether nothing may be sent any more.
func (r *run) lost() bool {
	select {
	case <-r.Lost:
		return true
	default:
		return false
	}
}

// open recovers the state and begins the epoch.
func (r *run) open(ctx context.Context) error {
	opts := r.Engine
	opts.Release, opts.Decisions = engine.WhenDurable, maxDecisions
	defer debug.SetGCPercent(debug.SetGCPercent(recoveryGC))
	eng, err := engine.Open(ctx, r.Log, r.Clock.Now(), opts)
	if err != nil {
		return err
	}
	r.engine = eng
	r.began = r.Clock.Now()
	r.base = r.began
	if last := eng.Recovery().Began; last.After(r.base) {
		r.base = last
		if ahead := last.Sub(r.began); ahead > time.Second && r.Report != nil {
			r.Report(fmt.Sprintf("the log's last entry is %s ahead of this machine's clock: entries go on from there",
				ahead.Round(time.Millisecond)))
		}
	}
	return nil
}

// step takes in the changes, decides, and hands on the Ready. The run's context does not interrupt it, so that the log
// has the whole step.
func (r *run) step() error {
	inputs := append(r.Effects.Take(), r.world.Take()...)
	ready, err := r.engine.Advance(context.Background(), r.now(), inputs)
	r.ready = ready
	r.observe(ready)
	if err != nil {
		return err
	}
	if len(ready.Effects)+len(ready.Withdrawals) > 0 && !r.lost() {
		r.Effects.Carry(ready)
	}
	return nil
}

func (r *run) observe(ready engine.Ready) {
	if r.Observe != nil && len(ready.Commits) > 0 {
		r.Observe(ready)
	}
}

// wait waits until there may be something to do.
func (r *run) wait(ctx context.Context) {
	var woken <-chan time.Time
	if wake := r.ready.Wake; !wake.IsZero() {
		if !r.timer.Stop() {
			select {
			case <-r.timer.C():
			default:
			}
		}
		r.timer.Reset(max(wake.Sub(r.now()), 0))
		woken = r.timer.C()
	}
	select {
	case <-ctx.Done():
	case <-r.Lost:
	case <-woken:
	case <-r.world.Changed():
	case <-r.Effects.Finished():
	case <-r.engine.Appended():
	}
}

// drain waits for the effects that are under way, and until their results are durable. It decides nothing more. Effects
// whose decisions become durable meanwhile are left to the next epoch, which finds them outstanding.
func (r *run) drain() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	grace := r.Clock.NewTimer(r.Grace)
	defer grace.Stop()
	drained := make(chan error, 1)
	go func() { drained <- r.Effects.Drain(ctx) }()
	var err error
	for waiting := true; waiting; {
		select {
		case err = <-drained:
			waiting = false
		case <-grace.C():
			cancel()
			err = errors.Join(fmt.Errorf("effects are still under way after %s: the next start asks what came of them",
				r.Grace), <-drained)
			waiting = false
		case <-r.Lost:
			cancel()
			err = <-drained
			waiting = false
		case <-r.Effects.Finished():
		case <-r.engine.Appended():
		}
		ready, nerr := r.engine.Note(context.Background(), r.now(), r.Effects.Take())
		r.observe(ready)
		if nerr != nil {
			return errors.Join(err, nerr)
		}
	}
	ready, serr := r.engine.Sync()
	r.observe(ready)
	return errors.Join(err, serr)
}
