package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
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

// However the entries lie in segments and parts, the root is that of all of them in order.
func TestVerifyComputesTheRoot(t *testing.T) {
	for _, tc := range []struct{ entries, size int }{
		{0, 1}, {1, 1}, {100, 100}, {100, 11}, {partSize, partSize}, {partSize + 1, 5000}, {2*partSize + 77, 12345},
	} {
		entries := wellFormed(tc.entries)
		facts, stderr, code := verified(t, segmented(t, entries, tc.size))
		if code != 0 || facts.Root != rootOf(t, entries) || facts.First != 1 {
			t.Errorf("%d entries, %d a segment: exit code %d, %+v, %s", tc.entries, tc.size, code, facts, stderr)
		}
	}
}

// Trees that agree with each other, but not with the entries, are found too.
func TestVerifyFindsATreeOfOtherEntries(t *testing.T) {
	path := segmented(t, wellFormed(40), 10)
	forge := func(first int, key string, at int) {
		t.Helper()
		file := segmentOf(path, first)
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
	facts, _, code := verified(t, path)
	if code != exitDamaged || facts.Damage == nil || facts.Damage.Path != segmentOf(path, 11) || !strings.Contains(facts.Damage.Reason, "the hash tree over the first 20 entries") {
		t.Errorf("exit code %d, %+v", code, facts.Damage)
	}
}

func TestVerifyOfAnArchivedLog(t *testing.T) {
	entries := wellFormed(40)
	path := segmented(t, entries, 10)
	dir := path + ".archive"
	if _, err := boltlog.Archive(path, 21, dir, nil); err != nil {
		t.Fatal(err)
	}
	want := func(name string, first, count uint64, code int) verifyFacts {
		t.Helper()
		facts, stderr, got := verified(t, path)
		if got != code || facts.First != first || facts.Entries != count || (code == 0 && facts.Root != rootOf(t, entries)) {
			t.Errorf("%s: exit code %d, %+v, %s", name, got, facts, stderr)
		}
		return facts
	}
	want("archived", 1, 40, 0)
	damaged := segmentOf(dir, 11)
	content, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Replace(content, []byte("default"), []byte("defaulT"), 1)
	if bytes.Equal(bad, content) {
		bad[bytes.LastIndexByte(bad, 1)] ^= 2
	}
	if err := os.WriteFile(damaged, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	facts, _, code := verified(t, path)
	if code != exitDamaged || facts.Damage.Path != damaged || facts.First != 1 {
		t.Errorf("an archived record changed: exit code %d, %+v", code, facts)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	// What is there is whole, but without the entries before and without a snapshot it is of no use.
	if facts := want("the archive gone", 21, 20, exitFailed); facts.Absent == "" || !facts.Stateless || facts.Damage != nil || facts.Root != rootOf(t, entries) {
		t.Errorf("the archive gone: verify does not say what it has not read: %+v", facts)
	}
	if err := os.Remove(segmentOf(path, 21)); err != nil {
		t.Fatal(err)
	}
	facts, _, code = verified(t, path)
	if code != exitDamaged || facts.Damage.Seq != 21 || facts.Entries != 0 {
		t.Errorf("a segment missing: exit code %d, %+v, %+v", code, facts, facts.Damage)
	}
}
