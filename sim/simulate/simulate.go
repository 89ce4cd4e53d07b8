// Package simulate runs a virtual cluster against the engine: from its start, or from where a log of it ends.
//
// It owns a run from the first entry to the last durable one: it opens the engine, or first tells a resumed cluster
// what the log says; it chooses whether the run waits for the disk; it writes the lines of effects; at the end it
// waits until everything is durable. For example, with Options.Effects each step waits until its decisions are
// durable, and a line is written before the cluster carries the effect out. Without, the run continues while its
// decisions are being made durable, since the virtual cluster exists in the log alone.
//
// The package opens and closes neither logs nor files, reads no workload, prints nothing and knows no flags: the
// caller does that. It decides nothing: package engine does.
//
// Start reading at Run.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// Options are the choices of a run.
type Options struct {
	// Engine is what the engine is opened with. Release and Observe are set by Run.
	Engine engine.Options
	// Log is the place where the run is written; nil for a run that keeps no log.
	Log engine.Log
	// Resume says that Log holds the beginning of this simulation, to be told again before the run continues.
	Resume bool
	// Effects receives a line of JSON for each bind and eviction, when its decision is durable and before it is carried
	// out. nil: none are written, and the run does not wait for the disk before its end.
	Effects io.Writer
	// Open opens the engine; nil means engine.Open.
	Open func(context.Context, engine.Log, time.Time, engine.Options) (*engine.Engine, error)
	// Resumed is told, before the run continues behind what the log says, the log's last entry and the virtual time;
	// nil is not called.
	Resumed func(seq uint64, now time.Time)
	// Progress is told after each step how far the run has come; nil is not called.
	Progress func(Progress)
}

// Progress is how far a run has come.
type Progress struct {
	sim.Progress
	// Told is how many entries of the log were told again, as long as that continues; Live says that it does not (any
	// more).
	Told uint64
	Live bool
	// Decisions is how many decisions the run has made, Durable the last durable entry of the log.
	Decisions, Durable uint64
}

// Run runs the cluster to its end, and until that is durable. The summary has the speed of the run too. After an error
// it has only that.
//
// What goes wrong at the end is joined to what ended the run: the disk of an interrupted run may be broken, too. An
// append that failed is an *engine.AppendError, a log of another simulation a *sim.OtherSimulationError.
func Run(ctx context.Context, cluster *sim.Cluster, opts Options) (report.Summary, error) {
	r := &run{Options: opts}
	if r.Log == nil {
		r.Log = NoLog()
	}
	if r.Open == nil {
		r.Open = engine.Open
	}
	s, err := r.run(ctx, cluster)
	if cerr := r.close(); cerr != nil {
		err = errors.Join(err, cerr)
	}
	return s, err
}

// run is a run under way.
type run struct {
	Options
	resumption *sim.Resumption    // nil unless a simulation is resumed
	before     *scheduler.Machine // of the resumption
	engine     *engine.Engine     // nil while the resumption is not at the log's end
	first      uint64             // cycles before the engine's first
}

func (r *run) run(ctx context.Context, cluster *sim.Cluster) (s report.Summary, err error) {
	sched, err := r.scheduler(ctx)
	if err != nil {
		return s, err
	}
	started := time.Now()
	s, err = cluster.Run(ctx, sched, func(at sim.Progress) {
		if r.Progress != nil {
			r.Progress(r.progress(at))
		}
	})
	if err == nil {
		err = r.finish()
	}
	s.Measured(r.decided(), time.Since(started))
	return s, err
}

// scheduler returns what the cluster is to drive.
func (r *run) scheduler(ctx context.Context) (sim.Scheduler, error) {
	if !r.Resume {
		return r.open(ctx, workload.Start)
	}
	r.before = scheduler.New(r.Engine.Registry)
	r.resumption = sim.Resume(
		r.Log.Read(ctx, 1),
		r.before,
		r.Engine.Config,
		func(now time.Time) (sim.Scheduler, error) {
			return r.open(ctx, now)
		},
	)
	return r.resumption, nil
}

// open opens the engine on the log, at virtual time now.
func (r *run) open(ctx context.Context, now time.Time) (sim.Scheduler, error) {
	opts := r.Engine
	opts.Release = engine.WhenDecided
	if r.Effects != nil {
		opts.Release = engine.WhenDurable // they leave the process
		opts.Observe = r.writeEffects
	}
	eng, err := r.Open(ctx, r.Log, now, opts)
	if err != nil {
		return nil, err
	}
	r.engine, r.first = eng, eng.Machine().Cycle()
	if r.resumption != nil && r.Resumed != nil {
		r.Resumed(r.before.Seq(), now)
	}
	if r.Effects == nil {
		return sim.Advancing(eng), nil
	}
	return sim.Stepping(eng), nil
}

// finish waits until everything is durable, and says what is wrong with a simulation that has ended without an error.
func (r *run) finish() error {
	if r.engine != nil {
		if _, err := r.engine.Sync(); err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
	}
	if r.resumption == nil {
		return nil
	}
	return r.resumption.Finished()
}

// decided is how many decisions were made, without those of the log before.
func (r *run) decided() uint64 {
	if r.engine == nil {
		return 0
	}
	return r.engine.Machine().Cycle() - r.first
}

func (r *run) progress(at sim.Progress) Progress {
	if r.engine == nil {
		return Progress{Progress: at, Told: r.before.Seq()}
	}
	return Progress{Progress: at, Live: true, Decisions: r.decided(), Durable: r.engine.Durable()}
}

func (r *run) close() error {
	if r.resumption != nil {
		r.resumption.Close()
	}
	if r.engine == nil {
		return nil
	}
	return r.engine.Close()
}
