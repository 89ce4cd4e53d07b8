package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/logs"
)

const (
	// hangs is the longest time that a command may take if it has nothing to wait for.
	hangs = 20 * time.Second
	// mostMemory is the largest number of bytes of memory that a command may take on a small log.
	mostMemory = 1 << 30
)

// badFiles make, at a path, the things that may be found in the place of a file.
var badFiles = map[string]func(path string) error{
	"a FIFO":            func(path string) error { return syscall.Mkfifo(path, 0o600) },
	"a link to a FIFO":  linkToFIFO,
	"a link to zeros":   func(path string) error { return os.Symlink("/dev/zero", path) },
	"a link to nothing": func(path string) error { return os.Symlink("nowhere", path) },
	"a link to itself":  func(path string) error { return os.Symlink(filepath.Base(path), path) },
	"a directory":       func(path string) error { return os.Mkdir(path, 0o700) },
	"60 GB of nothing": func(path string) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 60<<30))
	},
}

func linkToFIFO(path string) error {
	return errors.Join(syscall.Mkfifo(path+".fifo", 0o600), os.Symlink(path+".fifo", path))
}

// bounded runs a command that must not hang and must not eat memory.
func bounded(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	cmd := exec.CommandContext(ctx, "rollcall", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Errorf("rollcall %s hangs", strings.Join(args, " "))
		return out.String(), -1
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if ok && usage.Maxrss > mostMemory>>10 {
		t.Errorf("rollcall %s takes %d MB", strings.Join(args, " "), usage.Maxrss>>10)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// copied returns a copy of the log.
func copied(t *testing.T, log string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(log))
	must(t, os.CopyFS(to, os.DirFS(log)))
	return to
}

// Whatever is in the place of a file of a log, every command ends, and names the file if it cannot do without. In make
// test each case has two of the commands.
func TestFilesThatAreNoFilesHangNothing(t *testing.T) {
	original, simulate := small(t)
	segments, err := filepath.Glob(filepath.Join(original, "*.seg"))
	must(t, err)
	snapshots, err := filepath.Glob(filepath.Join(original, logs.SnapshotDir, "*.snapshot"))
	must(t, err)
	place := func(path string) string {
		name, err := filepath.Rel(original, path)
		must(t, err)
		return name
	}
	places := []struct {
		name string
		want bool // no command does without it
	}{
		{place(segments[0]), true},
		{place(segments[len(segments)-1]), true},
		{"ORIGIN", true},
		{"LOCK", true},
		{place(snapshots[len(snapshots)-1]), false},
		{logs.SnapshotDir, false},
	}
	n := 0
	for _, at := range places {
		for _, kind := range slices.Sorted(maps.Keys(badFiles)) {
			wanted := at.want && (at.name != "LOCK" || kind != "60 GB of nothing") // nobody reads what is in it
			n++
			t.Run(at.name+" is "+kind, func(t *testing.T) {
				log := copied(t, original)
				must(t, os.RemoveAll(filepath.Join(log, at.name)))
				must(t, badFiles[kind](filepath.Join(log, at.name)))
				commands := [][]string{
					{"log", "info", log}, {"log", "cat", log}, {"log", "verify", log}, {"replay", log},
					{"explain", log, "pod", "default/job-1-0"},
					{"log", "export", log, "--out", filepath.Join(t.TempDir(), "out.bundle")},
					append(replaced(simulate, original, log), "--resume"),
				}
				for i, args := range commands {
					if os.Getenv("ROLLCALL_WHOLE") == "" && i != n%len(commands) && i != (n+3)%len(commands) {
						continue
					}
					output, code := bounded(t, args...)
					named := strings.Contains(output, filepath.Base(at.name))
					if wanted && (!named || code != exitFailed && code != exitDamaged) {
						t.Errorf("rollcall %s: exit code %d\n%.600s", strings.Join(args, " "), code, output)
					}
				}
			})
		}
	}
}

// replaced returns the arguments with another one in the place of one.
func replaced(args []string, old, by string) []string {
	args = slices.Clone(args)
	args[slices.Index(args, old)] = by
	return args
}

// A log came with links to files of its reader: the program writes nothing to those files.
func TestNothingIsWrittenThroughLinksThatCameWithALog(t *testing.T) {
	original, simulate := small(t)
	segments, err := filepath.Glob(filepath.Join(original, "*.seg"))
	must(t, err)
	last := rollcall(t, "log", "info", original, "-o", "json")
	var info struct {
		Last uint64 `json:"lastSeq"`
	}
	must(t, json.Unmarshal(last, &info))
	live := filepath.Base(segments[len(segments)-1])
	for name, link := range map[string]func(log, victim string) error{
		"LOCK": func(log, victim string) error {
			return errors.Join(os.Remove(filepath.Join(log, "LOCK")), os.Symlink(victim, filepath.Join(log, "LOCK")))
		},
		"the live segment": func(log, victim string) error {
			segment := filepath.Join(log, live)
			return errors.Join(os.Rename(segment, victim), os.Symlink(victim, segment))
		},
		"a snapshot that is being made": func(log, victim string) error {
			return os.Symlink(victim, logs.SnapshotsOf(log).File(info.Last)+".tmp")
		},
		"the directory of snapshots": func(log, victim string) error {
			dir := filepath.Join(log, logs.SnapshotDir)
			return errors.Join(os.RemoveAll(dir), os.Symlink(filepath.Dir(victim), dir))
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, victim := copied(t, original), filepath.Join(t.TempDir(), "victim")
			must(t, os.WriteFile(victim, []byte("mine"), 0o600))
			must(t, link(log, victim))
			before, err := os.ReadFile(victim)
			must(t, err)
			bounded(t, append(replaced(simulate, original, log), "--resume")...)
			bounded(t, "log", "snapshot", log)
			if after, err := os.ReadFile(victim); err != nil || !bytes.Equal(after, before) {
				t.Errorf("the file that %s leads to was written to (%v)", name, err)
			}
			if entries, err := os.ReadDir(filepath.Dir(victim)); err != nil || len(entries) != 1 {
				t.Errorf("beside the file there is something now: %v, %v", entries, err)
			}
		})
	}
}

// Keys, checkpoints, proofs and bundles that are named on the command line.
func TestNamedFilesThatAreNoFilesHangNothing(t *testing.T) {
	log, _ := small(t)
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	rollcall(t, "log", "keygen", "--name", "a", "--out", key)
	for _, kind := range slices.Sorted(maps.Keys(badFiles)) {
		bad := filepath.Join(dir, strings.ReplaceAll(kind, " ", "-"))
		must(t, badFiles[kind](bad))
		for _, args := range [][]string{
			{"log", "checkpoint", log, "--key", bad},
			{"log", "prove", log, "--seq", "5", "--checkpoint", bad},
			{"log", "check", bad, "--key", key + ".pub"},
			{"log", "verify", log, "--checkpoint", bad, "--key", key + ".pub"},
			{"log", "info", bad},
			{"log", "import", bad, "--log", filepath.Join(dir, "new.log")},
		} {
			output, code := bounded(t, args...)
			if code == exitDone || !strings.Contains(output, filepath.Base(bad)) {
				t.Errorf("rollcall %s: exit code %d\n%.600s", strings.Join(args, " "), code, output)
			}
		}
	}
}
