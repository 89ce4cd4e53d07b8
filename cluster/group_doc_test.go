package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every row of the tables in docs/GANGS.md names an existing test or transcript. Every label and annotation that is
// read has a row.
func TestEveryRowAboutGangsNamesATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "GANGS.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	name := regexp.MustCompile("`(Test[A-Za-z0-9]+|[a-z_]+/[a-z_]+\\.txt)`")
	for _, found := range name.FindAllStringSubmatch(string(text), -1) {
		exists := tests[found[1]]
		if strings.HasSuffix(found[1], ".txt") {
			_, err := os.Stat(filepath.Join("..", "test", "transcripts", "testdata", found[1]))
			exists = err == nil
		}
		if !exists {
			t.Errorf("there is no %s", found[1])
		}
	}
	footnotes := map[string]bool{} // footnotes that name a test, as [^1]
	for _, found := range regexp.MustCompile(`(?m)^(\[\^\d+\]): (.*)$`).FindAllStringSubmatch(string(text), -1) {
		footnotes[found[1]] = name.MatchString(found[2])
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		first, last := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[len(cells)-1])
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(first, "**") || first == "API and field" ||
			first == "Contradiction" || first == "`ended`" {
			continue // no table, or the head of one or of a part of it
		}
		rows++
		if !footnotes[last] && !name.MatchString(last) {
			t.Errorf("nothing is named that shows the row %q: %s", first, last)
		}
	}
	if rows < 25 {
		t.Errorf("%d rows were found", rows)
	}
	for _, key := range []string{koordinatorTotal, koordinatorWaitingTime, koordinatorMode, koordinatorGroups,
		koordinatorMatchPolicy, kueueTotal, volcanoMin} {
		if !strings.Contains(string(text), "annotation `"+key+"`") {
			t.Errorf("no row has the annotation %s", key)
		}
	}
	for _, n := range namings {
		if !strings.Contains(string(text), "`"+n.key+"`") {
			t.Errorf("no row has the %s", &n)
		}
	}
}

// testNames returns the names of all tests of the module.
func testNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range declaration.FindAllStringSubmatch(string(source), -1) {
			names[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
