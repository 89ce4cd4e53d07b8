package logs_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// snapshotSeqs returns the entries of which a log has snapshots.
func snapshotSeqs(t testing.TB, log string) []uint64 {
	t.Helper()
	seqs, err := logs.SnapshotsOf(log).List()
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

// TestAWriterKeepsTheSnapshotThatAnArchiveMadeMeanwhileDependsOn archives while a log is written to: the writer then
// drops snapshots as ever.
func TestAWriterKeepsTheSnapshotThatAnArchiveMadeMeanwhileDependsOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	log, err := logs.KeepOptions{SegmentBytes: 1}.Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	snapshots := log.Snapshots(50).(*snapshot.Dir)
	entries := logstest.WellFormed(400)
	write := func(from, to int) {
		t.Helper()
		for at := from; at < to; at += 10 {
			if err := log.Append(context.Background(), uint64(at), entries[at:at+10]); err != nil {
				t.Fatal(err)
			}
			if err := snapshots.Put(uint64(at+10), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(0, 100)
	if got := snapshotSeqs(t, path); !slices.Equal(got, []uint64{80, 90, 100}) {
		t.Fatalf("snapshots of entries %d", got)
	}
	done, err := boltlog.Archive(path, 91, filepath.Join(t.TempDir(), "archive"), nil)
	if err != nil || done.Last != 90 {
		t.Fatalf("archived %+v, %v", done, err)
	}
	write(100, 400)
	if got := snapshotSeqs(t, path); !slices.Contains(got, 90) {
		t.Errorf("of entry 90, behind which the log begins since it was archived, there is no snapshot, but of %d", got)
	}
}
