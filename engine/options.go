package engine

import (
	"context"
	"iter"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Options are the options of an epoch.
type Options struct {
	// Registry holds the plugins that the configuration may name.
	Registry framework.Registry
	// Config is the effective configuration as framework.EncodeConfig gives it.
	Config []byte
	// Version is the binary's version.
	Version string
	// Seed is logged for plugins that use chance.
	Seed uint64
	// NewID returns the epoch's UUID; nil means a random one.
	NewID func() string
	// Progress is called now and then while Open reads the log, with the last entry read; nil is not called.
	Progress func(seq uint64)
	// Snapshots keeps snapshots of the state, so that Open need not read the whole log; nil for none. The engine calls
	// it from a goroutine of its own, one call at a time.
	Snapshots snapshot.Store
	// SnapshotEvery is the number of entries after which the next snapshot is due, 0 for no limit. SnapshotAge is the
	// same in time, measured by the entries' own times.
	SnapshotEvery uint64
	SnapshotAge   time.Duration
	// StandbysSnapshot says that standbys of this log write snapshots, too. The engine then writes one only if no
	// standby has written one by the time it is due.
	StandbysSnapshot bool
	// Standby has the state of the log up to an entry, and Open reads only the entries after it. With nil, Open
	// recovers the state. Standby.Follow must have returned. The Standby cannot be used after Open.
	Standby *Standby
	// Report receives messages for people, one line each: what the state was recovered from, and what went wrong with a
	// snapshot. nil is not called. Open, Step, Advance and Close call it, from their caller's goroutine.
	Report func(message string)
	// Release says when Advance gives effects out.
	Release Release
	// Decisions limits how many decisions one Step or Advance makes; 0 for no limit. The next call makes the rest
	// (Ready.Busy). So a driver can take inputs in, and hand effects on, in the middle of a long backlog.
	Decisions int
	// Before is called with each entry of the epoch that is about to be applied, and with the state before it; nil is
	// not called. It must not change the state, and may not keep it. Entries that Open reads are not among them.
	Before func(m *scheduler.Machine, e eventlog.Entry)
	// Clock tells when an append has succeeded, for Commit.At; nil for no time. It is called from a goroutine of the
	// engine.
	Clock func() time.Time
}

// Release says when Advance gives out the effects of a decision.
type Release uint8

const (
	// WhenDurable: once the decision is durable. Nothing that leaves the process may come earlier.
	WhenDurable Release = iota
	// WhenDecided: at once. It is for a world that exists in this log alone, such as a virtual cluster. There, effects
	// change nothing outside the log. So after a crash the log holds a consistent first part of the run.
	WhenDecided
)

func (o *Options) report(message string) {
	if o.Report != nil {
		o.Report(message)
	}
}

// Log has the methods of an eventlog.Log that the engine uses.
type Log interface {
	eventlog.Appender
	ReadLog
}

// ReadLog has the methods of a log that a recovery uses.
type ReadLog interface {
	Last() (uint64, error)
	Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error]
	RecordHash(ctx context.Context, seq uint64) ([32]byte, error)
}
