package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadmeShowsWhatTheDemoPrints compares all of it except the speed of the machine.
func TestReadmeShowsWhatTheDemoPrints(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	must(t, err)
	_, shown, _ := strings.Cut(string(readme), "It prints:\n\n```\n")
	shown, _, _ = strings.Cut(shown, "```\n")
	printed, err := exec.Command("rollcall", "demo").Output()
	must(t, err)
	speed := regexp.MustCompile(`(?m)( in [0-9.]+s of real time: [0-9]+ a second| [0-9.]+m?s \([0-9]+ decisions/s\))$`)
	want, got := speed.ReplaceAllString(shown, ""), speed.ReplaceAllString(string(printed), "")
	if diff := cmp.Diff(
		strings.Split(strings.TrimSpace(want), "\n"),
		strings.Split(strings.TrimSpace(got), "\n"),
	); diff != "" {
		t.Errorf("README shows another demo (- README, + rollcall demo):\n%s", diff)
	}
}

// TestReadmeShowsTheDemosPlot compares the picture in docs with the demo's plot.
func TestReadmeShowsTheDemosPlot(t *testing.T) {
	shown, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "demo.svg"))
	must(t, err)
	drawn := filepath.Join(t.TempDir(), "demo.svg")
	out, err := exec.Command("rollcall", "demo", "--plot", drawn).CombinedOutput()
	if err != nil {
		t.Fatalf("rollcall demo --plot: %v\n%s", err, out)
	}
	got, err := os.ReadFile(drawn)
	must(t, err)
	if diff := cmp.Diff(string(shown), string(got)); diff != "" {
		t.Errorf("docs/demo.svg is another plot (- docs, + rollcall demo --plot docs/demo.svg):\n%s", diff)
	}
}

// TestReadmesCommandsWork runs the commands that README has under "Use it", line by line, except the measurement at its
// end.
func TestReadmesCommandsWork(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	must(t, err)
	_, section, _ := strings.Cut(string(readme), "\n## Use it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	dir := t.TempDir()
	must(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join("..", "..", "..", "examples"))))
	ran := 0
	for line := range strings.Lines(section) {
		command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    rollcall ")
		if _, err := exec.LookPath(
			"jq",
		); !ok || strings.HasPrefix(command, "bench ") ||
			err != nil && strings.Contains(command, "| jq ") {
			continue
		}
		sh := exec.Command("sh", "-c", "rollcall "+command)
		sh.Dir = dir
		if out, err := sh.CombinedOutput(); err != nil {
			t.Errorf("rollcall %s: %v\n%s", command, err, out)
		}
		ran++
	}
	if ran < 15 {
		t.Errorf("README has %d commands", ran)
	}
}

// TestReadmesFirstCommandWorks runs the command in README's first ten lines, with a kubectl that prints
// examples/cluster.json if it is asked for all namespaces in JSON.
func TestReadmesFirstCommandWorks(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	must(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	must(t, err)
	command := ""
	for _, line := range strings.SplitN(string(readme), "\n", 11)[:10] {
		if strings.HasPrefix(line, "    kubectl get ") {
			command = line
		}
	}
	dir := t.TempDir()
	kubectl := "#!/bin/sh\ncase \"$*\" in 'get '*' -A -o json') exec cat " + root +
		"/examples/cluster.json;; esac\nexit 1\n"
	must(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o700))
	sh := exec.Command("sh", "-c", command)
	sh.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := sh.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Pod ml/trainer-0 is pending: none of the 1 nodes takes it") &&
		!strings.Contains(string(out), "Pod ml/trainer-0 is pending: the only node") {
		t.Errorf("%q: %v\n%s", command, err, out)
	}
}
