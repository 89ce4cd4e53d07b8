package boltlog

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// fataler is a test or a property.
type fataler interface {
	Fatalf(format string, args ...any)
}

// naiveTrees returns the tree after each of n entries of logtest, from the records alone.
func naiveTrees(t fataler, n int) (trees []merkle.Tree, hashes [][32]byte) {
	var tree merkle.Tree
	var prev [32]byte
	trees, hashes = []merkle.Tree{{}}, [][32]byte{{}}
	for _, e := range logtest.Entries(1, n) {
		rec, err := eventlog.AppendRecord(nil, e, prev)
		if err != nil {
			t.Fatalf("entry %d: %v", e.Seq, err)
		}
		prev = eventlog.HashRecord(rec)
		tree.Add(prev)
		trees, hashes = append(trees, tree.Clone()), append(hashes, prev)
	}
	return trees, hashes
}

// wantPlaces checks the tree and the hash at every entry of a log.
func wantPlaces(t fataler, l *Log, from uint64, trees []merkle.Tree, hashes [][32]byte) {
	for seq := from; seq < uint64(len(trees)); seq++ {
		o, err := eventlog.OriginAt(context.Background(), l, seq)
		if err != nil || o.Hash != hashes[seq] || !o.Tree.Equal(trees[seq]) || o.Seq != seq {
			t.Fatalf("place behind entry %d is %v, error %v, want root %v", seq, o, err, trees[seq].Root())
		}
		known, err := l.KnownTree(context.Background(), seq)
		if err != nil || known.Size > seq || !known.Equal(trees[known.Size]) {
			t.Fatalf("known tree of at most %d entries is %v, error %v", seq, known, err)
		}
	}
}

// Whatever the appends, and however often the log was opened between them, every segment knows the tree before it
// and, sealed, that at its end.
func TestSegmentsKnowTheTree(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path, err := os.MkdirTemp(dir, "")
		mustRapid(t, err)
		path = filepath.Join(path, "a.log")
		l, err := everyAppend.Create(path)
		mustRapid(t, err)
		last := 0
		for range rapid.IntRange(1, 5).Draw(t, "appends") {
			n := rapid.IntRange(1, 20).Draw(t, "entries")
			mustRapid(t, l.Append(context.Background(), uint64(last), logtest.Entries(uint64(last)+1, n)))
			last += n
			if rapid.Bool().Draw(t, "reopened") {
				mustRapid(t, l.Close())
				opts := everyAppend
				if rapid.Bool().Draw(t, "large segments") {
					opts = DefaultOptions()
				}
				l, err = opts.Open(path)
				mustRapid(t, err)
			}
		}
		trees, hashes := naiveTrees(t, last)
		for _, f := range l.segments {
			if !f.Tree.Equal(trees[f.First-1]) || (f.Sealed && !f.SealedTree.Equal(trees[f.Last])) {
				t.Fatalf("segment %d to %d has other trees", f.First, f.Last)
			}
		}
		wantPlaces(t, l, 0, trees, hashes)
		mustRapid(t, l.Close())
		r, err := OpenReadOnly(path)
		mustRapid(t, err)
		wantPlaces(t, r, 0, trees, hashes)
		mustRapid(t, r.Close())
	})
}

func mustRapid(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A sealed segment without a successor, and one whose seal is lost, are repaired, and their trees known.
func TestInterruptedLogsAreRepairedWithTheirTrees(t *testing.T) {
	trees, hashes := naiveTrees(t, 35)
	for name, build := range map[string]func(t testing.TB) string{"no successor": unfinished,
		"no seal": func(t testing.TB) string {
			path := withEmpty(t)
			tamper(t, segment(path, 21), func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Delete(metaSealed) })
			return path
		}} {
		path := build(t)
		l, err := Open(path)
		must(t, err)
		must(t, l.Append(context.Background(), 30, logtest.Entries(31, 5)))
		wantPlaces(t, l, 0, trees, hashes)
		must(t, l.Close())
		if n, err := readUntil(t, path, 1); n != 35 || err != nil {
			t.Errorf("%s: %d entries, error %v", name, n, err)
		}
	}
}

func TestWrongTreesAreDamage(t *testing.T) {
	change := func(key []byte, at int) func(tx *bolt.Tx) error {
		return func(tx *bolt.Tx) error {
			value := append([]byte(nil), tx.Bucket(bucketMeta).Get(key)...)
			value[at] ^= 1
			return tx.Bucket(bucketMeta).Put(key, value)
		}
	}
	for _, tc := range []struct {
		name  string
		first uint64
		f     func(tx *bolt.Tx) error
		at    uint64 // the segment that is named
		seq   uint64
		want  string
	}{
		{"a tree changed", 11, change(metaTree, 3), 11, 11, "follows a tree with root"},
		{"the live segment's tree changed", 21, change(metaTree, 3), 21, 21, "follows a tree with root"},
		{"a seal's tree changed", 11, change(metaSealed, 50), 21, 21, "follows a tree with root"},
		{"a tree cut short", 11, func(tx *bolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(metaTree, make([]byte,
				32))
		}, 11, 11, "has 1 nodes, want 2"},
		{"a tree missing", 1, func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Delete(metaTree) }, 1, 1,
			"missing"},
		{"a seal cut short", 11, func(tx *bolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(metaSealed, append([]byte(nil),
				tx.Bucket(bucketMeta).Get(metaSealed)[:71]...))
		}, 11, 11, "cut short"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := newSegments(t, 3, 10)
			tamper(t, segment(path, tc.first), tc.f)
			if tc.first < 21 {
				_ = trim(segment(path, tc.first)) // bbolt made it longer
			}
			_, err := Open(path)
			wantDamage(t, err, segment(path, tc.at), tc.seq, tc.want)
			if l, err := OpenReadOnly(path); err == nil {
				n := 0
				for _, err = range l.Read(context.Background(), 1) {
					n++
				}
				wantDamage(t, err, segment(path, tc.at), tc.seq, tc.want)
				must(t, l.Close())
			} else {
				wantDamage(t, err, segment(path, tc.at), tc.seq, tc.want)
			}
		})
	}
}

func TestRecordsYieldsTheRecordOfEveryEntry(t *testing.T) {
	path := newSegments(t, 3, 10)
	l, err := OpenReadOnly(path)
	must(t, err)
	defer l.Close()
	for from := uint64(1); from <= 31; from++ {
		next := from
		for r, err := range l.Records(context.Background(), from) {
			must(t, err)
			e, _, err := eventlog.DecodeRecord(r.Bytes)
			must(t, err)
			if r.Seq != next || e.Seq != next || r.Hash != eventlog.HashRecord(r.Bytes) {
				t.Fatalf("record %d is of entry %d, want %d", r.Seq, e.Seq, next)
			}
			next++
		}
		if next != 31 {
			t.Fatalf("records from %d end before %d", from, next)
		}
	}
	for seq, want := range map[uint64]string{31: "no entry 31", 1 << 40: "no entry"} {
		if _, err := l.RecordHash(context.Background(), seq); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("hash of entry %d: error %v", seq, err)
		}
		if _, err := eventlog.TreeAt(context.Background(), l, seq); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("tree of %d entries: error %v", seq, err)
		}
	}
}

// Records finds what Read finds, except for payloads.
func TestRecordsFindDamage(t *testing.T) {
	path := newSegments(t, 3, 10)
	tamper(t, segment(path, 11), func(tx *bolt.Tx) error {
		rec := append([]byte(nil), tx.Bucket(bucketLog).Get(key(15))...)
		rec[70] ^= 4
		return tx.Bucket(bucketLog).Put(key(15), rec)
	})
	must(t, trim(segment(path, 11)))
	l, err := OpenReadOnly(path)
	must(t, err)
	defer l.Close()
	n := 0
	for _, err = range l.Records(context.Background(), 1) {
		n++
	}
	wantDamage(t, err, segment(path, 11), 15, "checksum")
	if n != 15 {
		t.Errorf("%d records, want 14 and the damage", n)
	}
	if _, err := eventlog.TreeAt(context.Background(), l, 18); err == nil {
		t.Error("a tree over a damaged entry")
	}
}
