//go:build linux

package app

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A command reads a log, and from one read on, the disk answers with EIO for one of the log's files. No command says
// that the log is damaged, or that it may be cut: it ends with exit code 1, and says which part it could not read.
func TestAFileThatCannotBeReadIsNotDamaged(t *testing.T) {
	t.Parallel()
	probe := exec.Command("strace", "-f", "-qq", "-e", "inject=fsync:error=EIO", "true")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("skipped: it takes strace, and the right to trace: %v %s", err, out)
	}
	dir := t.TempDir()
	log, bundle, archive := filepath.Join(dir, "a.db"), filepath.Join(dir, "a.bundle"), filepath.Join(dir, "archive")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("rollcall", args...).CombinedOutput(); err != nil {
			t.Fatalf("rollcall %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	s := newSurvivor(t, 60, "98304")
	simulation := []string{"simulate", "--nodes", s.nodes, "--workload", s.workload, "--log", log, "--segment-size",
		s.segmentSize}
	var files, archived, segments []string
	for try := 0; len(segments) < 3 || len(archived) == 0; try++ { // it depends on the entries that share an append
		if try == 20 {
			t.Fatalf("the log has %d segments, and %d are archived", len(segments), len(archived))
		}
		for _, old := range []string{log, bundle, archive} {
			if err := os.RemoveAll(old); err != nil {
				t.Fatal(err)
			}
		}
		run(append(simulation, "--snapshot-every", "50")...)
		run("log", "export", log, "--out", bundle)
		run("log", "snapshot", log, "--at", "500")
		run("log", "archive", log, "--before", "501", "--to", archive)
		for pattern, found := range map[string]*[]string{
			filepath.Join(log, "*"): &files, filepath.Join(archive, "*.seg"): &archived,
			filepath.Join(log, "*.seg"): &segments,
		} {
			var err error
			if *found, err = filepath.Glob(pattern); err != nil {
				t.Fatal(err)
			}
		}
	}
	between := segments[1 : len(segments)-1] // the first and the last one are enough
	files = slices.DeleteFunc(files, func(file string) bool { return slices.Contains(between, file) })
	files = append(files, archived[0])
	snapshots, err := filepath.Glob(filepath.Join(log, "snapshots", "*.snapshot"))
	if err != nil || len(snapshots) < 3 {
		t.Fatalf("the log has %d snapshots, error %v", len(snapshots), err)
	}
	files = append(files, snapshots[0], snapshots[len(snapshots)-1])
	resume := append(simulation, "--resume")
	commands := [][]string{
		{"log", "info", log}, {"log", "cat", log}, {"log", "verify", log}, {"replay", log},
		{"log", "export", log, "--out", filepath.Join(dir, "b.bundle")}, {"explain", log, "pod", "default/none"},
		resume,
	}
	failed := map[string]int{}
	try := func(file, call string, from int, args []string) {
		t.Helper()
		_ = os.Remove(filepath.Join(dir, "b.bundle"))
		cmd := exec.Command("strace", append([]string{"-f", "-qq", "-o", os.DevNull, "-P", file,
			"-e", fmt.Sprintf("inject=%s:error=EIO:when=%d+", call, from), "rollcall"}, args...)...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		_ = cmd.Run()
		text := fmt.Sprintf("rollcall %s, with every %s of %s from number %d on failing, ends with %s:\n%s",
			strings.Join(args, " "), call, filepath.Base(file), from, cmd.ProcessState, said.String())
		switch cmd.ProcessState.ExitCode() {
		case exitDone, exitUsage: // it has not read the file, or not so far, or does not need it
		case exitFailed:
			if strings.Contains(said.String(), "input/output error") {
				failed[filepath.Base(file)]++
			}
		default:
			t.Error(text)
		}
		if strings.Contains(said.String(), "log damaged") || strings.Contains(said.String(), "--up-to") {
			t.Error(text)
		}
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			continue
		}
		call := "pread64"
		if filepath.Ext(file) != ".seg" {
			call = "read,pread64"
		}
		for _, args := range commands {
			try(file, call, 1, args)
		}
		try(file, call, 4, commands[2])
	}
	for _, args := range [][]string{{"log", "info", bundle}, {"log", "cat", bundle}, {"replay", bundle}} {
		for _, from := range []int{1, 2, 4} {
			try(bundle, "pread64", from, args)
		}
	}
	for _, file := range snapshots { // what could not be read is not removed, nor what is beside it
		if _, err := os.Stat(file); err != nil {
			t.Errorf("a snapshot is gone: %v", err)
		}
	}
	t.Logf("files, and how often a command has failed: %v", failed)
	for _, file := range []string{"ORIGIN", "a.bundle", filepath.Base(archived[0]),
		filepath.Base(snapshots[len(snapshots)-1])} {
		if failed[file] == 0 {
			t.Errorf("no command fails for %s", file)
		}
	}
}
