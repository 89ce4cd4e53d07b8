package app

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// surroundings are settings under which decisions must be the same: one processor or two, garbage collected all the
// time or never. (A full trace makes more garbage than a machine has memory; the limit is for that.)
var surroundings = [][]string{
	{"GOMAXPROCS=1", "GOGC=10"},
	{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=4GiB"},
	{"GOMAXPROCS=2", "GOGC=10"},
	{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=4GiB"},
}

// realWorkload is a workload of the shared data on the nodes that it is for.
type realWorkload struct {
	name, nodes, workload string
	header                int // how many lines come before the first job
}

func realWorkloads(t *testing.T) []realWorkload {
	t.Helper()
	return []realWorkload{
		{
			"openb",
			sharedData(t, "openb/openb_node_list_all_node.csv"),
			sharedData(t, "openb/openb_pod_list_default.csv"),
			1,
		},
		{"lublin_256", "16x16cpu", sharedData(t, "swf/lublin_256.swf"), lublinHeader},
	}
}

const noSharedData = "skipped: the workload data is not beside the project (../shared/data)"

// TestSimulationsInFreshProcessesWriteTheSameLog simulates the beginnings of two real workloads, each time in a new
// process, and replays each log in another one. Except for the epochs' UUIDs log cat prints the same bytes.
func TestSimulationsInFreshProcessesWriteTheSameLog(t *testing.T) {
	for _, w := range realWorkloads(t) {
		t.Run(w.name, func(t *testing.T) {
			if w.nodes == "" || w.workload == "" {
				t.Skip(noSharedData)
			}
			w.workload = head(t, w.workload, w.header+150)
			var first string
			for i, env := range surroundings {
				log := filepath.Join(t.TempDir(), "log.db")
				w.simulate(t, env, log)
				digest := catDigest(t, log)
				if i == 0 {
					first = digest
				} else if digest != first {
					t.Errorf(
						"with %s the log is another one than with %s: %s, %s",
						strings.Join(env, " "),
						strings.Join(surroundings[0], " "),
						digest,
						first,
					)
				}
				wantIdentical(t, surroundings[len(surroundings)-1-i], log)
			}
		})
	}
}

// TestSoakRealWorkloads is the same with the whole workloads, and runs the accountant over the whole logs: some ten
// minutes. "make soak" runs it.
func TestSoakRealWorkloads(t *testing.T) {
	if os.Getenv("ROLLCALL_SOAK") != "1" {
		t.Skip("skipped: the whole workloads take many minutes; set ROLLCALL_SOAK=1, or run make soak")
	}
	for _, w := range realWorkloads(t) {
		t.Run(w.name, func(t *testing.T) {
			if w.nodes == "" || w.workload == "" {
				t.Skip(noSharedData)
			}
			w.soak(t)
		})
	}
}

func (w realWorkload) soak(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "first.db")
	timed(t, "simulate", func() { t.Logf("\n%s", w.simulate(t, nil, first)) })
	var digest string
	timed(t, "log cat", func() { digest = catDigest(t, first) })
	t.Logf("log cat: %s", digest)
	timed(t, "replay", func() { t.Logf("\n%s", wantIdentical(t, nil, first)) })
	timed(t, "audit", func() {
		a := audited(t, first)
		t.Logf(
			"%d pods bound, %d of them of gangs, %d releases: no node over its allocatable, no gang in part",
			a.bound,
			a.gangsBound,
			a.released,
		)
		if a.bound == 0 {
			t.Error("nothing is bound: nothing was tested")
		}
	})
	for _, env := range append([][]string{nil}, surroundings...) {
		log := filepath.Join(dir, "again.db")
		timed(t, "simulate again, "+strings.Join(append(env, "from scratch"), " "), func() { w.simulate(t, env, log) })
		if again := catDigest(t, log); again != digest {
			t.Errorf("the log is another one: %s", again)
		}
		if err := os.RemoveAll(log); err != nil {
			t.Fatal(err)
		}
	}
	timed(t, "replay, "+strings.Join(surroundings[0], " "), func() { wantIdentical(t, surroundings[0], first) })
}

func timed(t *testing.T, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	t.Logf("%s: %s", what, time.Since(began).Round(10*time.Millisecond))
}

// simulate runs the workload from scratch and returns the summary.
func (w realWorkload) simulate(t *testing.T, env []string, log string) []byte {
	t.Helper()
	return rollcallIn(t, env, "simulate", "--nodes", w.nodes, "--workload", w.workload, "--log", log)
}

func wantIdentical(t *testing.T, env []string, log string) []byte {
	t.Helper()
	out := rollcallIn(t, env, "replay", log)
	if !bytes.HasSuffix(out, []byte("\nidentical\n")) ||
		bytes.Contains(out, []byte("the log ends before everything was decided")) {
		t.Errorf("replay with %s says:\n%s", strings.Join(env, " "), out)
	}
	return out
}

// rollcallIn runs the command in a process of its own, with env added to the environment of this process.
func rollcallIn(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("rollcall", args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s rollcall %s: %v\n%s", strings.Join(env, " "), strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// catEach calls f with each line of the output of log cat.
func catEach(t *testing.T, log string, f func(line []byte)) {
	t.Helper()
	cmd := exec.Command("rollcall", "log", "cat", log)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stdout.Close() // if f gave up before the end
		_ = cmd.Wait()
	}()
	r := bufio.NewReaderSize(stdout, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			f(line)
		}
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("rollcall log cat %s: %v", log, err)
	}
}

// catDigest digests the output of log cat, without the epochs' UUIDs.
func catDigest(t *testing.T, log string) string {
	t.Helper()
	sum, lines, size := sha256.New(), 0, 0
	catEach(t, log, func(line []byte) {
		if bytes.Contains(line, []byte(`"kind":"EpochStarted"`)) {
			line = epochID.ReplaceAll(line, []byte(`$1""`))
		}
		sum.Write(line)
		lines, size = lines+1, size+len(line)
	})
	return fmt.Sprintf("%d entries, %d bytes, %x", lines, size, sum.Sum(nil)[:8])
}
