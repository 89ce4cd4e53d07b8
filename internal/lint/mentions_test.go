package lint

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// mention is the name of a test, with -run before it if it is a pattern, or an ellipsis behind it if it is
	// shortened.
	mention = regexp.MustCompile(`(-run\W*)?\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)(…|\.\.\.)?`)
	// story is the name of a story in prose, with its folder.
	story = regexp.MustCompile("`(\\w+/\\w+\\.txt)`")
	// source is the path of a source file in prose.
	source = regexp.MustCompile("`([\\w-]+/[\\w/-]+\\.go)`")
)

// TestDocsNameOnlySourceFilesThatExist looks for paths of Go files in README, docs and the Makefile. CHANGELOG may name
// files of earlier versions.
func TestDocsNameOnlySourceFilesThatExist(t *testing.T) {
	root := absRoot(t)
	named := 0
	for _, page := range pagesOf(t, root) {
		if filepath.Base(page) == "CHANGELOG.md" {
			continue
		}
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range source.FindAllStringSubmatch(string(b), -1) {
			named++
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names the file %s, which is not there", page, m[1])
			}
		}
	}
	if named < 30 {
		t.Errorf("%d files were found: the docs are not read as they are written", named)
	}
}

// TestDocsNameOnlyTestsAndStoriesThatExist looks for the names of tests in docs and the folders below it, README,
// CHANGELOG and Makefile; not in docs/CONFORMANCE.md, which is about tests of Kubernetes. After -run, before an
// ellipsis, and in the Makefile's patterns, the beginning of a name is enough.
func TestDocsNameOnlyTestsAndStoriesThatExist(t *testing.T) {
	root := absRoot(t)
	known := testNames(t, root)
	named := 0
	for _, page := range pagesOf(t, root) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, m := range mention.FindAllStringSubmatch(text, -1) {
			named++
			beginning := m[1] != "" || m[3] != "" || filepath.Base(page) == "Makefile"
			if !slices.ContainsFunc(known, func(name string) bool {
				return name == m[2] || beginning && strings.HasPrefix(name, m[2])
			}) {
				t.Errorf("%s names %s, which is no test", page, m[2])
			}
		}
		for _, m := range story.FindAllStringSubmatch(text, -1) {
			named++
			if _, err := os.Stat(filepath.Join(root, "test", "transcripts", "testdata", m[1])); err != nil {
				t.Errorf("%s names the story %s: %v", page, m[1], err)
			}
		}
	}
	if named < 50 {
		t.Errorf("%d names were found: the docs are not read as they are written", named)
	}
}

// TestEveryRowOfTheFrameworksPageNamesATest looks at the tables of docs/FRAMEWORK.md.
func TestEveryRowOfTheFrameworksPageNamesATest(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(absRoot(t), "docs", "FRAMEWORK.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		heading := strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[0]) == "The point"
		if !strings.HasPrefix(line, "|") || heading {
			continue
		}
		rows++
		if tests := cells[len(cells)-1]; len(cells) != 3 || !mention.MatchString(tests) && !story.MatchString(tests) {
			t.Errorf("this row has not a point, what is done about it, and a test: %s", line)
		}
	}
	if rows < 50 {
		t.Errorf("%d rows were found: the page is not read as it is written", rows)
	}
}

// pagesOf returns the files that name tests: README, CHANGELOG, the Makefile, and the pages in docs and below it.
func pagesOf(t *testing.T, root string) []string {
	t.Helper()
	pages := []string{
		filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md"), filepath.Join(root, "Makefile"),
	}
	folders := map[string]int{}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(p) == ".md" && d.Name() != "CONFORMANCE.md" {
			pages = append(pages, p)
			folders[filepath.Base(filepath.Dir(p))]++
		}
		return err
	})
	if err != nil || folders["docs"] == 0 || folders["guides"] == 0 {
		t.Fatalf("pages of docs by folder: %v (%v)", folders, err)
	}
	return pages
}

// testNames returns the names of all tests, fuzz targets and benchmarks of the module.
func testNames(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	for _, dir := range append(examples(t), ".", "test/e2e") {
		module, err := readTree(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range module.packages {
			for _, f := range p.files {
				if f.test {
					names = append(names, testsOf(f.syntax)...)
				}
			}
		}
	}
	return names
}

// testsOf returns the names of a file's tests, fuzz targets and benchmarks.
func testsOf(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && mention.MatchString(fn.Name.Name) {
			names = append(names, fn.Name.Name)
		}
	}
	return names
}
