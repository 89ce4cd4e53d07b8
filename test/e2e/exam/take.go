package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
)

// exam is the place where the tests are, and what they are run with.
type exam struct {
	dir       string // the script's
	scratch   string // what it works in
	peerTable []peerRow
	rollcall  string // the program under test
	logs      string // where its logs are while a test runs
}

// patience is the largest number of seconds that a test may take. kube-scheduler as another process had 420; the tests
// that use them up are slow on their own.
const patience = 420

// prepare builds rollcall, and the command that starts it with a log of its own. Several exams may run at a time, of
// different packages.
func (e *exam) prepare(ctx context.Context) (err error) {
	if e.rollcall, err = binaries.Path(ctx, binaries.Rollcall); err != nil {
		return err
	}
	if err := os.MkdirAll(e.kept(), 0o755); err != nil {
		return fmt.Errorf("make the folder of logs: %w", err)
	}
	if e.logs, err = os.MkdirTemp(e.scratch, "logs-"); err != nil {
		return fmt.Errorf("make the folder of logs: %w", err)
	}
	// The tests configure no backoff, which no scheduler takes from a file.
	command := fmt.Sprintf("#!/bin/sh\ndir=$(mktemp -d %q/run-XXXXXX) || exit 1\n"+
		"exec %q run --log \"$dir/log\" --leader-elect=false --secure-port=0 --raise-zero-backoff \"$@\"\n",
		e.logs, e.rollcall)
	if err := os.WriteFile(e.command(), []byte(command), 0o755); err != nil {
		return fmt.Errorf("write the scheduler's command: %w", err)
	}
	return nil
}

// close removes the folder of the logs. Those whose replay is not identical are kept elsewhere.
func (e *exam) close() error {
	if e.logs == "" {
		return nil
	}
	return os.RemoveAll(e.logs)
}

func (e *exam) kept() string    { return filepath.Join(e.scratch, "logs-kept") }
func (e *exam) command() string { return filepath.Join(e.logs, "rollcall-run") }

// take runs one test. If an API server did not start, which happens to one case in a hundred with any scheduler, the
// test is run once more. With readOnly nothing is run: the result of the last run is read.
func (e *exam) take(ctx context.Context, t test, readOnly bool) (outcome, error) {
	if readOnly {
		return e.read(t)
	}
	o, err := e.run(ctx, t)
	if err == nil && o.hookFailed {
		if o, err = e.run(ctx, t); err == nil {
			o.second = true
		}
	}
	return o, err
}

// run runs one test, and replays the logs that its schedulers have left.
func (e *exam) run(ctx context.Context, t test) (outcome, error) {
	begun := time.Now()
	cmd := exec.CommandContext(ctx, filepath.Join(e.dir, "exam"), "run", t.pkg, t.name)
	cmd.Env = append(os.Environ(), "SWAP_SCHEDULER="+e.command(), "EXAM_DIR="+e.scratch,
		fmt.Sprintf("LIMIT=%d", patience))
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	// The script fails if the test does; without a line for the test it could not run it.
	if !bytes.Contains(out, []byte(" in-process=")) {
		return outcome{}, fmt.Errorf("%s could not be run: %w\n%s", t, errors.Join(err), out)
	}
	if err := os.WriteFile(e.result(t, "line"), out, 0o644); err != nil {
		return outcome{}, fmt.Errorf("keep the result of %s: %w", t, err)
	}
	replays, err := e.replay(ctx, t)
	if err != nil {
		return outcome{}, err
	}
	if err := os.WriteFile(e.result(t, "replays"), []byte(replays), 0o644); err != nil {
		return outcome{}, fmt.Errorf("keep the replays of %s: %w", t, err)
	}
	o, err := e.read(t)
	o.took = time.Since(begun)
	return o, err
}

// result is the file of a result that ends with a word.
func (e *exam) result(t test, word string) string {
	return filepath.Join(e.scratch, "results", strings.ReplaceAll(t.pkg, "/", "-")+"."+t.name+"."+word)
}

// replay replays each log, and removes the identical ones. It returns a line for each.
func (e *exam) replay(ctx context.Context, t test) (string, error) {
	logs, err := filepath.Glob(filepath.Join(e.logs, "run-*"))
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, dir := range logs {
		log := filepath.Join(dir, "log")
		if _, err := os.Stat(log); err != nil { // it was ended before it had made one
			if err := os.RemoveAll(dir); err != nil {
				return "", fmt.Errorf("remove a log: %w", err)
			}
			continue
		}
		out, err := exec.CommandContext(ctx, e.rollcall, "replay", log).CombinedOutput()
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err == nil {
			lines.WriteString("identical\n")
			if err := os.RemoveAll(dir); err != nil {
				return "", fmt.Errorf("remove a log: %w", err)
			}
			continue
		}
		keep := filepath.Join(e.kept(), t.name+"."+filepath.Base(dir))
		if err := os.Rename(dir, keep); err != nil {
			return "", fmt.Errorf("keep a log: %w", err)
		}
		fmt.Fprintf(&lines, "%s: %v: %s\n", keep, err, strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", " / "))
	}
	return lines.String(), nil
}

// last reads the results of the last runs of all tests that were ever run.
func (e *exam) last() (all []outcome, err error) {
	for _, r := range e.peerTable {
		if r.ownPlugins {
			continue
		}
		o, err := e.read(r.test)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// read reads the result of the last run of a test.
func (e *exam) read(t test) (outcome, error) {
	line, err := os.ReadFile(e.result(t, "line"))
	if err != nil {
		return outcome{}, fmt.Errorf("%s was not run: %w", t, err)
	}
	log, err := os.ReadFile(e.result(t, "log"))
	if err != nil {
		return outcome{}, fmt.Errorf("the output of %s: %w", t, err)
	}
	replays, err := os.ReadFile(e.result(t, "replays"))
	if err != nil {
		return outcome{}, fmt.Errorf("the replays of %s: %w", t, err)
	}
	o, err := parseOutcome(string(line), string(log))
	if err != nil {
		return outcome{}, err
	}
	for _, r := range strings.Split(strings.TrimSpace(string(replays)), "\n") {
		switch r {
		case "":
		case "identical":
			o.identical++
		default:
			o.diverged = append(o.diverged, r)
		}
	}
	return o, nil
}

// hookFails matches the message of an API server that ends at its start.
var hookFails = regexp.MustCompile(`PostStartHook "[^"]*" failed|PostStartHooks? .* failed`)
