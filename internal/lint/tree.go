package lint

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
)

// finding is one broken rule.
type finding struct {
	// file is the path inside the module, with slashes.
	file string
	line int
	// rule is the rule's short name; exceptions are given by it.
	rule string
	// advice says what is wrong and what to do.
	advice string
}

// String is "file:line: rule: what to do".
func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.file, f.line, f.rule, f.advice)
}

// tree is the source of one module, parsed and not type-checked.
type tree struct {
	// root is the directory of go.mod.
	root   string
	module string
	// packages are the directories with Go files, by path.
	packages []*pkg
	// unparsed are the files that do not parse; they are in no package.
	unparsed []finding
}

// pkg is one directory with Go files.
type pkg struct {
	dir string
	// files are its Go files by name, test files included; there is at least one.
	files []*file
}

// file is one parsed file.
type file struct {
	name   string
	test   bool
	fset   *token.FileSet
	syntax *ast.File
}

// at is a finding at a node of the file.
func (f *file) at(n ast.Node, rule, advice string) finding {
	return finding{file: f.name, line: f.fset.Position(n.Pos()).Line, rule: rule, advice: advice}
}

// readTree parses every package of the module at root. Folders that the go command skips (testdata, those
// with a leading dot or underscore) and modules nested inside are left out. A file that does not parse
// becomes a finding, so that the others are still checked.
func readTree(root string) (*tree, error) {
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("read the module's name: %w", err)
	}
	t := &tree{root: root, module: modfile.ModulePath(gomod)}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if p != root && skipped(p, d.Name()) {
			return filepath.SkipDir
		}
		return t.addPackage(p)
	})
	return t, err
}

// skipped reports whether the go command would not look for this module's packages in a folder.
func skipped(p, name string) bool {
	if name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(p, "go.mod"))
	return err == nil
}

// addPackage parses the Go files of one directory, if it has any.
func (t *tree) addPackage(p string) error {
	rel, err := filepath.Rel(t.root, p)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(p)
	if err != nil {
		return err
	}
	added := &pkg{dir: filepath.ToSlash(rel)}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, ".") ||
			strings.HasPrefix(name, "_") {
			continue
		}
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, filepath.Join(p, name), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		inModule := path.Join(added.dir, name)
		if err != nil {
			t.unparsed = append(t.unparsed, parseError(inModule, err))
			continue
		}
		added.files = append(added.files, &file{
			name: inModule, test: strings.HasSuffix(name, "_test.go"), fset: fset, syntax: syntax,
		})
	}
	if len(added.files) > 0 {
		t.packages = append(t.packages, added)
	}
	return nil
}

// parseError turns an error of the parser into a finding.
func parseError(name string, err error) finding {
	out := finding{file: name, line: 1, rule: "parse", advice: err.Error()}
	var list scanner.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		out.line, out.advice = list[0].Pos.Line, list[0].Msg
	}
	return out
}

// importPath is the path that an import names.
func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(fmt.Sprintf("the parser let through the import path %s: %v", spec.Path.Value, err))
	}
	return p
}

// sorted returns the findings by file, line and text, each once.
func sorted(found []finding) []finding {
	slices.SortFunc(found, func(a, b finding) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		if a.line != b.line {
			return a.line - b.line
		}
		return strings.Compare(a.String(), b.String())
	})
	return slices.Compact(found)
}

// hasProductCode reports whether the package has a file that is not a test.
func (p *pkg) hasProductCode() bool {
	return slices.ContainsFunc(p.files, func(f *file) bool { return !f.test })
}
