package lint

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var wanted = regexp.MustCompile(`// want (\S+)$`)

// readWanted returns the "want" comments of a directory below the module's root as "file:line: rule".
func readWanted(t *testing.T, root, dir string) map[string]bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, name := range names {
		source, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(source)
		for n := 1; lines.Scan(); n++ {
			if m := wanted.FindStringSubmatch(lines.Text()); m != nil {
				want[fmt.Sprintf("%s:%d: %s", relative(root, name), n, m[1])] = true
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		if err := source.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

// checkAsPure runs the bans over one directory as if it were on a floor where they hold.
func checkAsPure(t *testing.T, root, dir string) []finding {
	t.Helper()
	one := &tree{root: root}
	if err := one.addPackage(filepath.Join(root, dir)); err != nil {
		t.Fatal(err)
	}
	var found []finding
	for _, f := range one.packages[0].files {
		found = append(found, checkFileBans(f)...)
	}
	found = append(found, one.unparsed...)
	typed, err := checkTypes(root, []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	return sorted(append(found, typed...))
}

// compare fails for each finding without its "want" comment and each comment without its finding.
func compare(t *testing.T, want map[string]bool, found []finding) {
	t.Helper()
	got := map[string]bool{}
	for _, f := range found {
		at := fmt.Sprintf("%s:%d: %s", f.file, f.line, f.rule)
		got[at] = true
		if !want[at] {
			t.Errorf("reported without reason: %s", f)
		}
	}
	for at := range want {
		if !got[at] {
			t.Errorf("not reported: %s", at)
		}
	}
}

func TestEveryBanIsReportedWhereItIsBrokenAndNowhereElse(t *testing.T) {
	root := absRoot(t)
	const dir = "internal/lint/testdata/banned"
	found := checkAsPure(t, root, dir)
	compare(t, readWanted(t, root, dir), found)

	// A line of the lists that testdata does not break may be misspelt and would ban nothing.
	said := ""
	for _, f := range found {
		said += f.advice + "\n"
	}
	for _, b := range bans {
		phrase := b.path + "." + b.name + ":"
		if b.name == "" {
			phrase = "import of " + b.path + ":"
		}
		if !strings.Contains(said, phrase) {
			t.Errorf("testdata/banned does not break the ban on %s %s", b.path, b.name)
		}
	}
	for name := range bannedMethods {
		if !strings.Contains(said, name+":") {
			t.Errorf("testdata/banned does not break the ban on %s", name)
		}
	}
	for name := range unordered {
		if !strings.Contains(said, name+":") {
			t.Errorf("testdata/banned does not use the map order of %s", name)
		}
	}
}

func TestAPackageThatDoesNotCompileIsReportedAndStillChecked(t *testing.T) {
	root := absRoot(t)
	const dir = "internal/lint/testdata/broken"
	compare(t, readWanted(t, root, dir), checkAsPure(t, root, dir))
}

func TestAFindingReadsAsFileLineRuleAndAdvice(t *testing.T) {
	f := finding{file: "queue/queue.go", line: 7, rule: "clock", advice: "time.Now: take the time as an argument"}
	if got, want := f.String(), "queue/queue.go:7: clock: time.Now: take the time as an argument"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
