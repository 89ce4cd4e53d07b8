package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/archive"
)

func TestASimulationIsResumedWithWhatWasArchived(t *testing.T) {
	log, args := small(t, "--until", "10m")
	away := filepath.Join(t.TempDir(), "archive")
	seqs := snapshotSeqs(t, log)
	facts, _ := factsOf[archive.Report](
		t,
		"log",
		"archive",
		log,
		"--before",
		fmt.Sprint(seqs[len(seqs)-1]+1),
		"--to",
		away,
	)
	if facts.Segments == 0 {
		t.Fatalf("%+v", facts)
	}
	if err := os.Rename(away, away+".moved"); err != nil {
		t.Fatal(err)
	}
	wants(
		t,
		exitFailed,
		[]string{
			"cannot resume: the whole log is needed",
			"entry 1 was archived in " + away,
			"say with --archive where they are now",
		},
		append(args, "--resume")...)
	wants(t, exitUsage, []string{"--archive needs --resume"}, append(args, "--archive", away)...)
	wants(t, exitDone, []string{"going on behind entry"}, append(args, "--resume", "--archive", away+".moved")...)
	wants(t, exitDone, []string{"\nidentical\n"}, "replay", log, "--archive", away+".moved")
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
	for _, advice := range []string{fmt.Sprintf("of entry %d, give --before that or a later one", seqs[0]),
		"there is none yet, wait for the first"} {
		command := []string{"log", "archive", log, "--before", fmt.Sprint(seqs[0] - 1), "--to", to}
		wants(t, exitFailed, []string{"only its writer writes snapshots", "--snapshot-every", advice}, command...)
		if _, stderr, _ := ran(t, command...); strings.Contains(stderr, "log snapshot") {
			t.Errorf("it advises what is refused: %s", stderr)
		}
		if err := os.RemoveAll(filepath.Join(log, logs.SnapshotDir)); err != nil {
			t.Fatal(err)
		}
	}
}
