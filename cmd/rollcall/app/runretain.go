package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/archive"
)

// retention says how much of its log a scheduler keeps. The defaults let one run for years: the size is bounded, and as
// much is kept as fits.
type retention struct {
	age   time.Duration
	bytes size
	dir   string

	told uint64 // the last leap of which tellLeaps has told
}

// retainEvery is the time between two searches for parts of the log to remove.
const retainEvery = 10 * time.Minute

func (r *retention) register(cmd *cobra.Command) {
	r.bytes = 10 << 30
	f := cmd.Flags()
	durationVar(f, &r.age, "retain", 0,
		"keep entries for this `time`, such as 720h, by their own times up to the last entry's, and then remove them "+
			"in whole segments; 0: as long as --retain-size allows")
	f.Var(&r.bytes, "retain-size",
		"remove the log's oldest segments when all are together larger than this many `bytes`; 0: keep all")
	f.StringVar(&r.dir, "retain-to", "",
		"the directory to which segments are moved that --retain and --retain-size do not keep; default: they are "+
			"removed")
	_ = cmd.MarkFlagDirname("retain-to")
}

func (r *retention) check() error {
	if r.age < 0 {
		return usageError{errors.New("--retain must not be below zero")}
	}
	return nil
}

// retain removes, or moves away, the parts of the log at path that the limits no longer allow. If it fails, scheduling
// continues, and the next call tries again.
func (r *running) retain(ctx context.Context, path string) {
	if path == inMemory || logs.InStream(path) || r.retention.age == 0 && r.retention.bytes == 0 {
		return
	}
	report, err := archive.Retain(ctx, path, r.retained())
	if report != nil {
		r.retention.tellLeaps(report.Leaps)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), ctx.Err() != nil:
	case err != nil:
		slog.Error("The oldest segments of the log cannot be taken from it: it grows beyond --retain and "+
			"--retain-size", "err", err)
	case report.Before > 0 && report.Snapshot == 0:
		slog.Warn("The oldest segments of the log are to go, but stay: there is no snapshot behind them yet",
			"last", report.Before-1)
	case report.Segments > 0:
		slog.Info("The oldest segments were taken from the log", "first", report.First, "last", report.Last,
			"bytes", report.Bytes, "to", report.Dir, "snapshot", report.Snapshot)
	}
}

// tellLeaps logs, once for each, the places where the time of entries jumps ahead by more than a day.
func (r *retention) tellLeaps(leaps []archive.Leap) {
	for _, leap := range leaps {
		if leap.Seq > r.told {
			r.told = leap.Seq
			slog.Warn("The time of the log goes ahead from one entry to the next: nothing ran meanwhile, or the clock "+
				"was set. It counts as one day for --retain", "entry", leap.Seq, "by", leap.By)
		}
	}
}

// retained returns the options for removing old parts of the log: age, size, and the directory for archived segments.
func (r *running) retained() archive.Retention {
	return archive.Retention{
		Options: logs.Options{Archives: r.archives, Registry: r.classes.in(r.registry), Report: logDetail},
		Age:     r.retention.age, Bytes: int64(r.retention.bytes), Dir: r.retention.dir,
	}
}

// retainAlways retains now and then until ctx is done.
func (r *running) retainAlways(ctx context.Context, path string) {
	ticker := time.NewTicker(retainEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.retain(ctx, path)
		}
	}
}

func logDetail(message string) { slog.Debug(message) }
