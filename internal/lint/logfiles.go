package lint

import (
	"go/ast"
	"slices"
)

const logFilesAdvice = "what stands in a log's directory may be anything: open files with internal/regular, " +
	"which takes regular files only, and make them with a name by chance (os.CreateTemp) or with os.O_EXCL"

// logRooms are the packages that work on the directories of logs, and on files that other parties have made.
var logRooms = []string{"eventlog/boltlog", "eventlog/index", "snapshot", "bundle", "proof", "logs", "logs/..."}

// opening are the functions of package os that open a file of any kind.
var opening = []string{"Open", "OpenFile", "ReadFile", "Create", "WriteFile"}

// checkLogFiles reports where such a package opens files by itself.
func checkLogFiles(t *tree) []finding {
	var out []finding
	for _, p := range t.packages {
		r, _ := roomOf(p.dir)
		works := slices.ContainsFunc(logRooms, func(room string) bool { return matches(room, p.dir) })
		if !works || r.testSupport {
			continue
		}
		for _, f := range p.files {
			if !f.test {
				out = append(out, checkOpening(f)...)
			}
		}
	}
	return out
}

// checkOpening reports each place where one file uses a function that opens files of any kind.
func checkOpening(f *file) []finding {
	name := ""
	for _, spec := range f.syntax.Imports {
		if importPath(spec) == "os" {
			name = localName(spec)
		}
	}
	var out []finding
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(opening, s.Sel.Name) {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
				out = append(out, f.at(s, "log-files", "os."+s.Sel.Name+": "+logFilesAdvice))
			}
		}
		return true
	})
	return out
}
