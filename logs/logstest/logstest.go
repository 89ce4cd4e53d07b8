// Package logstest makes small logs for tests. Only test files import it.
package logstest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// WellFormed returns n entries from 1 on, of every kind, whose epochs are right too.
func WellFormed(n int) []eventlog.Entry {
	entries := logtest.Entries(1, n)
	epoch := uint64(0)
	for i := range entries {
		if entries[i].Kind() == eventlog.KindEpochStarted {
			epoch++
		}
		entries[i].Epoch = epoch
	}
	return entries
}

// Segmented makes a log of entries, size of them in each segment, and returns its path.
func Segmented(t testing.TB, entries []eventlog.Entry, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.log")
	log, err := boltlog.Options{SegmentBytes: 1}.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(entries); at += size {
		if err := log.Append(context.Background(), uint64(at), entries[at:min(at+size, len(entries))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// SegmentOf returns the file of the segment of a log that begins with entry first.
func SegmentOf(log string, first int) string {
	return filepath.Join(log, fmt.Sprintf("%020d.seg", first))
}
