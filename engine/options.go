package engine

import (
	"context"
	"iter"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Options is what an epoch starts with.
type Options struct {
	// Registry holds the plugins that the configuration may name.
	Registry framework.Registry
	// Config is the effective configuration as framework.EncodeConfig gives it.
	Config []byte
	// Version is the binary's version.
	Version string
	// Seed is logged for plugins that use chance.
	Seed uint64
	// NewID makes the epoch's UUID; nil stands for a random one.
	NewID func() string
	// Progress is called now and then while Open reads the log, with the last entry read; nil is not called.
	Progress func(seq uint64)
	// Snapshots keeps snapshots of the state, so that Open need not read the whole log; nil for none. The
	// engine calls it from a goroutine of its own, one call at a time.
	Snapshots snapshot.Store
	// SnapshotEvery is after how many entries the next snapshot is due, SnapshotAge after how much time, by
	// the entries' own. 0: that alone makes none due.
	SnapshotEvery uint64
	SnapshotAge   time.Duration
	// StandbysSnapshot says that standbys of this log write snapshots, too: the engine leaves those to them that are
	// due, and writes one itself only if none comes.
	StandbysSnapshot bool
	// Standby has the state of the log up to an entry: Open reads the entries behind that one only. nil has it recover
	// the state. It must have ended to follow, and is of no more use afterwards.
	Standby *Standby
	// Report is told, in a line each, what the state was recovered from and what went wrong with a snapshot;
	// nil is not called. Open, Step, Advance and Close call it, from their caller's goroutine.
	Report func(message string)
	// Release says when Advance gives effects out.
	Release Release
	// Decisions is how many decisions one Step or Advance makes at the most; 0 for as many as there are to make. What
	// is left comes with the next call (Ready.Busy), so that a driver takes inputs in, and hands effects on, meanwhile.
	Decisions int
	// Clock says when an append has succeeded, for Commit.At; nil for no time. It is called from a goroutine of the
	// engine.
	Clock func() time.Time
}

// Release says when Advance gives out the effects of a decision.
type Release uint8

const (
	// WhenDurable: once the decision is durable. Nothing that leaves the process may come earlier.
	WhenDurable Release = iota
	// WhenDecided: at once. It is for a world that exists in this log alone, such as a virtual cluster. Effects lead to
	// later entries of the same log only, so what is left after a crash is the beginning of the run.
	WhenDecided
)

func (o *Options) report(message string) {
	if o.Report != nil {
		o.Report(message)
	}
}

// Log is what the engine needs of an eventlog.Log.
type Log interface {
	eventlog.Appender
	ReadLog
}

// ReadLog is what a state is recovered from.
type ReadLog interface {
	Last() (uint64, error)
	Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error]
	RecordHash(ctx context.Context, seq uint64) ([32]byte, error)
}
