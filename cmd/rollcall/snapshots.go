package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/logs"
)

// defaultSnapshotEvery is how many entries are read back in about a second with 5,000 nodes and 100,000 pods, which
// take another two to restore; there, making a snapshot holds the log up for about half a second.
const defaultSnapshotEvery = 50_000

// snapshotting is when whoever writes a log writes snapshots.
type snapshotting struct {
	every uint64
	age   time.Duration
}

func (s *snapshotting) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Uint64Var(
		&s.every,
		"snapshot-every",
		defaultSnapshotEvery,
		"write a snapshot of the state into the log's directory after this many entries; 0: not by number",
	)
	f.DurationVar(
		&s.age,
		"snapshot-age",
		0,
		"write a snapshot after this much virtual time, such as 24h; 0: not by time",
	)
}

func (s *snapshotting) check(log string) error {
	if s.age < 0 {
		return usageError{fmt.Errorf("--snapshot-age is %s: want a duration above zero, or 0", s.age)}
	}
	if log == "" && (s.every != defaultSnapshotEvery && s.every != 0 || s.age != 0) {
		return usageError{
			errors.New("--snapshot-every and --snapshot-age need --log: without it there is no place for snapshots"),
		}
	}
	return nil
}

// recoveryGC is the garbage collector's target while a log is recovered: nearly all that is allocated then stays,
// so that collecting it often only takes time.
const recoveryGC = 300

// openEngine is engine.Open in less time.
func openEngine(ctx context.Context, log engine.Log, now time.Time, opts engine.Options) (*engine.Engine, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(recoveryGC))
	return engine.Open(ctx, log, now, opts)
}

// into makes opts write snapshots of log, and use those that are there.
func (s *snapshotting) into(opts *engine.Options, log *logs.Kept) {
	spacing := s.every
	if spacing == 0 {
		spacing = defaultSnapshotEvery
	}
	opts.Snapshots, opts.SnapshotEvery, opts.SnapshotAge = log.Snapshots(spacing), s.every, s.age
	opts.Report = printNote
}
