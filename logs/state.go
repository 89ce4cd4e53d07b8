package logs

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/scheduler"
)

// Base returns the entry after which the state is known: 0 if the log has its first entry, otherwise the entry of its
// first good snapshot. It reports once that a log begins with a snapshot.
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

// Restore returns the newest state in a snapshot of entry last or an earlier one; nil for none.
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

// Newest returns the state of the newest good snapshot of entries from first to last, nil for none. It reports the
// ones that it does not use.
func (s *Source) Newest(first, last uint64) *scheduler.Machine {
	s.lookBehind()
	m, refused := s.snapshots.Newest(first, last)
	s.reportRefused(refused)
	return m
}

// lookBehind reports, once, the snapshots of entries that a log in a stream does not have. A log in a directory is
// examined when it is opened.
func (s *Source) lookBehind() {
	if s.stream == nil || s.looked {
		return
	}
	s.looked = true
	last, err := s.Last()
	if err != nil {
		return // readers of the log find that
	}
	lost, refused, _ := s.snapshots.Beyond(last) // a store apart from the log returns no error
	s.reportRefused(refused)
	if lost != nil {
		s.opts.report("not used: snapshot at entry %d: %v\n%s", lost.Seq, lost, AdviceOnLoss(s.path, lost))
	}
}

// reportRefused reports the snapshots that are not used. An older one, or the whole log, gives the same state.
func (s *Source) reportRefused(refused []error) {
	for _, err := range refused {
		s.opts.report("not used: %v", err)
	}
}

// StateAfter returns the state after an entry: the state of the newest snapshot before it, with the later entries
// applied.
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

// A NotComparedError says that a snapshot's state could not be compared with the state that the entries make.
type NotComparedError struct {
	At  uint64 // the snapshot's entry
	Err error  // the reason
}

// Error implements error.
func (e *NotComparedError) Error() string {
	return fmt.Sprintf("the snapshot of entry %d is not compared with the entries before it: %v", e.At, e.Err)
}

// Unwrap returns the reason.
func (e *NotComparedError) Unwrap() error { return e.Err }

// Confirm compares a state from a snapshot with the state that the entries make, from the log's first entry on. If the
// log begins with a snapshot, that one is trusted. No other snapshot is: a person who can forge one can forge two. If
// the states differ the error wraps snapshot.ErrNotTheEntries; if the entries cannot be read it is a
// *NotComparedError.
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

// apply applies the entries up to entry at, which the state is not past.
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
