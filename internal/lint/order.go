package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/go/packages"
)

const mapOrderAdvice = "the order is chance: sort first (slices.Sorted(maps.Keys(m))), or say on the line above, " +
	"as \"// any order: …\", why it cannot matter"

// unordered are functions and methods whose result comes in a map's order: the package's path and the name,
// without the receiver.
var unordered = map[string]bool{
	"maps.All":         true,
	"maps.Keys":        true,
	"maps.Values":      true,
	"reflect.MapKeys":  true,
	"reflect.MapRange": true,

	"golang.org/x/exp/maps.Keys":                     true,
	"golang.org/x/exp/maps.Values":                   true,
	"k8s.io/apimachinery/pkg/util/sets.UnsortedList": true,
	"k8s.io/apimachinery/pkg/util/sets.PopAny":       true,
}

// ordering are functions that may take an unordered sequence directly: they sort it, or make a map of it.
var ordering = map[string]bool{
	"slices.Sorted":     true,
	"slices.SortedFunc": true,
	"maps.Collect":      true,
	"maps.Insert":       true,
}

// checkTypes type-checks the given packages (directories of the module at root), with the build tag
// invariants and without, and reports uses of map order and banned methods. A package that does not
// compile is reported as type-check; so is a file that neither build holds.
func checkTypes(root string, dirs []string) ([]finding, error) {
	if len(dirs) == 0 {
		return nil, nil
	}
	var out []finding
	built := map[string]bool{}
	for _, tags := range []string{"-tags=grpcnotrace", "-tags=invariants,grpcnotrace"} {
		loaded, err := load(root, dirs, tags)
		if err != nil {
			return nil, err
		}
		for _, p := range loaded {
			for _, name := range p.CompiledGoFiles {
				built[name] = true
			}
			out = append(out, checkPackage(root, p)...)
		}
	}
	return append(out, notBuilt(root, dirs, built)...), nil
}

// load type-checks the packages from source and everything they import from the build cache.
func load(root string, dirs []string, tags string) ([]*packages.Package, error) {
	patterns := make([]string, len(dirs))
	for i, d := range dirs {
		patterns[i] = "./" + d
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedSyntax,
		Dir:        root,
		Env:        append(os.Environ(), "GOWORK=off"),
		BuildFlags: []string{tags},
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load the packages of floors 0 to %d: %w", lastPureFloor, err)
	}
	return loaded, nil
}

// notBuilt reports non-test files that no load has type-checked.
func notBuilt(root string, dirs []string, built map[string]bool) []finding {
	var out []finding
	for _, d := range dirs {
		names, err := filepath.Glob(filepath.Join(root, d, "*.go"))
		if err != nil {
			panic(fmt.Sprintf("glob %s: %v", d, err)) // only for a malformed pattern
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") || built[name] {
				continue
			}
			out = append(out, finding{file: relative(root, name), line: 1, rule: "unchecked-file",
				advice: "build constraints keep this file out of this machine's builds, " +
					"so its map order is not checked: " +
					"drop the constraint, move the file above floor 5, or except it in internal/lint/exceptions.go"})
		}
	}
	return out
}

func relative(root, name string) string {
	rel, err := filepath.Rel(root, name)
	if err != nil {
		return name
	}
	return filepath.ToSlash(rel)
}

// checkPackage reports on one type-checked package. With type errors it says so, and still reports the findings that do
// not depend on them.
func checkPackage(root string, p *packages.Package) []finding {
	var out []finding
	for _, e := range p.Errors {
		// The go command compiles as well. Its message about a type error only repeats the error.
		if e.Kind != packages.ListError || len(p.TypeErrors) == 0 {
			out = append(out, typeError(root, p, e))
		}
	}
	for _, f := range p.Syntax {
		c := &orderCheck{
			file:  &file{name: relative(root, p.Fset.Position(f.FileStart).Filename), fset: p.Fset, syntax: f},
			info:  p.TypesInfo,
			marks: readMarks(p.Fset, f),
		}
		c.walk()
		if len(p.Errors) == 0 {
			c.reportUnusedMarks()
		}
		out = append(out, c.found...)
	}
	return out
}

// typeError turns an error of the loader, at "file:line:col" or nowhere, into a finding.
func typeError(root string, p *packages.Package, e packages.Error) finding {
	out := finding{file: p.PkgPath, line: 1, rule: "type-check",
		advice: "map order is checked only in code that compiles: " + e.Msg}
	parts := strings.Split(e.Pos, ":")
	if len(parts) >= 2 {
		line := 0
		if _, err := fmt.Sscanf(parts[1], "%d", &line); err == nil {
			out.file, out.line = relative(root, parts[0]), line
		}
	}
	return out
}

var anyOrder = regexp.MustCompile(`(?m)^(?://|/\*)?\s*any order:(.*)$`)

// mark is a comment "any order: reason".
type mark struct {
	comment *ast.Comment
	reason  string
	used    bool
}

// readMarks returns a file's marks by the lines they apply to: their own, and the one below the comment group that has
// them.
func readMarks(fset *token.FileSet, f *ast.File) map[int]*mark {
	marks := map[int]*mark{}
	for _, group := range f.Comments {
		for _, c := range group.List {
			m := anyOrder.FindStringSubmatch(c.Text)
			if m == nil {
				continue
			}
			found := &mark{comment: c, reason: strings.TrimSpace(m[1])}
			marks[fset.Position(c.Pos()).Line] = found
			marks[fset.Position(group.End()).Line+1] = found
		}
	}
	return marks
}

// orderCheck looks for map order in one file.
type orderCheck struct {
	file  *file
	info  *types.Info
	marks map[int]*mark
	found []finding
}

func (c *orderCheck) walk() {
	var parents []ast.Node
	ast.Inspect(c.file.syntax, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		switch n := n.(type) {
		case *ast.RangeStmt:
			// Without key and value the body cannot see the order.
			if (n.Key != nil || n.Value != nil) && isMap(c.info.TypeOf(n.X)) {
				c.need(n, "range over a map")
			}
		case *ast.Ident:
			c.use(n, parents)
		}
		parents = append(parents, n)
		return true
	})
}

// use reports an identifier that names a banned method or an unordered function.
func (c *orderCheck) use(id *ast.Ident, parents []ast.Node) {
	fn, ok := c.info.Uses[id].(*types.Func)
	if !ok {
		return
	}
	name := fn.Origin().FullName()
	if rule, ok := bannedMethods[name]; ok {
		c.found = append(c.found, c.file.at(id, rule, name+": "+advice[rule]))
	}
	if fn.Pkg() != nil && unordered[fn.Pkg().Path()+"."+fn.Name()] && !c.inOrdering(parents) {
		c.need(id, fn.Pkg().Path()+"."+fn.Name())
	}
}

// inOrdering reports whether the call whose function's name ends the parents is a direct argument of an
// ordering function, as in slices.Sorted(maps.Keys(m)).
func (c *orderCheck) inOrdering(parents []ast.Node) bool {
	calls := 0
	for i := len(parents) - 1; i >= 0; i-- {
		switch n := parents[i].(type) {
		case *ast.SelectorExpr, *ast.IndexExpr, *ast.IndexListExpr, *ast.ParenExpr:
		case *ast.CallExpr:
			calls++
			if calls == 2 {
				return ordering[c.nameOf(n.Fun)]
			}
		default:
			return false
		}
	}
	return false
}

// nameOf is the full name of a called function, "" if it is none with a name.
func (c *orderCheck) nameOf(fun ast.Expr) string {
	switch fun := ast.Unparen(fun).(type) {
	case *ast.IndexExpr:
		return c.nameOf(fun.X)
	case *ast.IndexListExpr:
		return c.nameOf(fun.X)
	case *ast.SelectorExpr:
		if fn, ok := c.info.Uses[fun.Sel].(*types.Func); ok {
			return fn.Origin().FullName()
		}
	}
	return ""
}

// need reports a node unless a mark with a reason speaks for it.
func (c *orderCheck) need(n ast.Node, what string) {
	m := c.marks[c.file.fset.Position(n.Pos()).Line]
	if m == nil {
		c.found = append(c.found, c.file.at(n, "map-order", what+": "+mapOrderAdvice))
		return
	}
	m.used = true
	if m.reason == "" {
		c.found = append(c.found, c.file.at(n, "map-order", what+
			": the comment \"any order:\" gives no reason: say why the order cannot matter"))
	}
}

// reportUnusedMarks reports marks that apply to nothing: the code below them has changed, or they are in the wrong
// place.
func (c *orderCheck) reportUnusedMarks() {
	// any order: findings are sorted before they are printed, and doubles dropped.
	for _, m := range c.marks {
		if !m.used {
			c.found = append(c.found, c.file.at(m.comment, "map-order",
				"this \"any order:\" stands above nothing that has a map's order: "+
					"remove it, or move it right above the range"))
		}
	}
}

// isMap reports whether ranging over a value of the type is ranging over a map.
func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	if p, ok := types.Unalias(t).(*types.TypeParam); ok {
		return allowsMap(p.Constraint())
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// allowsMap reports whether a constraint, such as ~map[K]V, names a map among its types.
func allowsMap(constraint types.Type) bool {
	switch t := constraint.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Interface:
		for embedded := range t.EmbeddedTypes() {
			if u, ok := types.Unalias(embedded).(*types.Union); ok {
				for term := range u.Terms() {
					if allowsMap(term.Type()) {
						return true
					}
				}
			} else if allowsMap(embedded) {
				return true
			}
		}
	}
	return false
}
