package logtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A Fault is a way in which an Append fails.
type Fault int

// The two faults. The appender cannot tell one from the other.
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
	// Fail makes the next Append of log fail. log is Log, or the result of reopening it.
	Fail func(log eventlog.Log, fault Fault)
}

// RunFaults makes each write of a story fail with each of the two faults, and checks the outcome. The Append returns an
// *UnknownOutcomeError. From then on the log refuses to append with ErrUnknownOutcome, and shows only entries that were
// durable before. Reopen reports which of the two faults it was. The log that it returns has the earlier entries,
// either all or none of the entries of the failed write, and continues.
func RunFaults(t *testing.T, open func(t *testing.T) Faulty) {
	// The sizes of the writes. The failing one is tried twice.
	writes := []int{1, 3, 200, 1, 40}
	for failing := range writes {
		for _, fault := range []Fault{NotPersisted, Persisted} {
			t.Run(
				fmt.Sprintf("%s/Write%d", fault, failing+1),
				func(t *testing.T) { testFault(t, open(t), writes, failing, fault) },
			)
		}
	}
}

func testFault(t *testing.T, f Faulty, writes []int, failing int, fault Fault) {
	ctx, log, last := t.Context(), f.Log, uint64(0)
	for i, n := range writes {
		batch := Entries(last+1, n)
		if i == failing {
			told := followed(t, log, last)
			f.Fail(log, fault)
			failAppend(t, log, last, batch)
			want := eventlog.Reopened{Expected: last, Last: last}
			if fault == Persisted {
				want.Last += uint64(n)
			}
			var found eventlog.Reopened
			var err error
			if log, found, err = log.Reopen(
				ctx,
			); err != nil || found != want ||
				found.Persisted() != (fault == Persisted) {
				t.Fatalf("reopened, it found %+v, error %v, want %+v", found, err, want)
			}
			if seq := <-told; seq < last || seq > want.Last {
				t.Errorf("who followed the log was told of entry %d, the last durable one is %d", seq, want.Last)
			}
			wantLast(t, log, want.Last)
			if fault == Persisted {
				var conflict *eventlog.ConflictError
				if err := log.Append(ctx, last, batch); !errors.As(err, &conflict) || conflict.Actual != want.Last {
					t.Errorf("appending it again: error %v, want a conflict with entry %d", err, want.Last)
				}
				last += uint64(n)
				continue
			}
		}
		mustAppend(t, log, batch)
		last += uint64(n)
		wantRead(t, log, 1, Entries(1, int(last)))
	}
	wantRead(t, log, 1, Entries(1, int(last)))
	wantChain(t, log, eventlog.Origin{}, last)
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// failAppend makes the append that fails.
func failAppend(t *testing.T, log eventlog.Log, last uint64, batch []eventlog.Entry) {
	t.Helper()
	ctx := t.Context()
	err := log.Append(ctx, last, batch)
	var unknown *eventlog.UnknownOutcomeError
	if !errors.As(err, &unknown) || !errors.Is(err, eventlog.ErrUnknownOutcome) ||
		unknown.First != last+1 || unknown.Last != last+uint64(len(batch)) {
		t.Fatalf("the append that fails: error %v, want an UnknownOutcomeError of entries %d to %d", err,
			last+1, last+uint64(len(batch)))
	}
	for range 2 {
		if err := log.Append(ctx, last, batch); !errors.Is(err, eventlog.ErrUnknownOutcome) {
			t.Errorf("an append after it: error %v, want ErrUnknownOutcome", err)
		}
	}
	// A log whose last write failed shows the earlier entries. It shows no unacknowledged entry as its last.
	wantLast(t, log, last)
	wantRead(t, log, 1, Entries(1, int(last)))
}

// followed follows log, which is closed later, from its first entry on. It returns once entry last has come. The
// channel then gets the number of the last entry that came before the log was closed.
func followed(t *testing.T, log eventlog.Log, last uint64) <-chan uint64 {
	t.Helper()
	seen, end := make(chan bool), make(chan uint64, 1)
	if last == 0 {
		close(seen)
	}
	go func() {
		told := uint64(0)
		for r, err := range log.Follow(context.WithoutCancel(t.Context()), 1) {
			if err != nil {
				break
			}
			if told = r.Seq; told == last {
				close(seen)
			}
		}
		end <- told
	}()
	<-seen
	return end
}

// WithFaults returns log, which never fails, as a Faulty: a layer over it performs the failing writes, or does not.
func WithFaults(log eventlog.Log) Faulty {
	return Faulty{
		Log:  &faultLayer{Log: log, next: -1},
		Fail: func(log eventlog.Log, fault Fault) { log.(*faultLayer).next = fault },
	}
}

// A faultLayer fails one append of the log below it, and refuses all later ones.
type faultLayer struct {
	eventlog.Log
	next    Fault             // of the next append; negative: none
	attempt *eventlog.Attempt // the append that has failed
}

var errInjected = errors.New("injected fault")

func (l *faultLayer) Append(ctx context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	switch {
	case l.attempt != nil:
		return eventlog.ErrUnknownOutcome
	case l.next < 0:
		return l.Log.Append(ctx, expectedLast, entries)
	}
	hash, err := l.RecordHash(ctx, expectedLast)
	if err != nil {
		return err
	}
	before := eventlog.Chain{Seq: expectedLast, Hash: hash}
	after, err := new(eventlog.Batch).Encode(before, entries, l.Limit())
	if err != nil {
		return err
	}
	l.attempt = &eventlog.Attempt{Before: before, After: after}
	if l.next == Persisted {
		if err := l.Log.Append(ctx, expectedLast, entries); err != nil {
			return err
		}
	}
	return &eventlog.UnknownOutcomeError{First: expectedLast + 1, Last: after.Seq, Err: errInjected}
}

// Last hides what the failed append has added.
func (l *faultLayer) Last() (uint64, error) {
	last, err := l.Log.Last()
	if l.attempt != nil {
		last = min(last, l.attempt.Before.Seq)
	}
	return last, err
}

// Read hides it, too.
func (l *faultLayer) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		last, err := l.Last()
		for e, rerr := range l.Log.Read(ctx, from) {
			if err != nil || rerr == nil && e.Seq > last || !yield(e, rerr) {
				return
			}
		}
	}
}

// Reopen opens the log below once more, without the layer's failure.
func (l *faultLayer) Reopen(ctx context.Context) (eventlog.Log, eventlog.Reopened, error) {
	log, found, err := l.Log.Reopen(ctx)
	if err == nil && l.attempt != nil {
		found, err = l.attempt.Find(ctx, log)
	}
	return &faultLayer{Log: log, next: -1}, found, err
}
