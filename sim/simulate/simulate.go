// Package simulate runs a virtual cluster against the engine: from its start, or from the end of its log.
//
// It owns a run from the first entry to the last durable one. It opens the engine, or first replays the log to a
// resumed cluster. It chooses whether the run waits for the disk, writes the lines of effects, and at the end waits
// until everything is durable. With Options.Effects each step waits until its decisions are durable, and a line is
// written before the cluster carries the effect out. Without, the run continues while its decisions are being made
// durable, since the virtual cluster exists in the log alone.
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
	// Engine has the options for opening the engine. Run sets Release.
	Engine engine.Options
	// Log is the place where the run is written; nil for a run that keeps no log.
	Log engine.Log
	// Log gets the run's entries; nil for a run that keeps no log.
	Resume bool
	// Resume says that Log holds the beginning of this simulation, to be replayed before the run continues.
	Effects io.Writer
	// Open opens the engine; nil means engine.Open.
	Open func(context.Context, engine.Log, time.Time, engine.Options) (*engine.Engine, error)
	// Resumed, if not nil, is called before the run continues after the log's entries, with the log's last entry and
	// the virtual time.
	Resumed func(seq uint64, now time.Time)
	// Progress, if not nil, is called after each step.
	Progress func(Progress)
}

// Progress is the progress of a run.
type Progress struct {
	sim.Progress
	// Told is the number of the log's entries that were replayed so far; Live says that the replay has ended, or that
	// there is none.
	Told uint64
	Live bool
	// Decisions is the number of decisions that the run has made, Durable the last durable entry of the log.
	Decisions, Durable uint64
}

// Run runs the cluster to its end, and waits until that is durable. The summary has the speed of the run too. After an
// error it has only that.
//
// An error at the end is joined to the error that ended the run: the disk of an interrupted run may be broken, too. A
// failed append is an *engine.AppendError, a log from another simulation a *sim.OtherSimulationError.
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

// scheduler returns the scheduler for the cluster to drive.
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
	return &telling{sim.Stepping(eng), r.Effects}, nil
}

// finish waits until everything is durable, and returns an error for a log that was not replayed completely.
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

// decided is the number of decisions made, without the earlier ones in the log.
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
