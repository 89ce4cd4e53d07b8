package lint

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// quoted is a word in backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

// TestArchitectureHasTheRoomsAndFloorsOfThisPackage compares the table of rooms in docs/ARCHITECTURE.md, and its
// sentence on rooms that are planned, with the variable rooms. The table has to name test support as such.
func TestArchitectureHasTheRoomsAndFloorsOfThisPackage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(absRoot(t), "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Packages and floors\n")
	section, _, _ = strings.Cut(section, "\n## ")
	inPage := map[string]string{}
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, "planned and empty so far.") {
			for _, name := range quoted.FindAllStringSubmatch(line, -1) {
				inPage[name[1]] = "planned"
			}
		}
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[2], -1) {
			dir := strings.ReplaceAll(name[1], "…", "...")
			if inPage[dir] != "" {
				t.Errorf("docs/ARCHITECTURE.md has the room %s twice", dir)
			}
			inPage[dir] = "floor " + strings.TrimSpace(cells[1])
			if strings.HasPrefix(strings.TrimSpace(cells[3]), "for tests:") {
				inPage[dir] += ", for tests"
			}
		}
	}
	here := map[string]string{}
	for _, r := range rooms {
		here[r.dir] = "floor " + floorName(r.floor)
		if r.testSupport {
			here[r.dir] += ", for tests"
		}
		if r.planned {
			here[r.dir] = "planned"
		}
	}
	all := maps.Clone(here)
	maps.Copy(all, inPage)
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		if here[dir] != inPage[dir] {
			t.Errorf("%s: docs/ARCHITECTURE.md has %q, and internal/lint/floors.go %q", dir, inPage[dir], here[dir])
		}
	}
}

// floorName returns the name of a floor in the docs.
func floorName(floor int) string {
	switch floor {
	case edge:
		return "edge"
	case top:
		return "top"
	case side:
		return "side"
	}
	return fmt.Sprint(floor)
}
