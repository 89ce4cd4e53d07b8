package lint

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var reportOf = flag.String("report", "", "the directory of a checkout, of which TestReport prints the numbers")

// TestReport prints numbers of a checkout, old or new, to compare two of them. It is no bar. Run it as
//
//	go test ./internal/lint -run TestReport -v -report "$PWD"
func TestReport(t *testing.T) {
	if *reportOf == "" {
		t.Skip("skipped: -report DIR names the checkout to count")
	}
	module, err := readTree(*reportOf)
	if err != nil {
		t.Fatal(err)
	}
	out := &table{}
	reportCore(out, module)
	reportSizes(out, module)
	reportLayout(out, module)
	reportProse(t, out, *reportOf)
	reportArrows(out, module)
	reportPages(t, out, *reportOf)
	fmt.Print(out.text.String())
}

// table is a Markdown table of a number a line.
type table struct{ text strings.Builder }

func (t *table) row(name string, value any) { fmt.Fprintf(&t.text, "| %s | %v |\n", name, value) }

// core matches the folders with the code that decides and keeps state, and the folders below them. A package that moved
// to internal counts in both places.
var core = regexp.MustCompile(
	`^(internal/)?(cluster|queue|framework|scheduler|engine|plugins|backfill|gang|room|capacity)(/|$)`)

// productFiles yields the files of the core, or of the whole product, without tests and test support.
func productFiles(module *tree, coreOnly bool) (out []*file) {
	for _, p := range module.packages {
		r, _ := roomOf(p.dir)
		outside := coreOnly && (!core.MatchString(p.dir) || p.dir == "engine/live")
		if outside || r.testSupport || strings.Contains(p.dir+"/", "test/") {
			continue
		}
		for _, f := range p.files {
			if !f.test {
				out = append(out, f)
			}
		}
	}
	return out
}

// reportCore counts the lines of the core and the constructs that the design wants to go away.
func reportCore(out *table, module *tree) {
	lines, comments, inside := 0, 0, 0
	for _, f := range productFiles(module, true) {
		lines += f.fset.File(f.syntax.FileStart).LineCount()
		c, i := commentLines(f)
		comments, inside = comments+c, inside+i
	}
	all := 0
	for _, f := range productFiles(module, false) {
		all += f.fset.File(f.syntax.FileStart).LineCount()
	}
	out.row("lines of the core", lines)
	out.row("lines of the product", all)
	out.row("comment share of the core",
		fmt.Sprintf("%d %%, inside functions %d lines", 100*comments/max(lines, 1), inside))
	compared, calls, outboxes, setters := 0, 0, 0, 0
	for _, f := range productFiles(module, false) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op != token.EQL && n.Op != token.NEQ && n.Op.IsOperator() &&
					(namesBehaviour(n.X) || namesBehaviour(n.Y)) {
					compared++
				}
			case *ast.SelectorExpr:
				if n.Sel.Name == "ChangedSince" {
					calls++
				}
			case *ast.FuncDecl:
				if n.Recv == nil || !core.MatchString(f.name) {
					break
				}
				if takes.MatchString(n.Name.Name) && n.Type.Params.NumFields() == 0 {
					outboxes++
				}
				if strings.HasPrefix(n.Name.Name, "Set") {
					setters++
				}
			}
			return true
		})
	}
	out.row("comparisons with a behaviour's number", compared)
	out.row("outboxes (methods Take… without arguments, core)", outboxes)
	out.row("calls of ChangedSince", calls)
	out.row("setters (methods Set…, core)", setters)
}

var takes = regexp.MustCompile(`^Take[A-Z]`)

// namesBehaviour reports whether an expression is a variable or field with a behaviour's number.
func namesBehaviour(expr ast.Expr) bool {
	switch x := expr.(type) {
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "behaviour")
	case *ast.Ident:
		return strings.EqualFold(x.Name, "behaviour")
	}
	return false
}

// commentLines counts the lines of a file that begin with a comment, and how many of them are inside functions.
func commentLines(f *file) (all, inside int) {
	for _, g := range f.syntax.Comments {
		for _, c := range g.List {
			all += 1 + strings.Count(c.Text, "\n")
			for _, decl := range f.syntax.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if ok && fn.Body != nil && fn.Body.Pos() < c.Pos() && c.Pos() < fn.Body.End() {
					inside++
				}
			}
		}
	}
	return all, inside
}

// reportSizes prints the largest types, interfaces, functions and files.
func reportSizes(out *table, module *tree) {
	largest := map[string][]size{}
	for _, s := range sizesOf(module) {
		largest[s.rule] = append(largest[s.rule], s)
	}
	for _, l := range []limit{methodsOfType, fieldsOfStruct, methodsOfInterface, linesOfFunction, linesOfFile} {
		list := largest[l.rule]
		slices.SortFunc(list, func(a, b size) int {
			if a.n != b.n {
				return b.n - a.n
			}
			return strings.Compare(a.name, b.name)
		})
		var names []string
		for _, s := range list[:3] {
			names = append(names, fmt.Sprintf("%s %d", s.name, s.n))
		}
		over := 0
		for _, s := range list {
			if s.n > l.most {
				over++
			}
		}
		out.row(fmt.Sprintf("%s, most; over %d", strings.ReplaceAll(l.rule, "-", " "), l.most),
			strings.Join(names, ", ")+fmt.Sprintf("; %d", over))
	}
}

// reportLayout counts the top-level folders with Go code and the identifiers that an outside program could import.
func reportLayout(out *table, module *tree) {
	folders := map[string]bool{}
	exported := 0
	for _, p := range module.packages {
		top, _, _ := strings.Cut(p.dir, "/")
		folders[top] = true
		if strings.Contains("/"+p.dir+"/", "/internal/") || p.files[0].syntax.Name.Name == "main" {
			continue
		}
		for _, f := range p.files {
			if !f.test {
				exported += exportedIn(f)
			}
		}
	}
	for _, other := range []string{"deploy", "docs", "examples"} {
		if _, err := os.Stat(filepath.Join(module.root, other)); err == nil {
			folders[other] = true
		}
	}
	for _, nested := range []string{"e2e", "test"} {
		if _, err := os.Stat(filepath.Join(module.root, nested)); err == nil {
			folders[nested] = true
		}
	}
	out.row("top-level folders", len(folders))
	out.row("exported identifiers outside internal", exported)
}

// exportedIn counts the exported names at the top level of a file, and the exported methods of exported types.
func exportedIn(f *file) (n int) {
	for _, decl := range f.syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Name.IsExported() && (decl.Recv == nil || ast.IsExported(receiver(decl))) {
				n++
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				for _, id := range declaredBy(spec) {
					if id.IsExported() {
						n++
					}
				}
			}
		}
	}
	return n
}

// reportProse counts phrases, private nouns and long sentences.
func reportProse(t *testing.T, out *table, root string) {
	modules := []string{".", "e2e", "test/e2e"}
	modules = slices.DeleteFunc(modules, func(dir string) bool {
		_, err := os.Stat(filepath.Join(root, dir, "go.mod"))
		return err != nil
	})
	m, err := measure(root, modules)
	if err != nil {
		t.Fatal(err)
	}
	totals := m.totals()
	out.row("banned phrases", totals["phrase"])
	out.row("private nouns", totals["private-noun"])
	out.row(fmt.Sprintf("sentences over %d words", maxWords), totals["sentence"])
}

// reportPages prints the number of words of each page of docs.
func reportPages(t *testing.T, out *table, root string) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		n := len(strings.Fields(string(text)))
		all += n
		out.row("words of "+relative(root, page), n)
	}
	out.row("words of these pages", all)
}
