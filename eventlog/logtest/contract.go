package logtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

var errEnough = errors.New("that was enough")

// ended returns a context that has ended, because of errEnough.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	return ctx
}

func testAppendContext(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	if err := log.Append(ended(t), 0, Entries(1, 3)); !errors.Is(err, errEnough) {
		t.Fatalf("error %v, want the context's cause", err)
	}
	wantLast(t, log, 0)
	wantRead(t, log, 1, nil)
	// Entries added before the context ended stay, and the log continues: no outcome is unknown.
	ctx, cancel := context.WithCancel(t.Context())
	if err := log.Append(ctx, 0, Entries(1, 3)); err != nil {
		t.Fatal(err)
	}
	cancel()
	wantRead(t, log, 1, Entries(1, 3))
	if err := log.Append(ctx, 3, Entries(4, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
	mustAppend(t, log, Entries(4, 1))
	wantRead(t, log, 1, Entries(1, 4))
}

func testReadContext(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	mustAppend(t, log, Entries(1, 20))
	for e, err := range log.Read(ended(t), 1) {
		if !errors.Is(err, errEnough) {
			t.Fatalf("entry %d, error %v, want the context's cause", e.Seq, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last uint64
	var failed error
	for e, err := range log.Read(ctx, 1) {
		if failed = err; err == nil {
			last = e.Seq
		}
		if last == 7 {
			cancel(errEnough)
		}
	}
	if last != 7 || !errors.Is(failed, errEnough) {
		t.Errorf("entries were read up to %d, error %v, want 7 and the context's cause", last, failed)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(nil)
	for r, err := range log.Records(ctx, 1) {
		if failed = err; err == nil {
			last = r.Seq
		}
		if last == 9 {
			cancel(errEnough)
		}
	}
	if last != 9 || !errors.Is(failed, errEnough) {
		t.Errorf("records were read up to %d, error %v, want 9 and the context's cause", last, failed)
	}
	wantRead(t, log, 1, Entries(1, 20))
}

func testLimit(t *testing.T, b Backend) {
	ctx, log := t.Context(), b.create(t)
	defer log.Close()
	limit := log.Limit()
	if limit.Entries < 1 || limit.Record < 1<<16 || limit.Record > eventlog.MaxRecord || limit.Bytes < limit.Record {
		t.Fatalf("the limit is %+v", limit)
	}
	mustAppend(t, log, Entries(1, 2))
	var refused *eventlog.LimitError
	many := make([]eventlog.Entry, limit.Entries+1)
	for i := range many {
		many[i] = eventlog.Entry{Seq: 3 + uint64(i), Epoch: 1, Payload: &eventlog.Tick{}}
	}
	if err := log.Append(ctx, 2, many); !errors.As(err, &refused) || refused.Limit != limit {
		t.Errorf("%d entries: error %v, want a LimitError", len(many), err)
	}
	var entry *eventlog.EntryError
	large := []eventlog.Entry{{Seq: 3, Epoch: 1, Payload: &eventlog.BindResult{
		UID: "uid", Node: "n1", Outcome: eventlog.BindUnknown, Message: string(make([]byte, limit.Record))}}}
	if err := log.Append(ctx, 2, large); !errors.As(err, &entry) || entry.Seq != 3 {
		t.Errorf("a record of more than %d bytes: error %v, want an EntryError", limit.Record, err)
	}
	wantLast(t, log, 2)
	mustAppend(t, log, Entries(3, 2))
	wantRead(t, log, 1, Entries(1, 4))
}

// ofEpoch returns the entries in another epoch.
func ofEpoch(epoch uint64, entries []eventlog.Entry) []eventlog.Entry {
	for i := range entries {
		entries[i].Epoch = epoch
	}
	return entries
}

func testSuperseded(t *testing.T, b Backend) {
	ctx, log := t.Context(), b.create(t)
	mustAppend(t, log, Entries(1, 3))
	other := b.TakeOver(t, log)
	wantRead(t, other, 1, Entries(1, 3))
	mustAppend(t, other, ofEpoch(2, Entries(4, 2)))
	for range 2 {
		var superseded *eventlog.SupersededError
		var conflict *eventlog.ConflictError
		err := log.Append(ctx, 3, Entries(4, 1))
		if !errors.As(err, &superseded) || errors.As(err, &conflict) || errors.Is(err, eventlog.ErrUnknownOutcome) {
			t.Fatalf("append: error %v, want a SupersededError", err)
		}
		want := eventlog.SupersededError{Expected: 3, Actual: 5, Epoch: 2}
		if unknown := (eventlog.SupersededError{Expected: 3}); *superseded != want && *superseded != unknown {
			t.Errorf("superseded: %+v, want %+v", *superseded, want)
		}
	}
	wantLast(t, log, 3) // its own last entry
	want := append(Entries(1, 3), ofEpoch(2, Entries(4, 2))...)
	wantRead(t, other, 1, want)
	mustAppend(t, other, ofEpoch(2, Entries(6, 1)))
	wantRead(t, other, 1, append(want, ofEpoch(2, Entries(6, 1))...))
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	var superseded *eventlog.SupersededError
	if _, _, err := log.Reopen(ctx); !errors.As(err, &superseded) || superseded.Actual != 6 {
		t.Errorf("reopen: error %v, want a SupersededError", err)
	}
}

func testChain(t *testing.T, b Backend) {
	ctx, log := t.Context(), b.create(t)
	defer log.Close()
	wantChain(t, log, eventlog.Origin{}, 0)
	for first := uint64(1); first <= 31; first += 5 {
		mustAppend(t, log, Entries(first, 5))
		wantChain(t, log, eventlog.Origin{}, first+4)
	}
	for seq := range uint64(36) {
		at, err := eventlog.OriginAt(ctx, log, seq)
		if err != nil || at.Seq != seq || at.Check() != nil {
			t.Fatalf("the place behind entry %d is %+v, error %v", seq, at, err)
		}
	}
	if _, err := log.RecordHash(ctx, 36); err == nil {
		t.Error("there is a hash of an entry that there is not")
	}
	if _, err := eventlog.OriginAt(ctx, log, 36); err == nil {
		t.Error("there is a place behind an entry that there is not")
	}
}

func testOrigin(t *testing.T, b Backend) {
	ctx, whole := t.Context(), b.create(t)
	defer whole.Close()
	mustAppend(t, whole, Entries(1, 12))
	origin, err := eventlog.OriginAt(ctx, whole, 7)
	if err != nil {
		t.Fatal(err)
	}
	part := b.Create(t, origin)
	if first := part.First(); first != 8 {
		t.Fatalf("the first entry is %d, want 8", first)
	}
	wantLast(t, part, 7)
	wantChain(t, part, origin, 7)
	mustAppend(t, part, Entries(8, 5))
	for range 2 {
		wantRead(t, part, 8, Entries(8, 5))
		wantChain(t, part, origin, 12)
		for seq := uint64(7); seq <= 12; seq++ {
			got, err := eventlog.OriginAt(ctx, part, seq)
			want, werr := eventlog.OriginAt(ctx, whole, seq)
			if err != nil || werr != nil || got.End() != want.End() || !got.Tree.Equal(want.Tree) {
				t.Errorf("the place behind entry %d is %+v, %v, in the whole log %+v, %v", seq, got, err, want, werr)
			}
		}
		var archived *eventlog.ArchivedError
		for _, err := range part.Read(ctx, 7) {
			if !errors.As(err, &archived) || archived.Seq != 7 || archived.First != 8 {
				t.Errorf("read from entry 7: error %v, want an ArchivedError", err)
			}
			break
		}
		if _, err := part.RecordHash(ctx, 6); !errors.As(err, &archived) {
			t.Errorf("the hash of record 6: error %v, want an ArchivedError", err)
		}
		if _, err := part.KnownTree(ctx, 6); !errors.As(err, &archived) {
			t.Errorf("the tree over 6 entries: error %v, want an ArchivedError", err)
		}
		if part, _, err = part.Reopen(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := part.Close(); err != nil {
		t.Error(err)
	}
}

func testReadOnly(t *testing.T, b Backend) {
	ctx, log := t.Context(), b.create(t)
	mustAppend(t, log, Entries(1, 12))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	log = b.ReadOnly(t, log)
	for range 2 {
		if err := log.Append(ctx, 12, Entries(13, 1)); !errors.Is(err, eventlog.ErrReadOnly) {
			t.Errorf("append: error %v, want ErrReadOnly", err)
		}
		wantLast(t, log, 12)
		wantRead(t, log, 1, Entries(1, 12))
		wantChain(t, log, eventlog.Origin{}, 12)
		// It is followed as far as it goes. Then it says that it cannot be, or continues.
		following, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var next uint64 = 1
		var failed error
		for r, err := range log.Follow(following, 1) {
			if failed = err; err == nil && r.Seq != next {
				t.Errorf("record %d follows %d", r.Seq, next-1)
			}
			if next++; next == 13 {
				cancel(errEnough)
			}
		}
		if !errors.Is(failed, eventlog.ErrNotFollowed) && !errors.Is(failed, errEnough) {
			t.Errorf("followed, it ends with %v", failed)
		}
		again, found, err := log.Reopen(ctx)
		if want := (eventlog.Reopened{Expected: 12, Last: 12}); err != nil || found != want {
			t.Fatalf("reopened: found %+v, error %v", found, err)
		}
		log = again
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

func testFollow(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	const total, batch = 300, 7
	type told struct {
		from uint64
		seqs []uint64
		err  error
	}
	ends := make(chan told)
	froms := []uint64{0, 1, 8, 150, total}
	for _, from := range froms {
		go func() {
			seqs, err := follow(t, log, from, total+1-int(max(from, 1)))
			ends <- told{from, seqs, err}
		}()
	}
	// One more follower has told the first batch before more is appended, so it has to wait for the rest.
	begun := make(chan struct{})
	early := make(chan told, 1)
	go func() {
		seqs, err := followUntil(t, log, total, batch, begun)
		early <- told{1, seqs, err}
	}()
	for first := uint64(1); first <= total; first += batch {
		mustAppend(t, log, Entries(first, min(batch, total+1-int(first))))
		<-begun
	}
	if got := <-early; len(got.seqs) != total || got.err != nil {
		t.Errorf("followed from the first batch on: %d entries, error %v, want %d", len(got.seqs), got.err, total)
	}
	for range froms {
		got := <-ends
		want := max(got.from, 1)
		for _, seq := range got.seqs {
			if seq != want {
				t.Fatalf("followed from %d: entry %d, want %d", got.from, seq, want)
			}
			want++
		}
		if want != total+1 || got.err != nil {
			t.Errorf("followed from %d: up to entry %d, error %v, want %d", got.from, want-1, got.err, total)
		}
	}
	var next uint64 = 1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e, err := range eventlog.Entries(log.Follow(ctx, 1)) {
		if err != nil || e.Seq != next {
			t.Fatalf("entry %d, error %v, want entry %d", e.Seq, err, next)
		}
		wantEntries(t, []eventlog.Entry{e}, Entries(next, 1))
		if next++; next > total {
			break
		}
	}
}

// followUntil follows log from its first entry on up to entry last, and closes begun when entry early has come, or none
// will.
func followUntil(
	t *testing.T, log eventlog.Follower, last, early uint64, begun chan<- struct{},
) (seqs []uint64, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tell := sync.OnceFunc(func() { close(begun) })
	defer tell()
	for r, err := range log.Follow(ctx, 1) {
		if err != nil {
			return seqs, err
		}
		if seqs = append(seqs, r.Seq); r.Seq >= early {
			tell()
		}
		if r.Seq >= last {
			break
		}
	}
	return seqs, nil
}

func testFollowContext(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	mustAppend(t, log, Entries(1, 9))
	for r, err := range log.Follow(ended(t), 1) {
		if !errors.Is(err, errEnough) {
			t.Fatalf("record %d, error %v, want the context's cause", r.Seq, err)
		}
	}
	// The context ends in the middle of the entries, at the last of them, and while the follower waits for more.
	for _, end := range []uint64{4, 9, 0} {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		type told struct {
			last uint64
			err  error
		}
		ends := make(chan told, 1)
		seen := make(chan bool)
		go func() {
			var got told
			for r, err := range log.Follow(ctx, 1) {
				if got.err = err; err != nil {
					break
				}
				if got.last = r.Seq; r.Seq == end {
					cancel(errEnough)
				}
				if r.Seq == 9 {
					close(seen)
				}
			}
			ends <- got
		}()
		want := end
		if end == 0 {
			<-seen
			cancel(errEnough)
			want = 9
		}
		if got := <-ends; got.last != want || !errors.Is(got.err, errEnough) {
			t.Errorf("followed up to %d, error %v, want %d and the context's cause", got.last, got.err, want)
		}
	}
	mustAppend(t, log, Entries(10, 1))
}

func testFollowClose(t *testing.T, b Backend) {
	log := b.create(t)
	mustAppend(t, log, Entries(1, 3))
	ends := make(chan error, 1)
	seen := make(chan bool)
	go func() {
		for r, err := range log.Follow(context.WithoutCancel(t.Context()), 1) {
			if err != nil {
				ends <- err
				return
			}
			if r.Seq == 3 {
				close(seen)
			}
		}
		ends <- nil
	}()
	<-seen
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ends; !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("it ended with %v, want ErrClosed", err)
	}
}
