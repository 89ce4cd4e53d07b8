package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/sim/simulate/keep"
)

// snapshotting says how often the writer of a log writes snapshots.
type snapshotting struct {
	every uint64
	age   time.Duration
}

func (s *snapshotting) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Uint64Var(
		&s.every,
		"snapshot-every",
		keep.DefaultSnapshotEvery,
		"write a snapshot of the state into the log's directory, or the bucket beside its stream, after this many "+
			"entries; 0: not by number",
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
	if log == "" && (s.every != keep.DefaultSnapshotEvery && s.every != 0 || s.age != 0) {
		return usageError{
			errors.New("--snapshot-every and --snapshot-age need --log: without it there is no place for snapshots"),
		}
	}
	return nil
}
