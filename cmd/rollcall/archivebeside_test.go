package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// TestAWriterKeepsTheSnapshotThatAnArchiveMadeMeanwhileDependsOn archives while a log is written to: the writer then
// drops snapshots as ever.
func TestAWriterKeepsTheSnapshotThatAnArchiveMadeMeanwhileDependsOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	log, err := boltlog.Options{SegmentBytes: 1}.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var opts engine.Options
	(&snapshotting{every: 50}).into(&opts, log)
	entries := wellFormed(400)
	write := func(from, to int) {
		t.Helper()
		for at := from; at < to; at += 10 {
			if err := log.Append(uint64(at), entries[at:at+10]); err != nil {
				t.Fatal(err)
			}
			if err := opts.Snapshots.Put(uint64(at+10), nil); err != nil {
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

// TestAnArchiveSeesThatItsSnapshotIsThere loses it in the last moment.
func TestAnArchiveSeesThatItsSnapshotIsThere(t *testing.T) {
	path := segmented(t, []eventlog.Entry{}, 1)
	dir := snapshotsOf(path)
	f := &archiveFacts{Path: path, Snapshot: 30, Last: 20}
	for _, step := range []struct{ there, want []uint64 }{{[]uint64{10, 40}, []uint64{10, 30, 40}}, {[]uint64{25}, []uint64{25}}, {[]uint64{20}, []uint64{20}}} {
		for _, seq := range snapshotSeqs(t, path) {
			if err := dir.Drop(seq); err != nil {
				t.Fatal(err)
			}
		}
		for _, seq := range step.there {
			if err := dir.Add(seq, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.keepSnapshot([]byte("it")); err != nil {
			t.Fatal(err)
		}
		if got := snapshotSeqs(t, path); !slices.Equal(got, step.want) {
			t.Errorf("beside snapshots of entries %d there are %d, want %d", step.there, got, step.want)
		}
	}
}
