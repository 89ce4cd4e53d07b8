package verify

import (
	"bytes"
	"os"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// rootOf computes the tree's root from the entries alone.
func rootOf(t testing.TB, entries []eventlog.Entry) string {
	t.Helper()
	var tree merkle.Tree
	var prev [32]byte
	for _, e := range entries {
		rec, err := eventlog.AppendRecord(nil, e, prev)
		if err != nil {
			t.Fatal(err)
		}
		prev = eventlog.HashRecord(rec)
		tree.Add(prev)
	}
	return tree.Root().String()
}

// The root covers all entries in order, however they are divided into segments and parts.
func TestVerifyComputesTheRoot(t *testing.T) {
	for _, tc := range []struct{ entries, size int }{
		{0, 1}, {1, 1}, {100, 100}, {100, 11}, {partSize, partSize}, {partSize + 1, 5000}, {2*partSize + 77, 12345},
	} {
		entries := logstest.WellFormed(tc.entries)
		facts, complaint, end := verified(t, logstest.Segmented(t, entries, tc.size))
		if end != whole || facts.Root != rootOf(t, entries) || facts.First != 1 {
			t.Errorf("%d entries, %d a segment: it ends %s, %+v, %s", tc.entries, tc.size, end, facts, complaint)
		}
	}
}

// Trees that agree with each other, but not with the entries, are found too.
func TestVerifyFindsATreeOfOtherEntries(t *testing.T) {
	path := logstest.Segmented(t, logstest.WellFormed(40), 10)
	forge := func(first int, key string, at int) {
		t.Helper()
		file := logstest.SegmentOf(path, first)
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		db, err := bolt.Open(file, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bolt.Tx) error {
			value := bytes.Clone(tx.Bucket([]byte("meta")).Get([]byte(key)))
			value[at] ^= 1
			return tx.Bucket([]byte("meta")).Put([]byte(key), value)
		})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if now, err := os.Stat(file); err != nil || now.Size() != info.Size() {
			if err := os.Truncate(file, info.Size()); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Behind 20 entries the tree has nodes of 16 and 4. That of 16 is also in the trees behind 30.
	forge(11, "sealed", 40)
	forge(21, "tree", 0)
	forge(21, "sealed", 40)
	forge(31, "tree", 0)
	log, err := boltlog.OpenReadOnly(path)
	if err != nil {
		t.Fatalf("opening it finds it already: %v", err)
	}
	log.Close()
	facts, _, end := verified(t, path)
	if end != damaged || facts.Damage == nil || facts.Damage.Path != logstest.SegmentOf(path, 11) ||
		!strings.Contains(facts.Damage.Reason, "the hash tree over the first 20 entries") {
		t.Errorf("it ends %s, %+v", end, facts.Damage)
	}
}

func TestVerifyOfAnArchivedLog(t *testing.T) {
	entries := logstest.WellFormed(40)
	path := logstest.Segmented(t, entries, 10)
	dir := path + ".archive"
	if _, err := boltlog.Archive(path, 21, dir, nil); err != nil {
		t.Fatal(err)
	}
	want := func(name string, first, count uint64, end string) *Report {
		t.Helper()
		facts, complaint, got := verified(t, path)
		if got != end || facts.First != first || facts.Entries != count ||
			(end == whole && facts.Root != rootOf(t, entries)) {
			t.Errorf("%s: it ends %s, %+v, %s", name, got, facts, complaint)
		}
		return facts
	}
	want("archived", 1, 40, whole)
	file := logstest.SegmentOf(dir, 11)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Replace(content, []byte("default"), []byte("defaulT"), 1)
	if bytes.Equal(bad, content) {
		bad[bytes.LastIndexByte(bad, 1)] ^= 2
	}
	if err := os.WriteFile(file, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	facts, _, end := verified(t, path)
	if end != damaged || facts.Damage.Path != file || facts.First != 1 {
		t.Errorf("an archived record changed: it ends %s, %+v", end, facts)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	// The remaining entries are whole, but without the earlier ones and without a snapshot they are of no use.
	if facts := want(
		"the archive gone",
		21,
		20,
		failed,
	); facts.Absent == "" || !facts.Stateless || facts.Damage != nil ||
		facts.Root != rootOf(t, entries) {
		t.Errorf("the archive gone: verify does not say what it has not read: %+v", facts)
	}
	if err := os.Remove(logstest.SegmentOf(path, 21)); err != nil {
		t.Fatal(err)
	}
	facts, _, end = verified(t, path)
	if end != damaged || facts.Damage.Seq != 21 || facts.Entries != 0 {
		t.Errorf("a segment missing: it ends %s, %+v, %+v", end, facts, facts.Damage)
	}
}
