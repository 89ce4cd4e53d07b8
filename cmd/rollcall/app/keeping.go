package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/simulate"
	"github.com/rollcall-sched/rollcall/sim/simulate/keep"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// keeping says which files a simulation writes, and whether it resumes the simulation that left its log.
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
	f.StringVar(&k.log, "log", "", "write the log to this new directory, or to a stream as nats://HOST/STREAM; "+
		"default: none is kept")
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
func (k keeping) simulate(cmd *cobra.Command, cluster *sim.Cluster, config []byte) (report.Summary, error) {
	p := newProgress(cmd.ErrOrStderr())
	defer p.done()
	return keep.Run(cmd.Context(), cluster, keep.Options{
		Log: k.log, Resume: k.resume, Archives: k.reading.archives, GiveUpAfter: k.giveUpAfter,
		SegmentBytes: int64(k.segmentSize), Effects: k.effects,
		SnapshotEvery: k.snapshots.every, SnapshotAge: k.snapshots.age,
		Engine: engine.Options{Registry: k.classes.in(k.reading.registry), Config: config, Version: version().String()},
		Report: p.note,
		Resumed: func(seq uint64, now time.Time) {
			p.note(fmt.Sprintf("%s: going on behind entry %d, at %s", logs.Shown(k.log), seq,
				now.Format(time.RFC3339)))
		},
		Progress: func(at simulate.Progress) {
			p.show("at %s: pods %d/%d, %d bound, %d ended, %s",
				at.Now.Sub(workload.Start).Round(time.Second), at.Arrived, at.Pods, at.Bound, at.Ended, k.progress(at))
		},
	})
}

// progress describes the scheduler's progress for people.
func (k keeping) progress(at simulate.Progress) string {
	switch {
	case !at.Live:
		return fmt.Sprintf("%d entries told again", at.Told)
	case k.log == "":
		return fmt.Sprintf("%d decisions", at.Decisions)
	}
	return fmt.Sprintf("%d decisions, %d on disk", at.Decisions, at.Durable)
}
