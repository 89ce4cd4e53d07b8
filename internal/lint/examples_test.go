package lint

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestExamplesHaveTheVersionsOfTheModule compares the go.mod of each example with the go.mod of Rollcall: a plugin is
// built with the Kubernetes whose plugins Rollcall runs.
func TestExamplesHaveTheVersionsOfTheModule(t *testing.T) {
	versions := map[string]string{}
	for _, r := range requirementsOf(t, ".") {
		versions[r.Mod.Path] = r.Mod.Version
	}
	for _, dir := range examples(t) {
		for _, r := range requirementsOf(t, dir) {
			want, ok := versions[r.Mod.Path]
			if ok && r.Mod.Version != want {
				t.Errorf("%s/go.mod requires %s, and Rollcall %s", dir, r.Mod, want)
			}
		}
	}
}

func requirementsOf(t *testing.T, dir string) []*modfile.Require {
	t.Helper()
	file := filepath.Join(absRoot(t), dir, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := modfile.Parse(file, text, nil)
	if err != nil || len(parsed.Require) == 0 {
		t.Fatalf("%s: %d requirements (%v)", file, len(parsed.Require), err)
	}
	return parsed.Require
}

// TestMakeTestRunsTheExamples looks for each of them in the Makefile's targets test and lint-vet.
func TestMakeTestRunsTheExamples(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(absRoot(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range examples(t) {
		for _, verb := range []string{"test", "vet"} {
			command := "\tcd " + filepath.ToSlash(dir) + " && $(GO) " + verb + " $(CHECKED) ./...\n"
			if !bytes.Contains(text, []byte(command)) {
				t.Errorf("the Makefile does not have %q", strings.TrimSpace(command))
			}
		}
	}
}
