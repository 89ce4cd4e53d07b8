package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/simulate"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// keeping is what is kept of a simulation, and whether it goes on with what was kept before.
type keeping struct {
	log         string // the directory; "" for none
	resume      bool
	reading     reading // of the log that is resumed
	giveUpAfter uint64  // the log's last entry, if those behind it are given up; 0 for none
	effects     string  // the file; "" for none
	segmentSize size    // 0 for the default
	snapshots   snapshotting
	classes     classes
}

func (k *keeping) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.log, "log", "", "write the log to this new directory; default: none is kept")
	f.BoolVar(&k.resume, "resume", false,
		"go on with the simulation that ended before its time and left the log of --log")
	f.Uint64Var(&k.giveUpAfter, "give-up-after",
		0, "with --resume, go on behind this entry, the log's last one, although snapshots show that the log had "+
			"more; they are removed")
	k.reading.register(cmd)
	f.StringVar(&k.effects, "effects", "",
		"append a line of JSON to this file for each bind or eviction, when it is carried out")
	f.Var(&k.segmentSize, "segment-size",
		"begin a new file of the log after this many `bytes`, such as 64MiB; default: 256MiB")
	k.snapshots.register(cmd)
	k.classes.register(cmd)
}

func (k *keeping) check() error {
	switch {
	case k.log == "" && (k.resume || k.segmentSize != 0):
		return usageError{errors.New("--resume and --segment-size need --log: without it there is no log")}
	case len(k.reading.archives) > 0 && !k.resume:
		return usageError{errors.New("--archive needs --resume: nothing of a new log is archived")}
	case k.giveUpAfter != 0 && !k.resume:
		return usageError{errors.New("--give-up-after needs --resume: a new log has lost nothing")}
	}
	if err := k.classes.check(); err != nil {
		return err
	}
	return k.snapshots.check(k.log)
}

// simulate runs the cluster and returns the summary.
func (k keeping) simulate(ctx context.Context, cluster *sim.Cluster, config []byte) (report.Summary, error) {
	if k.log == "" {
		return k.simulateOn(ctx, cluster, config, nil)
	}
	log, err := k.openLog()
	if err != nil {
		return report.Summary{}, k.explainStop(err)
	}
	return k.simulateOn(ctx, cluster, config, log)
}

// A keptLog is what a simulation writes to.
type keptLog interface {
	engine.Log
	Close() error
}

// simulateOn runs the cluster, writes to log if that is not nil, and closes it. What goes wrong at the end is told
// beside what ended the simulation.
func (k keeping) simulateOn(ctx context.Context, cluster *sim.Cluster, config []byte, log keptLog) (
	s report.Summary, err error,
) {
	opts := simulate.Options{
		Engine: engine.Options{Registry: k.classes.registry(), Config: config, Version: version().String()},
		Resume: k.resume,
		Open: func(ctx context.Context, log engine.Log, now time.Time, opts engine.Options) (*engine.Engine, error) {
			if kept, ok := log.(*logs.Kept); ok {
				if err := kept.GiveUp(); err != nil {
					return nil, err
				}
			}
			return openEngine(ctx, log, now, opts)
		},
		Resumed: func(seq uint64, now time.Time) {
			fmt.Fprintf(os.Stderr, "rollcall: %s: going on behind entry %d, at %s\n", k.log, seq,
				now.Format(time.RFC3339))
		},
	}
	var closers []func() error
	if log != nil {
		opts.Log = log
		closers = append(closers, log.Close)
	}
	if kept, ok := log.(*logs.Kept); ok {
		k.snapshots.into(&opts.Engine, kept)
	}
	closeAll := func(err error) error {
		for _, c := range closers {
			if cerr := c(); cerr != nil {
				err = errors.Join(err, cerr)
			}
		}
		return err
	}
	if k.effects != "" {
		file, err := os.OpenFile(k.effects, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return s, closeAll(err)
		}
		opts.Effects, closers = file, append(closers, file.Close)
	}
	p := newProgress()
	opts.Progress = func(at simulate.Progress) {
		p.show("%s virtual time, %d of %d pods arrived, %d bound, %d ended, %s",
			at.Now.Sub(workload.Start).Round(time.Second), at.Arrived, at.Pods, at.Bound, at.Ended, k.progress(at))
	}
	s, err = simulate.Run(ctx, cluster, opts)
	p.done()
	return s, k.explainStop(closeAll(err))
}

// progress says for people what the scheduler has done.
func (k keeping) progress(at simulate.Progress) string {
	switch {
	case !at.Live:
		return fmt.Sprintf("%d entries of the log told again", at.Told)
	case k.log == "":
		return fmt.Sprintf("%d decisions", at.Decisions)
	}
	return fmt.Sprintf("%d decisions, %d entries on the disk", at.Decisions, at.Durable)
}

// openLog makes a new log, or opens the one that a simulation left.
func (k keeping) openLog() (*logs.Kept, error) {
	opts := logs.KeepOptions{
		SegmentBytes: int64(k.segmentSize), Archives: k.reading.archives, GiveUpAfter: k.giveUpAfter,
		Version: version().String(), Report: printNote,
	}
	if !k.resume {
		log, err := opts.Create(k.log)
		if errors.Is(err, fs.ErrExist) {
			return nil, usageError{
				fmt.Errorf("%s is there already: go on with its simulation with --resume, remove it, or name another "+
					"directory", k.log)}
		}
		return log, err
	}
	log, err := opts.Continue(k.log)
	if _, serr := os.Stat(k.log); errors.Is(err, fs.ErrNotExist) && serr != nil {
		return nil, usageError{fmt.Errorf("no log at %s: there is nothing to resume; begin without --resume", k.log)}
	}
	return log, err
}

// explainStop says what to do about an error that a simulation cannot go on from.
func (k keeping) explainStop(err error) error {
	var appending *engine.AppendError
	var other *sim.OtherSimulationError
	var archived *eventlog.ArchivedError
	var damaged *eventlog.DamagedError
	var lost *snapshot.LostError
	switch {
	case errors.As(err, &damaged) && damaged.Seq > 1 && !errors.As(err, &lost): // of which logs has said it
		return fmt.Errorf("%w\n%s", err, logs.AdviceOnDamage(k.log, 1, damaged.Seq))
	case errors.As(err, &archived) && len(archived.Dirs) > 0:
		return fmt.Errorf(
			"cannot resume: the whole log is needed to make the cluster again, but %w; say with --archive where they "+
				"are now", err)
	case errors.As(err, &other):
		return usageError{
			fmt.Errorf("cannot resume: %w; give the nodes, workload, configuration and --until that it was begun with",
				err)}
	case errors.As(err, &appending):
		return fmt.Errorf(
			"%w\nNothing that was decided in entries %d and on has left this process, and every entry before them is "+
				"safe. %s",
			err, appending.First, k.advice())
	case logs.IsDiskError(err) && k.log == "":
		return fmt.Errorf(
			"%w\nNo log was kept (--log), so the simulation cannot go on from here. See that what --effects writes "+
				"to is in order and has room, then run the same command again", err)
	case logs.IsDiskError(err):
		return fmt.Errorf("%w\nNothing of what stands in the log is lost. %s", err, k.advice())
	}
	return err
}

// advice is what to do when the disk has failed.
func (k keeping) advice() string {
	const advice = "See that the disk is in order and has room, then run the same command"
	if _, err := os.Stat(k.log); k.resume || err == nil {
		return advice + " with --resume"
	}
	return advice + " again"
}
