package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// FollowedLog has the methods of a log that a Standby uses. Another process writes the log.
type FollowedLog interface {
	ReadLog
	eventlog.Follower
}

// A Standby applies each durable entry of a log that another process writes. So an Engine can take over without reading
// the log again. It decides nothing. It writes nothing but snapshots that are due by Options, so that the writer of the
// log need not make them.
//
// Recover is called first, then Follow. When Follow has returned, the Standby is given to Open as Options.Standby. Only
// Seq may be called by other goroutines.
type Standby struct {
	opts Options
	state
	position [32]byte                   // the hash of the last entry's record
	applied  func(eventlog.Entry) error // the argument of Follow
	seq      atomic.Uint64
}

// NewStandby returns a Standby without a log. It uses the options Registry, Snapshots, SnapshotEvery, SnapshotAge,
// Progress and Report.
func NewStandby(opts Options) *Standby { return &Standby{opts: opts} }

// Recover brings the Standby to the state after the log's last entry, as far as this opening of the log knows it. A
// snapshot of a later entry is no error: the writer may have made it meanwhile.
func (s *Standby) Recover(ctx context.Context, log FollowedLog) error {
	if err := s.recover(ctx, log, &s.opts, false); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	var err error
	if s.position, err = log.RecordHash(ctx, s.machine.Seq()); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	s.seq.Store(s.machine.Seq())
	return nil
}

// Follow applies the log's entries as they become durable, and calls applied for each of them, until ctx ends. The
// error is then ctx's cause. Open calls applied, too, for the entries that it reads after these. An error of applied
// ends Follow, or Open. Follow checks of each record that it follows the one before it, by its number and by the hash
// that it carries. After any error the state is the one after the last entry that was applied. Unless the error is
// damage, Follow may be called again.
func (s *Standby) Follow(ctx context.Context, log FollowedLog, applied func(eventlog.Entry) error) error {
	s.applied = applied
	last, err := log.Last()
	if err == nil && last >= s.machine.Seq() {
		err = s.isOf(ctx, log)
	}
	if err != nil {
		return err
	}
	for record, err := range log.Follow(ctx, s.machine.Seq()+1) {
		if err != nil {
			return err
		}
		entry, _, err := eventlog.DecodeRecord(record.Bytes)
		if err != nil {
			return eventlog.DamageAt("", record.Seq, err)
		}
		if err := s.machine.Apply(entry); err != nil {
			return err
		}
		s.position = record.Hash
		s.seq.Store(entry.Seq)
		s.recovery.Entries++
		if err := applied(entry); err != nil {
			return err
		}
		s.see(entry.Time)
		if s.collect(false); s.isDue(s.machine) {
			s.keep(s.machine, s.position, s.machine.Restorable())
		}
	}
	return errors.New("the log ended to be followed without a reason")
}

// Machine returns the state, to be read only, and not while Follow runs.
func (s *Standby) Machine() *scheduler.Machine { return s.machine }

// Seq returns the last entry that was applied; 0 before Recover.
func (s *Standby) Seq() uint64 { return s.seq.Load() }

// Position returns the hash of the record of the last entry that was applied.
func (s *Standby) Position() [32]byte { return s.position }

// Close waits for the snapshot that is under way. Callers must call it if they do not give the Standby to Open.
func (s *Standby) Close() { s.collect(true) }

// isOf returns an error if the log has another entry where the state's last entry should be.
func (s *Standby) isOf(ctx context.Context, log ReadLog) error {
	seq := s.machine.Seq()
	position, err := log.RecordHash(ctx, seq)
	if err != nil {
		return err
	}
	if position != s.position {
		return &eventlog.DamagedError{Seq: seq, Err: fmt.Errorf(
			"it is not the entry %d that this process has read: the log was replaced by another one", seq)}
	}
	return nil
}
