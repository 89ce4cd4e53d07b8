package logtest

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A Fault is how an Append fails.
type Fault int

// The two faults: who appended cannot tell one from the other.
const (
	// NotPersisted: the Append fails, and its entries did not become durable.
	NotPersisted Fault = iota
	// Persisted: the Append fails though its entries became durable.
	Persisted
)

// String implements fmt.Stringer.
func (f Fault) String() string {
	return [...]string{"FailedAndNotPersisted", "FailedAndPersisted"}[f]
}

// A Faulty is a log whose next write can be made to fail.
type Faulty struct {
	Log eventlog.Log
	// Reopen opens what the closed log left behind once more, without faults, and returns it as Log with the
	// same functions.
	Reopen func() Faulty
	// Fail makes the next Append fail.
	Fail func(Fault)
}

// RunFaults tells, for each write of a story and for each of the two faults, what must come of a write that
// fails so: the Append returns an error that is neither a conflict nor the entries' fault; from then on the log
// refuses to append with ErrUnknownOutcome, though what was durable before can be read; and the log that is
// opened again holds what was appended before and all of the failed write or nothing of it, as the fault says,
// and goes on.
func RunFaults(t *testing.T, open func(t *testing.T) Faulty) {
	// The sizes of the writes; with the one that fails, each is told twice.
	writes := []int{1, 3, 200, 1, 40}
	for failing := range writes {
		for _, fault := range []Fault{NotPersisted, Persisted} {
			t.Run(fmt.Sprintf("%s/Write%d", fault, failing+1), func(t *testing.T) { testFault(t, open(t), writes, failing, fault) })
		}
	}
}

func testFault(t *testing.T, f Faulty, writes []int, failing int, fault Fault) {
	last := uint64(0)
	for i, n := range writes {
		batch := Entries(last+1, n)
		if i == failing {
			f.Fail(fault)
			f = failAppend(t, f, last, batch)
			if got, err := f.Log.Last(); err != nil || got != last && fault == NotPersisted || got != last+uint64(n) && fault == Persisted {
				t.Fatalf("opened again, the last entry is %d, error %v; the write was of %d to %d", got, err, last+1, last+uint64(n))
			}
			if fault == Persisted {
				var conflict *eventlog.ConflictError
				if err := f.Log.Append(last, batch); !errors.As(err, &conflict) || conflict.Actual != last+uint64(n) {
					t.Errorf("appending it again: error %v, want a conflict with entry %d", err, last+uint64(n))
				}
				last += uint64(n)
				continue
			}
		}
		mustAppend(t, f.Log, batch)
		last += uint64(n)
		wantRead(t, f.Log, 1, Entries(1, int(last)))
	}
	wantRead(t, f.Log, 1, Entries(1, int(last)))
	if err := f.Log.Close(); err != nil {
		t.Error(err)
	}
}

// failAppend makes the append that fails, and opens the log again.
func failAppend(t *testing.T, f Faulty, last uint64, batch []eventlog.Entry) Faulty {
	t.Helper()
	err := f.Log.Append(last, batch)
	var conflict *eventlog.ConflictError
	var entry *eventlog.EntryError
	if err == nil || errors.As(err, &conflict) || errors.As(err, &entry) || errors.Is(err, eventlog.ErrUnknownOutcome) {
		t.Fatalf("the append that fails: error %v, want one that leaves its outcome open", err)
	}
	for range 2 {
		if err := f.Log.Append(last, batch); !errors.Is(err, eventlog.ErrUnknownOutcome) {
			t.Errorf("an append after it: error %v, want ErrUnknownOutcome", err)
		}
	}
	// Of a log whose last write failed, entries before it can be read, and nothing of what was not acknowledged
	// is shown as last.
	if got, err := f.Log.Last(); err != nil || got != last {
		t.Errorf("after the failure the last entry is %d, error %v, want %d", got, err, last)
	}
	_ = f.Log.Close() // what failed may fail again
	return f.Reopen()
}

// WithFaults returns log, which does not outlive its Close or never fails by itself, as a Faulty: the faults
// are in a layer over it that makes the write or not, and reopening it goes on with the same log.
func WithFaults(log eventlog.Log) Faulty {
	layer := &faultLayer{log: log, next: -1}
	return Faulty{
		Log:    layer,
		Reopen: func() Faulty { return WithFaults(log) },
		Fail:   func(f Fault) { layer.next = f },
	}
}

// A faultLayer fails one append of the log below it, and refuses all later ones.
type faultLayer struct {
	log    eventlog.Log
	next   Fault // of the next append; negative: none
	failed bool
	last   uint64 // what was last before the failure
}

var errInjected = errors.New("injected fault")

func (l *faultLayer) Append(expectedLast uint64, entries []eventlog.Entry) error {
	switch {
	case l.failed:
		return eventlog.ErrUnknownOutcome
	case l.next < 0:
		return l.log.Append(expectedLast, entries)
	}
	l.failed, l.last = true, expectedLast
	if l.next == Persisted {
		if err := l.log.Append(expectedLast, entries); err != nil {
			return err
		}
	}
	return fmt.Errorf("append: %w", errInjected)
}

func (l *faultLayer) Read(from uint64) iter.Seq2[eventlog.Entry, error] { return l.log.Read(from) }

func (l *faultLayer) Last() (uint64, error) {
	if l.failed {
		return l.last, nil
	}
	return l.log.Last()
}

// Close leaves the log below open, for who opens it again.
func (l *faultLayer) Close() error { return nil }
