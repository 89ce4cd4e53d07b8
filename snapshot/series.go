package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// ErrForeign says that a snapshot was made of another log, or of a part of this one that was lost.
var ErrForeign = errors.New("it is not of this log")

// ErrNotTheEntries says that a snapshot is whole and of this log, but that its state differs from the state that the
// log's entries make. A program with a fault wrote it, or somebody forged it.
var ErrNotTheEntries = errors.New("its state is not the one that the log's entries make")

// ErrUnreadable says that a file or the directory cannot be read, so that there may be snapshots that were not seen. It
// says nothing about the snapshots.
var ErrUnreadable = errors.New("it cannot be read")

// RefusedError says that the snapshot of entry Seq is not used, and why.
type RefusedError struct {
	Seq uint64
	Err error
}

// Error implements error.
func (e *RefusedError) Error() string { return fmt.Sprintf("snapshot at entry %d: %v", e.Seq, e.Err) }

// Unwrap returns why.
func (e *RefusedError) Unwrap() error { return e.Err }

// LostError says that a log has lost its end: a snapshot of an entry behind its last one exists, and snapshots are made
// of durable entries only.
type LostError struct {
	// Last is the log's last entry, Seq the entry of the newest snapshot that is whole.
	Last, Seq uint64
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf(
		"the log ends with entry %d, but there is a snapshot of entry %d: entries %d to %d were acknowledged, and "+
			"are missing",
		e.Last,
		e.Seq,
		e.Last+1,
		e.Seq,
	)
}

// A Series is the snapshots of one log. A restored Machine was checked: its snapshot is whole, belongs to that log, and
// gives the state that was written down.
type Series struct {
	Store Store
	// Position returns the hash of the log's record seq, which the snapshot's Position must equal. nil skips this
	// check.
	Position func(seq uint64) ([32]byte, error)
	// Registry holds the plugins that the log's configurations may name.
	Registry framework.Registry
}

// Newest restores the newest snapshot of an entry from first to last that can be trusted, nil if there is
// none. refused says, in the order in which they were tried, which could not be used and why: none of that is
// an error, for the log says the same.
func (s *Series) Newest(first, last uint64) (m *scheduler.Machine, refused []error) {
	seqs, err := s.list(first, last)
	slices.Reverse(seqs)
	return s.restoreFirst(seqs, err)
}

// Oldest is Newest from the other end.
func (s *Series) Oldest(first, last uint64) (m *scheduler.Machine, refused []error) {
	seqs, err := s.list(first, last)
	return s.restoreFirst(seqs, err)
}

// Beyond reads the snapshots of entries behind last, the log's last one. A snapshot that is whole, and that has the
// entry of its name, shows that entries were lost; it need not be of a format that this program reads. Any other one
// shows nothing: it is refused, newest first.
//
// An error, which wraps ErrUnreadable, says that no loss was seen, but that not everything could be read: the log may
// have had more entries, and must not be appended to. A Store that is Apart makes no error. A snapshot in it that
// cannot be read is refused. If its snapshots cannot be listed, Newest and Oldest say so. A snapshot in it shows a loss
// only if the log does not reach its entry by now either.
func (s *Series) Beyond(last uint64) (lost *LostError, refused []error, err error) {
	if last == math.MaxUint64 {
		return nil, nil, nil
	}
	apart, _ := s.Store.(Apart)
	seqs, err := s.list(last+1, math.MaxUint64)
	if apart != nil && err != nil {
		return nil, nil, nil
	}
	for _, seq := range slices.Backward(seqs) {
		_, rerr := s.read(seq)
		var newer *NewerFormatError
		if whole := rerr == nil || errors.As(rerr, &newer); whole && apart != nil {
			reached, reason := apart.Reaches(seq)
			if reached {
				return nil, refused, nil // and so it does those before
			}
			rerr = reason
		}
		switch {
		case rerr == nil || errors.As(rerr, &newer):
			return &LostError{Last: last, Seq: seq}, refused, nil
		case errors.Is(rerr, ErrUnreadable) && apart == nil:
			err = cmp.Or[error](err, &RefusedError{Seq: seq, Err: rerr})
		case !errors.Is(rerr, fs.ErrNotExist): // or it was dropped meanwhile
			refused = append(refused, &RefusedError{Seq: seq, Err: rerr})
		}
	}
	if err != nil {
		err = fmt.Errorf("the log ends with entry %d, and whether it had more is not known: %w", last, err)
	}
	return nil, refused, err
}

func (s *Series) list(first, last uint64) (seqs []uint64, err error) {
	all, err := s.Store.List()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	for _, seq := range all {
		if seq >= first && seq <= last {
			seqs = append(seqs, seq)
		}
	}
	return seqs, nil
}

// restoreFirst restores the first of seqs that can be, which were listed with err.
func (s *Series) restoreFirst(seqs []uint64, err error) (m *scheduler.Machine, refused []error) {
	if err != nil {
		refused = append(refused, err)
	}
	for _, seq := range seqs {
		snap, err := s.Load(seq)
		if err == nil {
			var m *scheduler.Machine
			if m, err = snap.Restore(s.Registry); err == nil {
				return m, refused
			}
			err = withoutPlace(err)
		}
		refused = append(refused, &RefusedError{Seq: seq, Err: err})
	}
	return nil, refused
}

// withoutPlace takes the entry's number off an error of Restore: RefusedError has it.
func withoutPlace(err error) error {
	if why := errors.Unwrap(err); why != nil {
		return why
	}
	return err
}

// Load returns the snapshot of entry seq, whole and of this log, but not restored.
func (s *Series) Load(seq uint64) (*Snapshot, error) {
	snap, err := s.read(seq)
	if err != nil || s.Position == nil {
		return snap, err
	}
	position, err := s.Position(seq)
	if err != nil {
		return nil, err
	}
	if position != snap.Position {
		return nil, fmt.Errorf("%w: entry %d is another one here", ErrForeign, seq)
	}
	return snap, nil
}

// read returns the whole snapshot that is kept for entry seq; it does not ask from which log it is.
func (s *Series) read(seq uint64) (*Snapshot, error) {
	data, err := s.Store.Get(seq)
	var damaged *DamagedError
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrForeign) && !errors.As(err, &damaged) {
		err = fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if err != nil {
		return nil, err
	}
	snap, err := Decode(data)
	if err != nil {
		return nil, err
	}
	if snap.Seq != seq {
		return nil, fmt.Errorf("%w: it says that it is of entry %d", ErrForeign, snap.Seq)
	}
	return snap, nil
}
