package lint

import (
	"go/ast"
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
)

// TestDocsNameOnlyTestsAndStoriesThatExist looks for the names of tests in docs, README and Makefile. After -run,
// before an ellipsis, and in the Makefile's patterns, the beginning of a name is enough.
func TestDocsNameOnlyTestsAndStoriesThatExist(t *testing.T) {
	root := absRoot(t)
	known := testNames(t, root)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no docs: %v", err)
	}
	named := 0
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "Makefile")) {
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
			if _, err := os.Stat(filepath.Join(root, "transcripts", "testdata", m[1])); err != nil {
				t.Errorf("%s names the story %s: %v", page, m[1], err)
			}
		}
	}
	if named < 50 {
		t.Errorf("%d names were found: the docs are not read as they are written", named)
	}
}

// testNames returns the names of all tests, fuzz targets and benchmarks of the module.
func testNames(t *testing.T, root string) []string {
	t.Helper()
	module, err := readTree(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range module.packages {
		for _, f := range p.files {
			if !f.test {
				continue
			}
			for _, d := range f.syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && mention.MatchString(fn.Name.Name) {
					names = append(names, fn.Name.Name)
				}
			}
		}
	}
	return names
}
