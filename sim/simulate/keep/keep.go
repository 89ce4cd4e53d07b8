// Package keep runs simulations whose log is kept in a directory, and advises the user when one stops.
//
// It owns the layer between package simulate, which knows neither files nor directories, and the command line. It
// makes the log or opens an existing one, arranges for snapshots of it, opens the file of effects, and closes
// everything. To an error that ends a simulation it adds advice, in terms of the flags of rollcall simulate. It reads
// no workload and prints nothing.
//
// Start reading at Run.
package keep

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/simulate"
)

// DefaultSnapshotEvery is the number of entries that are read back in about a second with 5,000 nodes and 100,000
// pods. Restoring such a state takes another two seconds, and making a snapshot of it blocks the log for about half a
// second.
const DefaultSnapshotEvery = 50_000

// recoveryGC is the garbage collector's target while a log is recovered: nearly all memory allocated then stays in
// use, so that frequent collections only take time.
const recoveryGC = 300

// Options select the kept log and files of a simulation, and whether it resumes.
type Options struct {
	// Log is the directory of the log; "" for none to be kept.
	Log string
	// Resume says that Log holds the beginning of this simulation.
	Resume bool
	// Archives are directories with archived segments of the log that is resumed.
	Archives []string
	// GiveUpAfter is the log's last entry if the later ones are given up; 0 for none.
	GiveUpAfter uint64
	// SegmentBytes is the size of the log's files; 0 for the default.
	SegmentBytes int64
	// A snapshot is written after SnapshotEvery entries and after SnapshotAge of virtual time; 0 turns a limit off.
	SnapshotEvery uint64
	SnapshotAge   time.Duration
	// Effects is the file that gets a line for each effect; "" for none.
	Effects string
	// Engine has the registry, the configuration and the program's version.
	Engine engine.Options
	// Report gets notes for a person that are no errors. Several goroutines call it.
	Report func(message string)
	// Resumed and Progress are as in simulate.Options.
	Resumed  func(seq uint64, now time.Time)
	Progress func(simulate.Progress)
}

// keptLog is the log that a simulation writes to.
type keptLog interface {
	engine.Log
	Close() error
}

// Run runs the cluster and returns the summary. An error at the end is joined to the error that ended the simulation.
// A *logs.RequestError says that the request has to change.
func Run(ctx context.Context, cluster *sim.Cluster, o Options) (report.Summary, error) {
	if o.Log == "" {
		return o.runOn(ctx, cluster, nil)
	}
	log, err := o.openLog(ctx)
	if err != nil {
		return report.Summary{}, o.explainStop(err)
	}
	return o.runOn(ctx, cluster, log)
}

// runOn runs the cluster, writes to log if that is not nil, and closes it.
func (o *Options) runOn(ctx context.Context, cluster *sim.Cluster, log keptLog) (s report.Summary, err error) {
	opts := simulate.Options{
		Engine: o.Engine, Resume: o.Resume, Open: open, Resumed: o.Resumed, Progress: o.Progress,
	}
	var closers []func() error
	if log != nil {
		opts.Log = log
		closers = append(closers, log.Close)
	}
	if kept, ok := log.(*logs.Kept); ok {
		o.writeSnapshots(&opts.Engine, kept)
	}
	closeAll := func(err error) error {
		for _, c := range closers {
			if cerr := c(); cerr != nil {
				err = errors.Join(err, cerr)
			}
		}
		return err
	}
	if o.Effects != "" {
		file, err := os.OpenFile(o.Effects, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return s, closeAll(err)
		}
		opts.Effects, closers = file, append(closers, file.Close)
	}
	s, err = simulate.Run(ctx, cluster, opts)
	return s, o.explainStop(closeAll(err))
}

// open is a faster engine.Open, after the lost entries were given up.
func open(ctx context.Context, log engine.Log, now time.Time, opts engine.Options) (*engine.Engine, error) {
	if kept, ok := log.(*logs.Kept); ok {
		if err := kept.GiveUp(); err != nil {
			return nil, err
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(recoveryGC))
	return engine.Open(ctx, log, now, opts)
}

// writeSnapshots makes opts write snapshots of log, and use the existing ones.
func (o *Options) writeSnapshots(opts *engine.Options, log *logs.Kept) {
	spacing := o.SnapshotEvery
	if spacing == 0 {
		spacing = DefaultSnapshotEvery
	}
	opts.Snapshots, opts.SnapshotEvery, opts.SnapshotAge = log.Snapshots(spacing), o.SnapshotEvery, o.SnapshotAge
	opts.Report = o.Report
}

// openLog makes a new log, or opens the existing one of a simulation.
func (o *Options) openLog(ctx context.Context) (*logs.Kept, error) {
	opts := logs.KeepOptions{
		SegmentBytes: o.SegmentBytes, Archives: o.Archives, GiveUpAfter: o.GiveUpAfter,
		Version: o.Engine.Version, Report: o.Report,
	}
	if !o.Resume {
		log, err := opts.Create(ctx, o.Log)
		if errors.Is(err, fs.ErrExist) {
			return nil, logs.Refuse("%s is there already: go on with its simulation with --resume, remove it, or "+
				"name another place", logs.Shown(o.Log))
		}
		return log, err
	}
	log, err := opts.Continue(ctx, o.Log)
	if !errors.Is(err, fs.ErrNotExist) {
		return log, err
	}
	if logs.InStream(o.Log) {
		return nil, logs.Refuse("%w: there is nothing to resume; begin without --resume", err)
	}
	path, perr := logs.Path(o.Log)
	if perr != nil {
		return nil, perr
	}
	if _, serr := os.Stat(path); serr != nil {
		return nil, logs.Refuse("no log at %s: there is nothing to resume; begin without --resume",
			logs.Shown(o.Log))
	}
	return nil, err
}
