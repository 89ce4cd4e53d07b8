//go:build unix

package app

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// A standing simulation has stopped in the middle, because nobody reads the effects that it reports.
type standing struct {
	t      *testing.T
	log    string
	sim    *exec.Cmd
	stderr bytes.Buffer
	told   *bufio.Reader
}

// simulateUntil starts a simulation that reports some effects and then stops, or nearly: the reported effects are
// durable, and the simulation continues until the pipe is full.
func simulateUntil(t *testing.T, effects int, args ...string) *standing {
	t.Helper()
	dir := t.TempDir()
	workload, pipe := filepath.Join(dir, "jobs.swf"), filepath.Join(dir, "effects")
	var jobs strings.Builder
	for i := range effects + 500 { // two binds each, more than fit into the pipe
		fmt.Fprintf(&jobs, "%d %d -1 600 2 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", i+1, 400*i)
	}
	if err := os.WriteFile(workload, []byte(jobs.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &standing{t: t, log: filepath.Join(dir, "live.log")}
	s.sim = exec.Command(
		"rollcall",
		append(
			[]string{"simulate", "--nodes", "4x4cpu", "--workload", workload, "--log", s.log, "--effects", pipe},
			args...)...)
	s.sim.Stderr = &s.stderr
	if err := s.sim.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.sim.Process.Kill()
		_ = s.sim.Wait()
		_ = f.Close()
	})
	s.told = bufio.NewReader(f)
	for range effects {
		if _, err := s.told.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// end sends it a signal, and waits for its end.
func (s *standing) end(signal os.Signal) {
	s.t.Helper()
	if err := s.sim.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, s.told); err != nil {
		s.t.Fatal(err)
	}
	_ = s.sim.Wait()
}

// noted matches the note of a reader of a log that is being written to.
var noted = regexp.MustCompile(`^rollcall: the log is being written to: read up to entry (\d+)\n$`)

// readUpTo returns the entry up to which a reader says that it has read.
func readUpTo(t *testing.T, note string) int {
	t.Helper()
	match := noted.FindStringSubmatch(note)
	if match == nil {
		t.Fatalf("it says %q, want how far it has read", note)
	}
	last, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func TestTheLogOfARunningSimulationIsRead(t *testing.T) {
	const effects = 100
	for name, segments := range map[string]string{"several segments": "65536", "nothing sealed": "0"} {
		t.Run(name, func(t *testing.T) {
			sim := simulateUntil(t, effects, "--segment-size", segments)
			bundle := filepath.Join(t.TempDir(), "b")
			answers := map[string]string{}
			for _, tc := range []struct {
				args []string
				want string // as a regular expression; %d is the last entry
			}{
				{[]string{"log", "cat", sim.log}, `\n\{"seq":%d,.*\n$`},
				{[]string{"log", "info", sim.log}, `\nentries  %d\n`},
				{[]string{"log", "info", sim.log, "-o", "json"}, `"lastSeq": %d,`},
				{[]string{"log", "export", sim.log, "--out", bundle}, `\nentries   1 to %d\n`},
				{[]string{"log", "verify", sim.log}, `\nwhole up to entry %d\n$`},
				{[]string{"replay", sim.log}, `\nentries    %d\n(.*\n)*identical\n$`},
				{[]string{"explain", sim.log, "group", "default/job-10"}, `default/job-10`},
				{[]string{"explain", sim.log, "pod", "default/job-10-0"}, `default/job-10-0`},
			} {
				cmd := exec.Command("rollcall", tc.args...)
				var note bytes.Buffer
				cmd.Stderr = &note
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("rollcall %v: %v\n%s", tc.args, err, note.String())
				}
				last := readUpTo(t, note.String())
				want := tc.want
				if strings.Contains(want, "%") {
					want = fmt.Sprintf(want, last)
				}
				if !regexp.MustCompile(want).Match(append([]byte("\n"), out...)) {
					t.Errorf("rollcall %v, read up to entry %d, prints no %q:\n%.2000s", tc.args, last, want, out)
				}
				if last < 2*effects {
					t.Errorf("rollcall %v read up to entry %d, and %d binds were told of", tc.args, last, effects)
				}
				answers[strings.Join(tc.args[:2], " ")] = string(out)
			}
			if binds := strings.Count(answers["log cat"], `"kind":"BindResult"`); binds < effects-10 {
				t.Errorf("%d binds were told of, and the log has %d", effects, binds)
			}

			sim.end(os.Interrupt)
			after := string(rollcall(t, "log", "cat", sim.log))
			if !strings.HasPrefix(after, answers["log cat"]) {
				t.Error("what was read while it ran is not the beginning of what it left")
			}
			if bundled := string(
				rollcall(t, "log", "cat", bundle),
			); !strings.HasPrefix(after, bundled) ||
				bundled == "" {
				t.Error("what was exported while it ran is not the beginning of what it left")
			}
		})
	}
}

// A reader has begun, and the simulation ends before the reader has read all the entries that it reported.
func TestAReaderOfASimulationThatEndsReadsOn(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		t.Run(signal.String(), func(t *testing.T) {
			sim := simulateUntil(t, 800)
			cat := exec.Command("rollcall", "log", "cat", sim.log)
			stdout, err := cat.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			stderr, err := cat.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cat.Start(); err != nil {
				t.Fatal(err)
			}
			note, err := bufio.NewReader(stderr).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			last := readUpTo(t, note)
			lines := bufio.NewReader(stdout)
			if _, err := lines.Peek(1); err != nil {
				t.Fatal(err)
			}
			sim.end(signal)
			out, err := io.ReadAll(lines)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(out, []byte("\n")); n != last {
				t.Errorf("it printed %d entries, and said that it would read up to entry %d", n, last)
			}
			if err := cat.Wait(); err != nil {
				t.Error(err)
			}
			if after := rollcall(t, "log", "cat", sim.log); !bytes.HasPrefix(after, out) {
				t.Error("what it printed is not the beginning of what the simulation left")
			}
		})
	}
}

// If damage keeps a scheduler from reading its own log, both the reader and the scheduler report it.
func TestDamageThatASimulationMeetsIsSaidOnBothSides(t *testing.T) {
	sim := simulateUntil(t, 100)
	file := logstest.SegmentOf(sim.log, 1)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name := []byte("job-40-0")
	for at := 0; ; at++ {
		i := bytes.Index(content[at:], name)
		if i < 0 {
			break
		}
		at += i
		if _, err := f.WriteAt([]byte("x"), int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"log", "cat", sim.log}, {"log", "verify", sim.log}, {"replay", sim.log}} {
		out, err := exec.Command("rollcall", args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitDamaged || !strings.Contains(string(out), file) ||
			!strings.Contains(string(out), "checksum is") {
			t.Errorf("rollcall %v: %v, want damage in %s\n%.2000s", args, err, file, out)
		}
	}
	sim.end(os.Kill)
	if want := "read the log for another process: " + file + ": log damaged at entry"; !strings.Contains(
		sim.stderr.String(),
		want,
	) {
		t.Errorf("the simulation says %q, want %q", sim.stderr.String(), want)
	}
}
