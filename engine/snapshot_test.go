package engine_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// memoryStore keeps every snapshot, unless writing is to fail; reading may be to fail, too.
type memoryStore struct {
	kept          map[uint64][]byte
	fail          error
	unlisted, bad error // of List and Get
}

func (s *memoryStore) Put(seq uint64, data []byte) error {
	if s.fail == nil {
		s.kept[seq] = data
	}
	return s.fail
}

func (s *memoryStore) List() ([]uint64, error) {
	return slices.Sorted(maps.Keys(s.kept)), s.unlisted
}

func (s *memoryStore) Get(seq uint64) ([]byte, error) { return s.kept[seq], s.bad }

func (s *memoryStore) Drop(seq uint64) error {
	delete(s.kept, seq)
	return s.fail
}

// chained is a log that computes the hashes of its records again, from its entries.
type chained struct{ *eventlog.Memory }

func (l chained) RecordHash(ctx context.Context, seq uint64) ([32]byte, error) {
	var hash [32]byte
	for e, err := range l.Read(ctx, 1) {
		if err != nil || e.Seq > seq {
			return hash, err
		}
		rec, err := eventlog.AppendRecord(nil, e, hash)
		if err != nil {
			return hash, err
		}
		hash = eventlog.HashRecord(rec)
	}
	return hash, nil
}

func openWith(t testing.TB, w *world, log engine.Log, store snapshot.Store, report func(string)) *engine.Engine {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(context.Background(), log, w.now, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", NewID: func() string { return "epoch" },
		Snapshots: store, SnapshotEvery: 1, Report: report,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.AwaitSnapshot()
	return e
}

// TestEverySnapshotAndItsTailAreTheWholeLog tells the story with a snapshot after every commit. It recovers from each
// of them and from the whole log. The state is the same, and so is the rest of the story.
func TestEverySnapshotAndItsTailAreTheWholeLog(t *testing.T) {
	for _, anew := range []bool{false, true} {
		t.Run(fmt.Sprintf("record hashes made anew %v", anew), func(t *testing.T) {
			asLog := func(m *eventlog.Memory) engine.Log {
				if anew {
					return chained{m}
				}
				return m
			}
			store := &memoryStore{kept: map[uint64][]byte{}}
			w := newWorld(t)
			w.log = &faultyLog{kept: eventlog.NewMemory()}
			w.engine = openWith(t, w, asLog(w.log.kept), store, nil)
			for _, m := range gangStory() {
				w.mustStep(m)
			}
			if len(store.kept) < len(gangStory())/2 {
				t.Fatalf("%d snapshots", len(store.kept))
			}
			all := w.entries()
			recovered := func(store snapshot.Store) *engine.Engine {
				kept := eventlog.NewMemory()
				if err := kept.Append(context.Background(), 0, all); err != nil {
					t.Fatal(err)
				}
				return openWith(t, w, asLog(kept), store, nil)
			}
			whole := recovered(nil)
			for seq, data := range store.kept {
				e := recovered(&memoryStore{kept: map[uint64][]byte{seq: data}})
				if r := e.Recovery(); r.Snapshot != seq || r.Entries != uint64(len(all))-seq || len(r.Refused) > 0 {
					t.Errorf("recovery is %v", r)
				}
				if e.Machine().Hash() != whole.Machine().Hash() {
					t.Errorf("the state from the snapshot at entry %d is not that of the whole log", seq)
				}
			}
		})
	}
}

// TestASnapshotThatCannotBeTrustedIsNotUsed spoils the newest snapshot in every way that has a name: the one
// before it is used, and the refusal says why.
func TestASnapshotThatCannotBeTrustedIsNotUsed(t *testing.T) {
	w, store := worldWithSnapshots(t)
	seqs, _ := store.List()
	newest, before := seqs[len(seqs)-1], seqs[len(seqs)-2]
	other, otherStore := worldWithSnapshots(t, pod("only-here", "1", ""))
	_ = other
	flipped := slices.Clone(store.kept[newest])
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		seq  uint64
		data []byte
		want string
	}{
		"damaged":       {newest, flipped, "its checksum is wrong"},
		"cut":           {newest, store.kept[newest][:100], "its length is wrong"},
		"of another":    {newest, otherStore.kept[newest], "it is not of this log"},
		"misplaced":     {newest, store.kept[before], "it says that it is of entry"},
		"beyond":        {newest + 1000, store.kept[newest], "it says that it is of entry"},
		"of no program": {newest, nil, "its length is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "of another" && c.data == nil {
				t.Fatalf("the other world has no snapshot at entry %d", newest)
			}
			spoilt := &memoryStore{kept: map[uint64][]byte{before: store.kept[before], c.seq: c.data}}
			var said []string
			e := openWith(t, w, copyOf(t, w), spoilt, func(m string) { said = append(said, m) })
			r := e.Recovery()
			if r.Snapshot != before || len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Error(), c.want) {
				t.Errorf("recovery is %v, want the snapshot at %d and a refusal with %q", r, before, c.want)
			}
			if len(said) == 0 || !strings.Contains(said[0], c.want) ||
				!strings.Contains(said[0], fmt.Sprintf("the snapshot at entry %d", before)) {
				t.Errorf("reported %q", said)
			}
			if want := openWith(t, w, copyOf(t, w), nil, nil); e.Machine().Hash() != want.Machine().Hash() {
				t.Error("the state is not that of the whole log")
			}
		})
	}
	t.Run("none is left", func(t *testing.T) {
		e := openWith(t, w, copyOf(t, w), &memoryStore{kept: map[uint64][]byte{newest: flipped, before: nil}}, nil)
		if r := e.Recovery(); r.Snapshot != 0 || len(r.Refused) != 2 {
			t.Errorf("recovery is %v, want the whole log and two refusals", r)
		}
		if want := openWith(t, w, copyOf(t, w), nil, nil); e.Machine().Hash() != want.Machine().Hash() {
			t.Error("the state is not that of the whole log")
		}
	})
}

// TestALogThatHasLostItsEndIsNotOpened cuts the log behind every entry, and leaves a snapshot of a later one.
func TestALogThatHasLostItsEndIsNotOpened(t *testing.T) {
	w, store := worldWithSnapshots(t)
	all := w.entries()
	seqs, _ := store.List()
	newest := seqs[len(seqs)-1]
	newer := slices.Clone(store.kept[newest])
	newer[11]++
	sum := sha256.Sum256(newer[:len(newer)-sha256.Size])
	copy(newer[len(newer)-sha256.Size:], sum[:])
	damaged := slices.Clone(newer)
	damaged[100] ^= 1
	openWith := func(t *testing.T, last uint64, store *memoryStore) error {
		t.Helper()
		kept := eventlog.NewMemory()
		if err := kept.Append(context.Background(), 0, all[:last]); err != nil {
			t.Fatal(err)
		}
		config, err := framework.EncodeConfig(framework.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		_, err = engine.Open(context.Background(), kept, w.now, engine.Options{
			Registry: plugins.NewRegistry(), Config: config, Version: "test", Snapshots: store,
		})
		if now, _ := kept.Last(); err != nil && now != last {
			t.Errorf("cut behind entry %d: an entry was appended", last)
		}
		return err
	}
	open := func(t *testing.T, last uint64, data []byte) error {
		t.Helper()
		return openWith(t, last, &memoryStore{kept: map[uint64][]byte{newest: data}})
	}
	for last := range newest {
		for name, data := range map[string][]byte{"whole": store.kept[newest], "of a newer format": newer} {
			err := open(t, last, data)
			var damage *eventlog.DamagedError
			var lost *snapshot.LostError
			if !errors.As(err, &damage) || damage.Seq != last+1 || !errors.As(err, &lost) ||
				*lost != (snapshot.LostError{Last: last, Seq: newest}) {
				t.Errorf("cut behind entry %d, the snapshot of entry %d is %s: %v", last, newest, name, err)
			}
		}
		if err := open(t, last, damaged); err != nil {
			t.Errorf("cut behind entry %d, a damaged snapshot: %v", last, err)
		}
	}
	if err := open(t, newest, store.kept[newest]); err != nil {
		t.Errorf("a log that ends with its snapshot: %v", err)
	}
	// A snapshot that cannot be read may be of a later entry.
	for name, unread := range map[string]memoryStore{"the list": {unlisted: fs.ErrPermission},
		"a snapshot": {bad: fs.ErrPermission}} {
		unread.kept = store.kept
		if err := openWith(t, newest-1, &unread); !errors.Is(err, fs.ErrPermission) ||
			!errors.Is(err, snapshot.ErrUnreadable) {
			t.Errorf("%s cannot be read: error %v", name, err)
		}
	}
	if err := openWith(t, newest-1,
		&memoryStore{kept: map[uint64][]byte{newest: nil}, bad: fs.ErrNotExist}); err != nil {
		t.Errorf("a snapshot that was dropped meanwhile: error %v", err)
	}
}

// TestASnapshotOfAnotherLogIsDroppedOnceThereIsAGoodOne fails to write one before.
func TestASnapshotOfAnotherLogIsDroppedOnceThereIsAGoodOne(t *testing.T) {
	w, store := worldWithSnapshots(t)
	_, other := worldWithSnapshots(t, pod("only-here", "1", ""))
	seqs, _ := store.List()
	newest, before := seqs[len(seqs)-1], seqs[len(seqs)-2]
	store.kept = map[uint64][]byte{newest: other.kept[newest], before: store.kept[before][:100]}
	var said []string
	full := &fullStore{memoryStore: store, full: true}
	w.engine = openWith(t, w, copyOf(t, w), full, func(m string) { said = append(said, m) })
	if got, _ := store.List(); !slices.Equal(got, []uint64{before, newest}) {
		t.Errorf("with no good one written there are snapshots of entries %d", got)
	}
	full.full = false
	w.mustStep(gangStory()[2])
	w.engine.AwaitSnapshot()
	got, _ := store.List()
	if slices.Contains(got, newest) || !slices.Contains(got, before) || len(got) != 2 {
		t.Errorf("there are snapshots of entries %d, want the damaged one of entry %d and one behind entry %d", got,
			before, newest)
	}
	if want := fmt.Sprintf("dropped what is kept as snapshots of entries [%d]: they are not of this log",
		newest); !slices.Contains(said, want) {
		t.Errorf("reported %q, want %q", said, want)
	}
}

// fullStore takes no snapshot while it is full.
type fullStore struct {
	*memoryStore
	full bool
}

func (s *fullStore) Put(seq uint64, data []byte) error {
	if s.full {
		return errors.New("no room")
	}
	return s.memoryStore.Put(seq, data)
}

// worldWithSnapshots tells half of the story, after the given inputs, with a snapshot after every commit.
func worldWithSnapshots(t *testing.T, first ...eventlog.Payload) (*world, *memoryStore) {
	t.Helper()
	store := &memoryStore{kept: map[uint64][]byte{}}
	w := newWorld(t)
	w.log = &faultyLog{kept: eventlog.NewMemory()}
	w.engine = openWith(t, w, w.log.kept, store, nil)
	story := gangStory()
	if first != nil {
		// As many entries, one of them another.
		story[0].inputs = append(slices.Clone(first), story[0].inputs[1:]...)
	}
	for _, m := range story[:2] {
		w.mustStep(m)
	}
	return w, store
}

func copyOf(t *testing.T, w *world) engine.Log {
	t.Helper()
	kept := eventlog.NewMemory()
	if err := kept.Append(context.Background(), 0, w.entries()); err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestASnapshotThatFailsStopsNothing has every Put and List fail: the log has everything.
func TestASnapshotThatFailsStopsNothing(t *testing.T) {
	w := newWorld(t)
	var said []string
	store := &memoryStore{fail: errors.New("no room")}
	w.log = &faultyLog{kept: eventlog.NewMemory()}
	w.engine = openWith(t, w, w.log.kept, store, func(m string) { said = append(said, m) })
	for _, m := range gangStory() {
		w.mustStep(m)
	}
	if len(said) < 2 || !strings.Contains(said[0], "no room") || !strings.Contains(said[1], "no snapshot at entry") {
		t.Errorf("reported %q", said)
	}
	verify(t, w.log.kept, false)
}

// slowStore holds every Put up until it may end.
type slowStore struct {
	memoryStore
	entered chan uint64
	release chan error
}

func (s *slowStore) Put(seq uint64, _ []byte) error {
	s.entered <- seq
	return <-s.release
}

// TestAnAppendDoesNotWaitForASnapshotOnItsWay has the store hold a snapshot up. The story continues to its end, no
// second snapshot is begun, and Close reports the store's last result.
func TestAnAppendDoesNotWaitForASnapshotOnItsWay(t *testing.T) {
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	store := &slowStore{entered: make(chan uint64, 10), release: make(chan error, 1)}
	var said []string
	log := eventlog.NewMemory()
	w := newWorld(t)
	e, err := engine.Open(context.Background(), log, w.now, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", Snapshots: store, SnapshotEvery: 1,
		Report: func(m string) { said = append(said, m) },
	})
	if err != nil {
		t.Fatal(err)
	}
	first := <-store.entered
	now := w.now
	for _, m := range gangStory() {
		now = now.Add(m.after)
		if _, err := e.Step(context.Background(), now, m.inputs); err != nil {
			t.Fatal(err)
		}
	}
	if last, _ := log.Last(); last < 10 || len(store.entered) != 0 || len(said) != 0 {
		t.Errorf("%d entries, %d more snapshots, reported %q", last, len(store.entered), said)
	}
	store.release <- errors.New("no room at last")
	e.Close()
	if want := fmt.Sprintf("no snapshot at entry %d: no room at last", first); len(said) != 1 || said[0] != want {
		t.Errorf("reported %q, want %q", said, want)
	}
}

// TestSnapshotsAreDueByTheEntriesOwnTime lets hours pass in the entries, and no time at all besides.
func TestSnapshotsAreDueByTheEntriesOwnTime(t *testing.T) {
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	store := &memoryStore{kept: map[uint64][]byte{}}
	w := newWorld(t)
	e, err := engine.Open(context.Background(), eventlog.NewMemory(), w.now, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", Snapshots: store, SnapshotAge: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for i, after := range []time.Duration{59 * time.Minute, time.Hour, time.Hour + 59*time.Minute, 5 * time.Hour,
		5 * time.Hour} {
		inputs := []eventlog.Payload{pod(fmt.Sprint("p", i), "1", "")}
		if i == 4 {
			inputs = nil // nothing is logged: there is nothing to write down
		}
		if _, err := e.Step(context.Background(), w.now.Add(after), inputs); err != nil {
			t.Fatal(err)
		}
		e.AwaitSnapshot()
		got = append(got, len(store.kept))
	}
	if want := []int{0, 1, 1, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("%d snapshots after each step, want %d", got, want)
	}
}

// TestSnapshotsAreWrittenWhenDue counts them.
func TestSnapshotsAreWrittenWhenDue(t *testing.T) {
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	store := snapshot.NewDir(t.TempDir()+"/snapshots", 3)
	w := newWorld(t)
	w.log = &faultyLog{kept: eventlog.NewMemory()}
	w.engine, err = engine.Open(context.Background(), w.log.kept, w.now, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", Snapshots: store, SnapshotEvery: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	var due []uint64
	for _, m := range gangStory() {
		w.mustStep(m)
		if last, _ := w.log.kept.Last(); len(due) == 0 && last >= 10 || len(due) > 0 && last >= due[len(due)-1]+10 {
			due = append(due, last)
		}
	}
	got, err := store.List()
	if err != nil {
		t.Fatal(err)
	}
	if want := due[len(due)-3:]; !slices.Equal(got, want) {
		t.Errorf("snapshots at %v, want %v", got, want)
	}
}
