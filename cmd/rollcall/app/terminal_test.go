//go:build linux

package app

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rollcall-sched/rollcall/internal/termwidth/pty"
	"github.com/rollcall-sched/rollcall/test/incident"
)

// onTerminal runs a command whose outputs are a terminal, and returns the text that the terminal got.
func onTerminal(t *testing.T, columns int, args ...string) string {
	t.Helper()
	terminal := pty.New(t, columns)
	root := NewCommand()
	root.SetArgs(args)
	root.SetOut(terminal.File)
	root.SetErr(terminal.File)
	execute(t.Context(), root)
	return strings.ReplaceAll(terminal.Shown(), "\r\n", "\n")
}

// drawn are the ends of lines, and what removes a line of progress.
var drawn = regexp.MustCompile("\n|\r\x1b\\[K")

// wantFits finds lines that are longer than the terminal.
func wantFits(t *testing.T, columns int, shown string) {
	t.Helper()
	for _, line := range drawn.Split(shown, -1) {
		if utf8.RuneCountInString(line) > columns && !strings.HasPrefix(line, "$ ") {
			t.Errorf("%d columns, %d of them in %q", columns, utf8.RuneCountInString(line), line)
		}
	}
}

func TestOutputFitsTheTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	demo := filepath.Join(t.TempDir(), "demo.db")
	rollcall(t, "demo", "--keep", demo)
	swf, err := filepath.Abs("../../../examples/jobs.swf")
	must(t, err)
	for i, line := range []string{
		"demo", "version", "replay LOG", "log info LOG", "log verify LOG", "audit order LOG",
		"simulate --nodes 16x16cpu --workload SWF --log NEW", "log export LOG --out NEW",
		"explain LOG pod mistyped", "explain LOG pod mistyped --trace", "explain LOG pod llama-0 --trace --all-nodes",
		"explain LOG gang llama", "explain LOG gang wide --at 2026-01-01T00:20:00Z", "explain LOG gang wide",
		"explain", "explain LOG job a/b", "explain LOG pod no-such-pod", "simulate --nodez 1", "replay /no/such/log",
		"events LOG", "events LOG --kind Explosion", "events LOG --gang no-such-gang",
	} {
		file := filepath.Join(t.TempDir(), fmt.Sprint(i))
		args := strings.Fields(strings.NewReplacer("LOG", demo, "SWF", swf, "NEW", file).Replace(line))
		for _, columns := range []int{80, 90, 200} {
			if slices.Contains(args, file) {
				args[slices.Index(args, file)] += "-"
				file += "-"
			}
			shown := onTerminal(t, columns, args...)
			if strings.TrimSpace(shown) == "" {
				t.Errorf("rollcall %s: nothing is shown", line)
			}
			// The names of the test's own files may be longer than a line.
			shown = strings.NewReplacer(demo, "LOG", swf, "SWF", file, "NEW").Replace(shown)
			t.Run(fmt.Sprintf("%s/%d", line, columns), func(t *testing.T) { wantFits(t, columns, shown) })
		}
	}
}

// TestEventsOfTheIncidentFitTheTerminal has longer names, and failures with several reasons.
func TestEventsOfTheIncidentFitTheTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	world, log := t.TempDir(), filepath.Join(t.TempDir(), "incident.db")
	must(t, incident.Write(world))
	rollcall(t, "simulate", "--nodes", filepath.Join(world, "nodes.yaml"), "--workload",
		filepath.Join(world, "workload.yaml"), "--log", log)
	shown := onTerminal(t, 80, "events", log)
	if n := strings.Count(shown, "\n"); n < 300 {
		t.Errorf("there are %d lines", n)
	}
	wantFits(t, 80, shown)
}

// TestAPipeGetsWholeTables compares the longest table of an explanation with the one on a terminal.
func TestAPipeGetsWholeTables(t *testing.T) {
	t.Setenv("COLUMNS", "60")
	demo := filepath.Join(t.TempDir(), "demo.db")
	rollcall(t, "demo", "--keep", demo)
	ask := []string{"explain", demo, "gang", "wide", "--at", "2026-01-01T00:20:00Z"}
	whole := string(rollcall(t, ask...))
	const row = "2026-01-01T00:20:00Z   pod default/sweep-1     0         1     8 cpu, 32Gi memory, " +
		"2 nvidia.com/gpu  Unschedulable              BestEffort: the gang waited for room for all of it\n"
	if !strings.Contains(whole, row) || strings.Contains(whole, "…") {
		t.Errorf("a pipe got:\n%s", whole)
	}
	if shown := onTerminal(t, 200, ask...); strings.Contains(shown, row) || !strings.Contains(shown, "…") {
		t.Errorf("a terminal of 60 COLUMNS got:\n%s", shown)
	}
	t.Setenv("COLUMNS", "300")
	if shown := onTerminal(t, 80, ask...); !strings.Contains(shown, row) {
		t.Errorf("a terminal of 300 COLUMNS got:\n%s", shown)
	}
}

func TestALineOfProgressFitsTheScreenWhateverCOLUMNSSays(t *testing.T) {
	t.Setenv("COLUMNS", "200")
	terminal := pty.New(t, 50)
	p := newProgress(terminal.File)
	p.show("at 1h56m25s: pods 931/931, 931 bound, 675 ended, %d decisions, %d on disk", 945, 4656)
	p.drawn = time.Now().Add(-time.Second)
	p.show("short\x1b")
	p.done()
	p.done()
	want := "\r\x1b[Kat 1h56m25s: pods 931/931, 931 bound, 675 ended…\r\x1b[Kshort\\x1b\r\x1b[K"
	if got := terminal.Shown(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheDemoLeavesNoProgressOnTheTerminal(t *testing.T) {
	shown := onTerminal(t, 80, "demo")
	for line := range strings.SplitSeq(shown, "\n") {
		if i := strings.LastIndex(line, "\r\x1b[K"); i >= 0 {
			line = line[i+len("\r\x1b[K"):]
		}
		if strings.HasPrefix(line, "entry ") {
			t.Errorf("a line of progress stays: %q", line)
		}
	}
}

func TestHelpIsNarrowerOnANarrowTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	shown := onTerminal(t, 60, "log", "--help")
	about, _, _ := strings.Cut(onTerminal(t, 60, "replay", "--help"), "\nUsage:")
	wantFits(t, 60, about)
	if _, commands, _ := strings.Cut(shown, "Available Commands:"); commands != "" {
		wantFits(t, 60, commands)
	}
	var narrow, wide strings.Builder
	for to, width := range map[*strings.Builder]int{&narrow: 80, &wide: 300} {
		to.WriteString(onTerminal(t, width, "explain", "--help"))
	}
	if narrow.String() != wide.String() {
		t.Errorf("the help of a wide terminal is another:\n%s", wide.String())
	}
}
