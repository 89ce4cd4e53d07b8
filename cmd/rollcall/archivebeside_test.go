package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/archive"
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

// TestArchivingEnsuresThatItsSnapshotExists loses it in the last moment.
func TestArchivingEnsuresThatItsSnapshotExists(t *testing.T) {
	path := segmented(t, []eventlog.Entry{}, 1)
	dir := logs.SnapshotsOf(path)
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

func TestASimulationIsResumedWithWhatWasArchived(t *testing.T) {
	log, args := small(t, "--until", "10m")
	archive := filepath.Join(t.TempDir(), "archive")
	seqs := snapshotSeqs(t, log)
	facts, _ := factsOf[archive.Report](t, "log", "archive", log, "--before", fmt.Sprint(seqs[len(seqs)-1]+1), "--to", archive)
	if facts.Segments == 0 {
		t.Fatalf("%+v", facts)
	}
	if err := os.Rename(archive, archive+".moved"); err != nil {
		t.Fatal(err)
	}
	wants(t, exitFailed, []string{"cannot resume: the whole log is needed", "entry 1 was archived in " + archive, "say with --archive where they are now"}, append(args, "--resume")...)
	wants(t, exitUsage, []string{"--archive needs --resume"}, append(args, "--archive", archive)...)
	wants(t, exitDone, []string{"going on behind entry"}, append(args, "--resume", "--archive", archive+".moved")...)
	wants(t, exitDone, []string{"\nidentical\n"}, "replay", log, "--archive", archive+".moved")
}

// TestArchivingBesideAWriterIsAdvisedWhatWorks: log snapshot refuses a log that is being written to.
func TestArchivingBesideAWriterIsAdvisedWhatWorks(t *testing.T) {
	log, _ := small(t)
	writer, err := boltlog.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	to := filepath.Join(t.TempDir(), "archive")
	seqs := snapshotSeqs(t, log)
	for _, advice := range []string{fmt.Sprintf("of entry %d, give --before that or a later one", seqs[0]), "there is none yet, wait for the first"} {
		archive := []string{"log", "archive", log, "--before", fmt.Sprint(seqs[0] - 1), "--to", to}
		wants(t, exitFailed, []string{"only its writer writes snapshots", "--snapshot-every", advice}, archive...)
		if _, stderr, _ := ran(t, archive...); strings.Contains(stderr, "log snapshot") {
			t.Errorf("it advises what is refused: %s", stderr)
		}
		if err := os.RemoveAll(filepath.Join(log, logs.SnapshotDir)); err != nil {
			t.Fatal(err)
		}
	}
}
