package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rollcall-sched/rollcall/cmd/rollcall/app"
)

// TestMain has two programs for the tests to run: this one, and one without the plugin.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"rollcall-racks": main,
		"rollcall":       func() { os.Exit(app.Run(app.NewCommand())) },
	})
}

// inputs are the files that the README's commands read.
var inputs = []string{"nodes.yaml", "workload.yaml", "scheduler.yaml", "pods.yaml", "ports.yaml"}

// TestScripts runs the command lines in testdata/script beside the example's files.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error { return copyTo(env.WorkDir) },
	})
}

func copyTo(dir string) error {
	for _, name := range inputs {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// block is a block of code in the README, and exitCode what a command in it says that it ends with.
var (
	block    = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$")
	exitCode = regexp.MustCompile(`# exit code (\d)$`)
)

// TestTheReadmesCommandsPrintWhatItShows follows the README from top to bottom. Each line of a text block must be in
// the output of the commands in the block before it, in order.
func TestTheReadmesCommandsPrintWhatItShows(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := copyTo(dir); err != nil {
		t.Fatal(err)
	}
	printed, shown := "", 0
	for _, found := range block.FindAllStringSubmatch(string(readme), -1) {
		kind, text := found[1], found[2]
		if kind == "sh" {
			printed = ""
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if kind == "text" {
				_, rest, ok := strings.Cut(printed, line)
				if !ok {
					t.Errorf("not printed, or not in this order: %q\n%s", line, printed)
				}
				printed, shown = rest, shown+1
			} else if !strings.HasPrefix(line, "go build") { // TestMain's program is this one
				printed += run(t, dir, line)
			}
		}
	}
	if shown < 10 {
		t.Errorf("%d lines of output found, want 10 or more", shown)
	}
}

// run runs a line of the README and returns its output.
func run(t *testing.T, dir, line string) string {
	t.Helper()
	sh := exec.Command("sh", "-c", line)
	sh.Dir = dir
	out, err := sh.CombinedOutput()
	want := "0"
	if m := exitCode.FindStringSubmatch(line); m != nil {
		want = m[1]
	}
	if sh.ProcessState == nil || sh.ProcessState.ExitCode() != int(want[0]-'0') {
		t.Errorf("%s: %v, want exit code %s\n%s", line, err, want, out)
	}
	return string(out)
}
