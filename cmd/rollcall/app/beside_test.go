//go:build unix

package app

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// resume continues a simulation that was stopped, until its end.
func (s *standing) resume() {
	s.t.Helper()
	args := slices.Clone(s.sim.Args[1:])
	at := slices.Index(args, "--effects")
	rollcall(s.t, append(slices.Delete(args, at, at+2), "--resume")...)
}

// A reader of a log that nobody writes to does not hinder a writer, and reads the log as it was.
func TestASimulationIsResumedWhileItsLogIsRead(t *testing.T) {
	sim := simulateUntil(t, 200, "--segment-size", "200000")
	sim.end(os.Interrupt)
	before := rollcall(t, "log", "cat", sim.log)
	cat := exec.Command("rollcall", "log", "cat", sim.log)
	stdout, err := cat.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	if _, err := lines.Peek(1); err != nil {
		t.Fatal(err)
	}
	sim.resume()
	out, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Wait(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(out, before) {
		t.Errorf("it printed %d bytes, and the log had %d when it came", len(out), len(before))
	}
	if after := rollcall(t, "log", "cat", sim.log); !bytes.HasPrefix(after, before) || len(after) == len(before) {
		t.Errorf("the simulation went from %d bytes to %d", len(before), len(after))
	}
	if facts, _, code := verified(t, sim.log); code != exitDone || !facts.Whole {
		t.Errorf("log verify: exit code %d, %+v", code, facts)
	}
}

// A writer waits for a reader that holds the log, as one does while it opens it.
func TestASimulationWaitsForAReaderToLetGo(t *testing.T) {
	sim := simulateUntil(t, 50)
	sim.end(os.Interrupt)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere")) // so that the reader keeps the log
	reader, err := boltlog.OpenReadOnly(sim.log)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	time.AfterFunc(time.Second, func() { _ = reader.Close() })
	sim.resume()
	if took := time.Since(began); took < time.Second {
		t.Errorf("it took %v, and the reader held the log for a second", took)
	}
}
