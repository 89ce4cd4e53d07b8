// Package logtest is the conformance suite of eventlog.Log: its tests state the duties of every backend. It owns no
// product code. Start reading at Run (logtest.go) and, for appends that fail, at RunFaults (faults.go).
package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A Backend is a kind of log, with the operations that the suite needs.
type Backend struct {
	// Create makes a new, empty log for one test, which begins behind origin.
	Create func(t *testing.T, origin eventlog.Origin) eventlog.Log
	// ReadOnly opens the closed log for reading.
	ReadOnly func(t *testing.T, log eventlog.Log) eventlog.Log
	// TakeOver opens log, which is open, for appending a second time, as another process does that takes it over. It
	// overcomes whatever normally prevents that.
	TakeOver func(t *testing.T, log eventlog.Log) eventlog.Log
}

// create makes a log that begins with entry 1.
func (b Backend) create(t *testing.T) eventlog.Log { return b.Create(t, eventlog.Origin{}) }

// Run runs the suite, each of its tests on a log of its own.
func Run(t *testing.T, b Backend) {
	for _, tc := range []struct {
		name string
		test func(t *testing.T, b Backend)
	}{
		{"NewLogIsEmpty", testNewLogIsEmpty},
		{"EntriesComeBackEqualAndInOrder", testEntriesComeBack},
		{"AnEncodingStandsForThePayload", testEncoding},
		{"EntriesAreTheCallersAfterAppend", testEntriesAreNotKept},
		{"EntriesReadAreIndependent", testEntriesReadAreIndependent},
		{"ReadStartsAnywhere", testReadStartsAnywhere},
		{"ReadMayStopEarly", testReadMayStopEarly},
		{"ReadEndsWhereItBegan", testReadEndsWhereItBegan},
		{"ManyEntriesInOneBatch", testManyEntries},
		{"WrongSequenceIsRefused", testWrongSequence},
		{"EntryThatCannotBeWrittenAddsNothing", testBadEntry},
		{"UnexpectedLastIsAConflict", testConflict},
		{"EmptyAppendAddsNothing", testEmptyAppend},
		{"ReadersAndWriterRunAtOnce", testConcurrentReaders},
		{"ClosedLogRefuses", testClosed},
		{"ReopenedLogGoesOn", testReopen},
		{"AppendWithAContextThatHasEndedAddsNothing", testAppendContext},
		{"ReadEndsWithItsContext", testReadContext},
		{"MoreThanTheLimitIsRefused", testLimit},
		{"AWriterThatIsSupersededStopsForGood", testSuperseded},
		{"RecordsAreAChainAndATree", testChain},
		{"ALogMayBeginBehindAnother", testOrigin},
		{"ALogThatIsReadIsNotAppendedTo", testReadOnly},
		{"FollowTellsEachEntryOnceAndInOrder", testFollow},
		{"FollowEndsWithItsContext", testFollowContext},
		{"FollowEndsWithTheLog", testFollowClose},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, b) })
	}
}

// Entries returns n entries numbered from first, of every kind in turn.
func Entries(first uint64, n int) []eventlog.Entry {
	entries := make([]eventlog.Entry, n)
	for i := range entries {
		seq := first + uint64(i)
		entries[i] = eventlog.Entry{
			Seq: seq, Epoch: 1, Time: eventlog.Time(1_700_000_000_000_000_000 + seq), Settled: seq%3 == 0,
			Payload: payload(seq),
		}
	}
	return entries
}

func payload(seq uint64) eventlog.Payload {
	name := fmt.Sprintf("p%d", seq)
	uid := types.UID("uid-" + name)
	switch seq % 6 {
	case 1:
		return &eventlog.EpochStarted{
			ID:      name,
			Version: "v1",
			Format:  eventlog.FormatVersion,
			Seed:    seq,
			Config:  []byte(`{"a":1}`),
		}
	case 2:
		return &eventlog.Upserted{Resource: eventlog.Pods, Object: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default",
				Name:      name,
				UID:       uid,
				Labels:    map[string]string{"b": "2", "a": "1"},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}}
	case 3:
		return &eventlog.Decision{
			Cycle:      seq,
			Namespace:  "default",
			Name:       name,
			UID:        uid,
			Outcome:    eventlog.Waiting,
			Node:       "n1",
			Score:      -7,
			Evaluated:  3,
			Feasible:   2,
			WaitUntil:  eventlog.Time(seq),
			WaitFor:    []string{"Coscheduling"},
			Rejections: []eventlog.Rejection{{Plugin: "NodeName", Code: "Unschedulable", Reason: "no", Nodes: 1}},
			Allowed:    []types.UID{uid, "other"},
		}
	case 4:
		return &eventlog.BindResult{UID: uid, Node: "n1", Outcome: eventlog.BindBound, Decision: seq - 1}
	case 5:
		return &eventlog.Deleted{Resource: eventlog.Pods, Namespace: "default", Name: name, UID: uid}
	}
	return &eventlog.Tick{}
}

func testNewLogIsEmpty(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	wantLast(t, log, 0)
	wantRead(t, log, 1, nil)
}

func testEntriesComeBack(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	all := Entries(1, 40)
	for batch := range slices.Chunk(all, 7) {
		mustAppend(t, log, batch)
		wantLast(t, log, batch[len(batch)-1].Seq)
	}
	wantRead(t, log, 1, all)
}

// testEncoding appends entries with an Encoding, and an Upserted without the object that the Encoding is from.
func testEncoding(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	var encoder eventlog.Encoder
	ahead := Entries(1, 40)
	for i := range ahead {
		var err error
		if ahead[i].Encoding, err = encoder.Encode(ahead[i].Payload); err != nil {
			t.Fatal(err)
		}
		if ahead[i].Kind() == eventlog.KindUpserted {
			ahead[i].Payload = nil
		}
	}
	mustAppend(t, log, ahead[:25])
	mustAppend(t, log, ahead[25:])
	wantRead(t, log, 1, Entries(1, 40))
}

// testEntriesAreNotKept reuses the memory of appended entries.
func testEntriesAreNotKept(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	batch := make([]eventlog.Entry, 7)
	for first := uint64(1); first <= 35; first += 7 {
		copy(batch, Entries(first, 7))
		mustAppend(t, log, batch)
		clear(batch)
		wantLast(t, log, first+6)
	}
	wantRead(t, log, 1, Entries(1, 35))
}

func testEntriesReadAreIndependent(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	appended, want := Entries(1, 6), Entries(1, 6)
	mustAppend(t, log, appended)
	scribble := func(entries []eventlog.Entry) {
		entries[1].Payload.(*eventlog.Upserted).Object.(*corev1.Pod).Labels["a"] = "changed"
		entries[2].Payload.(*eventlog.Decision).Allowed[0] = "changed"
		entries[0].Payload.(*eventlog.EpochStarted).Config[0] = '['
	}
	scribble(appended)
	wantRead(t, log, 1, want)
	scribble(read(t, log, 1))
	wantRead(t, log, 1, want)
}

func testReadStartsAnywhere(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	all := Entries(1, 20)
	mustAppend(t, log, all)
	for from := range uint64(21) {
		wantRead(t, log, from, all[max(from, 1)-1:])
	}
	wantRead(t, log, 21, nil)
	wantRead(t, log, 1<<63, nil)
}

func testReadMayStopEarly(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	mustAppend(t, log, Entries(1, 20))
	for e, err := range log.Read(context.Background(), 3) {
		if err != nil || e.Seq != 3 {
			t.Fatalf("entry %d, error %v", e.Seq, err)
		}
		break
	}
	// No lock is left: the log can be appended to and closed.
	mustAppend(t, log, Entries(21, 1))
}

func testReadEndsWhereItBegan(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	all := Entries(1, 10)
	mustAppend(t, log, all)
	next := uint64(11)
	var got []eventlog.Entry
	for e, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
		mustAppend(t, log, Entries(next, 1))
		next++
	}
	wantEntries(t, got, all)
	wantRead(t, log, 1, Entries(1, 20))
}

func testManyEntries(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	all := Entries(1, 5000)
	mustAppend(t, log, all)
	wantLast(t, log, 5000)
	wantRead(t, log, 1, all)
}

func testWrongSequence(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	mustAppend(t, log, Entries(1, 3))
	gap := append(Entries(4, 2), Entries(7, 1)...)
	for name, entries := range map[string][]eventlog.Entry{
		"a gap before the batch": Entries(5, 1),
		"a gap in the batch":     gap,
		"a repetition":           Entries(3, 1),
		"number 0":               Entries(0, 1),
	} {
		var refused *eventlog.EntryError
		if err := log.Append(context.Background(), 3, entries); !errors.As(err, &refused) {
			t.Errorf("%s: error %v, want an EntryError", name, err)
		}
	}
	wantRead(t, log, 1, Entries(1, 3))
	mustAppend(t, log, Entries(4, 1))
}

func testBadEntry(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	bad := Entries(1, 3)
	bad[2].Payload = &eventlog.Deleted{Resource: "unicorns"}
	var refused *eventlog.EntryError
	if err := log.Append(context.Background(), 0, bad); !errors.As(err, &refused) || refused.Seq != 3 {
		t.Errorf("error %v, want an EntryError of entry 3", err)
	}
	bad[2].Payload = nil
	if err := log.Append(context.Background(), 0, bad); !errors.As(err, &refused) {
		t.Errorf("no payload: error %v, want an EntryError", err)
	}
	wantLast(t, log, 0)
	mustAppend(t, log, Entries(1, 3))
	wantRead(t, log, 1, Entries(1, 3))
}

func testConflict(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	mustAppend(t, log, Entries(1, 3))
	for _, expected := range []uint64{0, 2, 4} {
		var conflict *eventlog.ConflictError
		err := log.Append(context.Background(), expected, Entries(expected+1, 1))
		if !errors.As(err, &conflict) {
			t.Fatalf("append after %d: error %v, want a conflict", expected, err)
		}
		if conflict.Expected != expected || conflict.Actual != 3 {
			t.Errorf("append after %d: %v", expected, conflict)
		}
	}
	wantRead(t, log, 1, Entries(1, 3))
	mustAppend(t, log, Entries(4, 1)) // a conflict's outcome is known
}

func testEmptyAppend(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	if err := log.Append(context.Background(), 0, nil); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, log, Entries(1, 2))
	if err := log.Append(context.Background(), 2, nil); err != nil {
		t.Fatal(err)
	}
	var conflict *eventlog.ConflictError
	if err := log.Append(context.Background(), 1, nil); !errors.As(err, &conflict) {
		t.Errorf("error %v, want a conflict", err)
	}
	wantLast(t, log, 2)
}

func testConcurrentReaders(t *testing.T, b Backend) {
	log := b.create(t)
	defer log.Close()
	const total, batch = 600, 10
	done := make(chan error, 2)
	for range cap(done) {
		go func() { done <- followTo(log, total) }()
	}
	for first := uint64(1); first <= total; first += batch {
		mustAppend(t, log, Entries(first, batch))
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// followTo reads the log from its start, again and again, until it has total entries.
func followTo(log eventlog.Log, total uint64) error {
	for {
		atLeast, err := log.Last()
		if err != nil {
			return err
		}
		var seq uint64
		for e, err := range log.Read(context.Background(), 1) {
			if err != nil {
				return err
			}
			if seq++; e.Seq != seq {
				return fmt.Errorf("read entry %d, want %d", e.Seq, seq)
			}
		}
		if seq < atLeast {
			return fmt.Errorf("read up to %d after the last was %d", seq, atLeast)
		}
		if seq == total {
			return nil
		}
	}
}

func testClosed(t *testing.T, b Backend) {
	log := b.create(t)
	mustAppend(t, log, Entries(1, 2))
	reading := log.Read(context.Background(), 1)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(context.Background(), 2, Entries(3, 1)); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("Append: %v", err)
	}
	if _, err := log.Last(); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("Last: %v", err)
	}
	if err := log.Close(); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("Close: %v", err)
	}
	if _, err := log.RecordHash(t.Context(), 1); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("RecordHash: %v", err)
	}
	if _, err := follow(t, log, 1, 1); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("Follow: %v", err)
	}
	for _, err := range log.Records(t.Context(), 1) {
		if !errors.Is(err, eventlog.ErrClosed) {
			t.Errorf("Records: %v", err)
		}
		break
	}
	yields := 0
	for _, err := range reading {
		if yields++; !errors.Is(err, eventlog.ErrClosed) {
			t.Errorf("Read: %v", err)
		}
	}
	if yields != 1 {
		t.Errorf("Read yielded %d times, want its error once", yields)
	}
}

func testReopen(t *testing.T, b Backend) {
	ctx, log := t.Context(), b.create(t)
	for first := uint64(1); first <= 41; first += 10 {
		mustAppend(t, log, Entries(first, 10))
		if first%20 == 1 { // closed already, or by Reopen
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		}
		before := log
		var found eventlog.Reopened
		var err error
		log, found, err = before.Reopen(ctx)
		want := eventlog.Reopened{Expected: first + 9, Last: first + 9}
		if err != nil || found != want || found.Persisted() {
			t.Fatalf("found %+v, error %v, want %+v", found, err, want)
		}
		if err := before.Append(ctx, first+9, nil); !errors.Is(err, eventlog.ErrClosed) {
			t.Errorf("append to the log before: error %v, want ErrClosed", err)
		}
		wantLast(t, log, first+9)
		wantRead(t, log, 1, Entries(1, int(first)+9))
		wantChain(t, log, eventlog.Origin{}, first+9)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustAppend(t *testing.T, log eventlog.Log, entries []eventlog.Entry) {
	t.Helper()
	if err := log.Append(context.Background(), entries[0].Seq-1, entries); err != nil {
		t.Fatal(err)
	}
}

func wantLast(t *testing.T, log eventlog.Log, want uint64) {
	t.Helper()
	if got, err := log.Last(); err != nil || got != want {
		t.Fatalf("last entry is %d, error %v, want %d", got, err, want)
	}
}

func read(t *testing.T, log eventlog.Log, from uint64) []eventlog.Entry {
	t.Helper()
	var entries []eventlog.Entry
	for e, err := range log.Read(context.Background(), from) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

func wantRead(t *testing.T, log eventlog.Log, from uint64, want []eventlog.Entry) {
	t.Helper()
	wantEntries(t, read(t, log, from), want)
}

func wantEntries(t *testing.T, got, want []eventlog.Entry) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i := range got {
		if !equality.Semantic.DeepEqual(got[i], want[i]) {
			t.Fatalf("entry %d came back as\n%+v, want\n%+v", want[i].Seq, got[i].Payload, want[i].Payload)
		}
	}
}

// wantChain checks the records behind origin and up to entry last. They have the bytes of the entries that are read,
// each carries the hash of the one before it, and the hashes and the tree are right.
func wantChain(t *testing.T, log eventlog.RecordReader, origin eventlog.Origin, last uint64) {
	t.Helper()
	ctx := t.Context()
	end, tree := origin.End(), origin.Tree.Clone()
	for r, err := range log.Records(ctx, end.Seq+1) {
		if err != nil {
			t.Fatal(err)
		}
		again, err := end.Record(r.Bytes)
		if err != nil || r.Seq != again.Seq || r.Hash != again.Hash {
			t.Fatalf("record %d with hash %x: %v, want record %d with hash %x", r.Seq, r.Hash, err, end.Seq, end.Hash)
		}
		tree.Add(r.Hash)
		if hash, err := log.RecordHash(ctx, r.Seq); err != nil || hash != r.Hash {
			t.Fatalf("the hash of record %d is %x, error %v, want %x", r.Seq, hash, err, r.Hash)
		}
	}
	if end.Seq != last {
		t.Fatalf("records end with entry %d, want %d", end.Seq, last)
	}
	at, err := eventlog.OriginAt(ctx, log, last)
	if err != nil || at.End() != end || !at.Tree.Equal(tree) {
		t.Errorf("the place behind entry %d is %v, error %v, want %v and %v", last, at, err, end, tree)
	}
	known, err := log.KnownTree(ctx, last)
	if err != nil || known.Size < origin.Seq || known.Size > last {
		t.Errorf("the tree that is known is over %d entries, error %v", known.Size, err)
	}
}

// follow follows log from entry from on until n records came or no more will come. It returns their numbers and the
// error that ended it.
func follow(t *testing.T, log eventlog.Follower, from uint64, n int) (seqs []uint64, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if n == 0 {
		return nil, nil
	}
	for r, rerr := range log.Follow(ctx, from) {
		if err = rerr; err != nil {
			break
		}
		seqs = append(seqs, r.Seq)
		if last := max(from, 1) + uint64(n) - 1; len(seqs) == n || r.Seq >= last {
			break
		}
	}
	return seqs, err
}
