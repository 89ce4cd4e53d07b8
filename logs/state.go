package logs

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/scheduler"
)

// Base returns the entry behind which the state is known: 0 if the log has its first entry, or else that of its first
// good snapshot. That a log begins with a snapshot is reported once.
func (s *Source) Base() (uint64, error) {
	first := s.First()
	if first == 1 || s.known > 0 {
		return s.known, nil
	}
	last, err := s.Last()
	if err != nil {
		return 0, err
	}
	m, refused := s.snapshots.Oldest(first-1, last)
	s.reportRefused(refused)
	if m == nil {
		return 0, fmt.Errorf(
			"%w; nor is there a snapshot of entry %d or a later one to begin with",
			s.whyLater(),
			first-1,
		)
	}
	s.known = m.Seq()
	if s.bundle == nil {
		s.ReportFirst()
		s.opts.report("beginning with the snapshot of entry %d", s.known)
	}
	return s.known, nil
}

// Restore returns the newest state that a snapshot has, of entry last or of one before it; nil for none.
func (s *Source) Restore(last uint64) (*scheduler.Machine, error) {
	base, err := s.Base()
	if err != nil {
		return nil, err
	}
	end, err := s.Last()
	if err != nil {
		return nil, err
	}
	return s.Newest(base, min(last, end)), nil
}

// Newest returns the state of the newest good snapshot of entries from first to last, nil for none, and reports which
// are not used.
func (s *Source) Newest(first, last uint64) *scheduler.Machine {
	s.lookBehind()
	m, refused := s.snapshots.Newest(first, last)
	s.reportRefused(refused)
	return m
}

// lookBehind reports, once, which snapshots there are of entries that a log in a stream does not have. A log in a
// directory was examined when it was opened.
func (s *Source) lookBehind() {
	if s.stream == nil || s.looked {
		return
	}
	s.looked = true
	last, err := s.Last()
	if err != nil {
		return // as whoever reads the log finds
	}
	lost, refused, _ := s.snapshots.Beyond(last) // no error of a store that is apart
	s.reportRefused(refused)
	if lost != nil {
		s.opts.report("not used: snapshot at entry %d: %v\n%s", lost.Seq, lost, AdviceOnLoss(s.path, lost))
	}
}

// reportRefused reports which snapshots are not used: an older one, or the whole log, says the same.
func (s *Source) reportRefused(refused []error) {
	for _, err := range refused {
		s.opts.report("not used: %v", err)
	}
}

// StateAfter returns the state after an entry: that of the newest snapshot before it, brought on by the entries.
func (s *Source) StateAfter(ctx context.Context, at uint64) (*scheduler.Machine, error) {
	base, err := s.Base()
	if err != nil {
		return nil, err
	}
	if at < base {
		return nil, fmt.Errorf("the first state that is known is that after entry %d", base)
	}
	m, err := s.Restore(at)
	if err != nil {
		return nil, err
	}
	if m == nil {
		m = scheduler.New(s.opts.Registry)
	}
	return m, s.apply(ctx, m, at)
}

// A NotComparedError says that a snapshot's state could not be compared with what the entries make.
type NotComparedError struct {
	At  uint64 // the snapshot's entry
	Err error  // why
}

// Error implements error.
func (e *NotComparedError) Error() string {
	return fmt.Sprintf("the snapshot of entry %d is not compared with the entries before it: %v", e.At, e.Err)
}

// Unwrap returns why.
func (e *NotComparedError) Unwrap() error { return e.Err }

// Confirm compares a state that was restored from a snapshot with the one that the entries make, from the log's first
// one on, or from its first snapshot if that is the place where it is known from: then what that snapshot says is
// treated as granted. No other snapshot is: whoever can forge one can forge two. If the states differ the error wraps
// snapshot.ErrNotTheEntries; where the entries cannot be read it is a *NotComparedError.
func (s *Source) Confirm(ctx context.Context, m *scheduler.Machine) error {
	at := m.Seq()
	base, err := s.Base()
	if err != nil || at == base {
		return err
	}
	made := scheduler.New(s.opts.Registry)
	if base > 0 {
		var refused []error
		if made, refused = s.snapshots.Newest(base, base); made == nil {
			return &NotComparedError{at, errors.Join(refused...)}
		}
	}
	if err := s.apply(ctx, made, at); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &NotComparedError{at, err}
	}
	if made.Hash() != m.Hash() {
		return s.NotTheEntries(at)
	}
	return nil
}

// apply brings a state to entry at, which is not before it.
func (s *Source) apply(ctx context.Context, m *scheduler.Machine, at uint64) error {
	if m.Seq() == at {
		return nil
	}
	for e, err := range s.Read(ctx, m.Seq()+1) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = m.Apply(e)
		}
		if err != nil {
			return err
		}
		s.opts.progress("", e.Seq, at)
		if e.Seq == at {
			return nil
		}
	}
	return fmt.Errorf("%s ends with entry %d, before entry %d", s.path, m.Seq(), at)
}
