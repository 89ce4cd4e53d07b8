//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestTheLogOfARunningSimulationIsRead has a simulation stand still in the middle, because nobody takes the effects
// that it tells of, and reads its log meanwhile.
func TestTheLogOfARunningSimulationIsRead(t *testing.T) {
	dir := t.TempDir()
	workload, effects, log := filepath.Join(dir, "jobs.swf"), filepath.Join(dir, "effects"), filepath.Join(dir, "live.log")
	var jobs strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&jobs, "%d %d -1 600 2 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", i+1, 400*i)
	}
	if err := os.WriteFile(workload, []byte(jobs.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(effects, 0o600); err != nil {
		t.Fatal(err)
	}
	sim := exec.Command("rollcall", "simulate", "--nodes", "4x4cpu", "--workload", workload, "--log", log,
		"--segment-size", "65536", "--effects", effects)
	var stderr bytes.Buffer
	sim.Stderr = &stderr
	if err := sim.Start(); err != nil {
		t.Fatal(err)
	}
	// What it has told of is durable; it goes on until the pipe is full, and then waits.
	pipe, err := os.Open(effects)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	told := bufio.NewReader(pipe)
	lines := 0
	for ; lines < 100; lines++ {
		if _, err := told.ReadString('\n'); err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
	}

	run := func(args ...string) (stdout, note string) {
		t.Helper()
		cmd := exec.Command("rollcall", args...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("rollcall %v: %v\n%s", args, err, errs.String())
		}
		return string(out), errs.String()
	}
	cat, note := run("log", "cat", log)
	entries := strings.Count(cat, "\n")
	if binds := strings.Count(cat, `"kind":"BindResult"`); binds < 90 {
		t.Errorf("%d binds were told of, and the log has %d", lines, binds)
	}
	if want := fmt.Sprintf("rollcall: the log is being written to: read up to entry %d\n", entries); note != want {
		t.Errorf("log cat printed %d entries and says %q, want %q", entries, note, want)
	}
	info, _ := run("log", "info", log)
	replay, note := run("replay", log)
	if !strings.Contains(info, "entries  ") || !strings.HasSuffix(replay, "\nidentical\n") || !strings.Contains(note, "read up to entry") {
		t.Errorf("log info:\n%s\nreplay:\n%s%s", info, note, replay)
	}
	if explained, _ := run("explain", log, "group", "default/job-10"); !strings.Contains(explained, "default/job-10") {
		t.Errorf("explain:\n%s", explained)
	}
	if verified, note := run("log", "verify", log); !strings.Contains(verified, "were told by process") || !strings.Contains(verified, "\nwhole up to entry") || !strings.Contains(note, "read up to entry") {
		t.Errorf("log verify:\n%s%s", verified, note)
	}

	if err := sim.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := told.WriteTo(new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	_ = sim.Wait()
	if after, note := run("log", "cat", log); !strings.HasPrefix(after, cat) || note != "" {
		t.Errorf("what was read while it ran is not the beginning of what it left: %s", note)
	}
}
