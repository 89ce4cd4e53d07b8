package app

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// TestAnInterruptedSimulationLeavesALogThatReplays interrupts a simulation, or ends it with SIGTERM, as soon as its log
// exists, and once the log has grown.
func TestAnInterruptedSimulationLeavesALogThatReplays(t *testing.T) {
	dir := t.TempDir()
	workload := filepath.Join(dir, "long.swf")
	var jobs strings.Builder
	for i := range 20000 { // more than can be simulated before the interrupt comes
		fmt.Fprintf(&jobs, "%d %d -1 600 6 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", i+1, i)
	}
	if err := os.WriteFile(workload, []byte(jobs.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for changes, signal := range map[int]os.Signal{0: os.Interrupt, 50: os.Interrupt, 30: syscall.SIGTERM} {
		log := filepath.Join(dir, fmt.Sprintf("after-%d.db", changes))
		cmd := exec.Command("rollcall", "simulate", "--nodes", "4x4cpu", "--workload", workload, "--log", log)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitChanges(t, logstest.SegmentOf(log, 1), changes)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed ||
			!strings.Contains(stderr.String(), "rollcall: interrupted") {
			t.Errorf(
				"interrupted after %d changes of its log the command ends with %v and says %q",
				changes,
				err,
				stderr.String(),
			)
		}
		if out, code := replayed(t, log); code != exitDone || !bytes.HasSuffix(out, []byte("\nidentical\n")) {
			t.Errorf("replay of what it left: exit code %d\n%s", code, out)
		}
	}
}

// awaitChanges returns when the log exists and that many changes of it were seen.
func awaitChanges(t *testing.T, path string, changes int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	var last time.Time
	for seen := -1; seen < changes; {
		if written := lastWritten(path); written.After(last) {
			last = written
			seen++
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has not changed %d times in a minute", path, changes)
		}
		time.Sleep(time.Millisecond)
	}
}

// lastWritten returns when any file of the log at path was last written to, the zero time if there is none.
func lastWritten(path string) time.Time {
	var last time.Time
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is not there yet, or was there for a moment only
		}
		if info, err := d.Info(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
		return nil
	})
	return last
}
