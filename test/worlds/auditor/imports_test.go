package auditor

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestTheAuditorSharesNoCodeWithTheProduct holds that the auditor and the generator of worlds import the standard
// library only.
func TestTheAuditorSharesNoCodeWithTheProduct(t *testing.T) {
	for _, dir := range []string{".", ".."} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) < 5 {
			t.Fatalf("%d files of Go in %s: %v", len(files), dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range source.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if first, _, _ := strings.Cut(path, "/"); err != nil || strings.Contains(first, ".") || path == "C" {
					t.Errorf("%s imports %s: only the standard library is allowed", file, path)
				}
			}
		}
	}
}
