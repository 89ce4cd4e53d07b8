package app

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/archive"
	"github.com/rollcall-sched/rollcall/plugins"
)

// sizesOf returns the size of a log's sealed segments, and the size of the segment that is written to.
func sizesOf(t *testing.T, log string) (sealed, live int64) {
	t.Helper()
	files, err := boltlog.OwnFiles(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		sealed += f.Bytes
	}
	live = files[len(files)-1].Bytes
	return sealed - live, live
}

// stock are the options of a program without plugins of its own.
var stock = logs.Options{Registry: plugins.NewRegistry()}

// TestALogThatIsKeptWithinASizeStaysWhole removes the oldest segments of a log beside its writer and without one: the
// log is within the size, verifies, replays from its snapshot on, and the simulation continues.
func TestALogThatIsKeptWithinASizeStaysWhole(t *testing.T) {
	for _, away := range []string{"", "archive"} {
		log, args := small(t, "--until", "10m")
		writer, err := boltlog.Open(log)
		if err != nil {
			t.Fatal(err)
		}
		sealed, live := sizesOf(t, log)
		keep := archive.Retention{Options: stock, Bytes: live + sealed/2}
		if away != "" {
			keep.Dir = filepath.Join(t.TempDir(), away)
		}
		report, err := archive.Retain(t.Context(), log, keep)
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		if after, _ := sizesOf(t, log); report.Segments == 0 || after > sealed/2 || report.Snapshot < report.Last {
			t.Errorf("the log had %d bytes and has %d: %+v", sealed, after, report)
		}
		if away == "" {
			if seqs := snapshotSeqs(t, log); seqs[0] < report.Last {
				t.Errorf("there are snapshots of entries %d, and the log begins behind entry %d", seqs, report.Last)
			}
		}
		wants(t, exitDone, []string{"whole"}, "log", "verify", log)
		if away == "" {
			wants(t, exitDone, []string{"identical"}, "replay", log)
		} else {
			wants(t, exitDone, []string{"going on behind entry"}, append(args, "--resume", "--archive", keep.Dir)...)
		}
		again, err := archive.Retain(t.Context(), log, archive.Retention{Options: stock, Bytes: sealed + live})
		if err != nil || again.Segments != 0 {
			t.Errorf("a second time: %+v, error %v", again, err)
		}
	}
}

// The age of an entry is the time from it to the log's last entry, whatever this machine's clock says.
func TestOldEntriesGoByTheirAge(t *testing.T) {
	log, _ := small(t, "--until", "10m")
	files, err := boltlog.OwnFiles(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		age  time.Duration
		goes bool
	}{{720 * time.Hour, false}, {time.Hour, false}, {2 * time.Minute, true}} {
		report, err := archive.Retain(t.Context(), log, archive.Retention{Options: stock, Age: tc.age})
		if err != nil || (report.Segments > 0) != tc.goes || len(report.Leaps) > 0 {
			t.Errorf("older than %s: %+v, error %v", tc.age, report, err)
		}
	}
	if left, err := boltlog.OwnFiles(log); err != nil || len(left) < 2 || len(left) >= len(files) {
		t.Errorf("%d segments are left of %d, error %v", len(left), len(files), err)
	}
}
