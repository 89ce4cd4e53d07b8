package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Recovery says how Open recovered the state, and what it is.
type Recovery struct {
	// Snapshot is the entry of the snapshot that was restored; 0 if the whole log was read.
	Snapshot uint64
	// Entries is the number of entries that were read and applied.
	Entries uint64
	// Refused says, newest first, which snapshots could not be used and why.
	Refused []error
	// Began is the time of the entry that begins the epoch. It is the time that Open was given, or the time of the
	// entry before it if that is later.
	Began time.Time
	// State is the state after that entry. The driver compares it with the world. It may be read until the next call of
	// the engine.
	State *scheduler.Machine
}

// String returns a sentence for people.
func (r Recovery) String() string {
	from := "the whole log"
	if r.Snapshot > 0 {
		from = fmt.Sprintf("the snapshot at entry %d", r.Snapshot)
	}
	out := fmt.Sprintf("recovered from %s and %d entries", from, r.Entries)
	if r.Snapshot == 0 {
		out = fmt.Sprintf("recovered from %s, %d entries", from, r.Entries)
	}
	if len(r.Refused) > 0 {
		out += fmt.Sprintf("; refused: %v", errors.Join(r.Refused...))
	}
	return out
}

// A state is a Machine, how it was recovered, and the keeper of its snapshots.
type state struct {
	machine  *scheduler.Machine
	recovery Recovery
	keeper
}

// recover restores the newest snapshot that can be trusted, and applies the entries after it. whole says that the log
// has every entry that was acknowledged. A snapshot of a later entry is then proof that the log has lost its end.
func (s *state) recover(ctx context.Context, log ReadLog, opts *Options, whole bool) error {
	s.keeper = newKeeper(opts)
	if err := s.restore(ctx, log, opts, whole); err != nil {
		return err
	}
	if err := s.read(ctx, log, opts, nil); err != nil {
		return err
	}
	if opts.Snapshots != nil && (s.machine.Seq() > 0 || len(s.recovery.Refused) > 0) {
		opts.report(s.recovery.String())
	}
	return nil
}

// read applies the entries of a log after the state's last one, and calls applied for each, unless it is nil.
func (s *state) read(ctx context.Context, log ReadLog, opts *Options, applied func(eventlog.Entry) error) error {
	for entry, err := range log.Read(ctx, s.machine.Seq()+1) {
		if err != nil {
			return err
		}
		if err := s.machine.Apply(entry); err != nil {
			return err
		}
		if applied != nil {
			if err := applied(entry); err != nil {
				return err
			}
		}
		s.recovery.Entries++
		s.see(entry.Time)
		if opts.Progress != nil && entry.Seq%10000 == 0 {
			opts.Progress(entry.Seq)
		}
	}
	return nil
}

// restore tries the snapshots, newest first. It leaves an empty Machine if none can be used. A snapshot that cannot be
// used is no error. A good snapshot of an entry that a whole log lacks is one: the log is damaged.
func (s *state) restore(ctx context.Context, log ReadLog, opts *Options, whole bool) error {
	s.machine = scheduler.New(opts.Registry)
	if opts.Snapshots == nil {
		return nil
	}
	last, err := log.Last()
	if err != nil {
		return err
	}
	series := snapshot.Series{Store: opts.Snapshots, Registry: opts.Registry,
		Position: func(seq uint64) ([32]byte, error) { return log.RecordHash(ctx, seq) }}
	var refused []error
	if whole {
		if refused, err = findLoss(&series, last); err != nil {
			return err
		}
	}
	m, more := series.Newest(1, last)
	s.recovery.Refused = append(refused, more...)
	for _, err := range s.recovery.Refused {
		var why *snapshot.RefusedError
		if errors.As(err, &why) && errors.Is(err, snapshot.ErrForeign) {
			s.foreign = append(s.foreign, why.Seq)
		}
	}
	if m != nil {
		s.machine, s.recovery.Snapshot = m, m.Seq()
		s.at, s.time = m.Seq(), m.Now()
	}
	return nil
}

// findLoss looks for snapshots of entries after last, the log's last one. A good one proves that these were lost.
func findLoss(series *snapshot.Series, last uint64) (refused []error, err error) {
	lost, refused, err := series.Beyond(last)
	if lost != nil {
		return nil, &eventlog.DamagedError{Seq: last + 1, Err: lost}
	}
	return refused, err
}
