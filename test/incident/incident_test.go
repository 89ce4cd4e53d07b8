package incident_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/test/incident"
)

// TestTheIncidentHasItsNodesAndGangs counts the objects in the files. They are the same every time.
func TestTheIncidentHasItsNodesAndGangs(t *testing.T) {
	read := func(dir, name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	dir, again := filepath.Join(t.TempDir(), "a"), t.TempDir()
	for _, d := range []string{dir, again} {
		if err := incident.Write(d); err != nil {
			t.Fatal(err)
		}
	}
	nodes, workload := read(dir, "nodes.yaml"), read(dir, "workload.yaml")
	if n := strings.Count(nodes, "kind: Node\n"); n != incident.Nodes {
		t.Errorf("%d nodes, want %d", n, incident.Nodes)
	}
	if n := strings.Count(workload, "kind: PodGroup\n"); n != incident.Gangs {
		t.Errorf("%d gangs, want %d", n, incident.Gangs)
	}
	if nodes != read(again, "nodes.yaml") || workload != read(again, "workload.yaml") {
		t.Error("the files differ from one time to the next")
	}
}
