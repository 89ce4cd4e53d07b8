package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmesCommandsWork runs what README has under "Use it", line by line, but for the measurement at its end.
func TestReadmesCommandsWork(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	must(t, err)
	_, section, _ := strings.Cut(string(readme), "\n## Use it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	dir := t.TempDir()
	var jobs strings.Builder
	for i := range 200 { // more than 4711 entries, in more than three days
		fmt.Fprintf(&jobs, "%d %d -1 1200 %d -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", i+1, 1500*i, 1+i%16)
	}
	must(t, os.WriteFile(filepath.Join(dir, "jobs.swf"), []byte(jobs.String()), 0o600))
	ran := 0
	for line := range strings.Lines(section) {
		command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    rollcall ")
		if _, err := exec.LookPath("jq"); !ok || strings.HasPrefix(command, "bench ") || err != nil && strings.Contains(command, "| jq ") {
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
