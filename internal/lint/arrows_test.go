package lint

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// fewestFiles is the smallest number of files of a package whose references TestReport prints.
const fewestFiles = 8

// reportArrows prints, for each larger package, which share of the references between its files points backwards.
func reportArrows(out *table, module *tree) {
	sum, sumBack := 0, 0
	for _, p := range module.packages {
		arrows := arrowsOf(p)
		total := 0
		for _, to := range arrows {
			total += len(to)
		}
		files := 0
		for _, f := range p.files {
			if !f.test {
				files++
			}
		}
		if files < fewestFiles || total == 0 {
			continue
		}
		back := backward(arrows, bestOrder(arrows))
		sum, sumBack = sum+total, sumBack+back
		out.row("backward references in "+p.dir, fmt.Sprintf("%d of %d, %d %%", back, total, 100*back/total))
	}
	out.row("backward references in all of these",
		fmt.Sprintf("%d of %d, %d %%", sumBack, sum, 100*sumBack/max(sum, 1)))
}

// arrowsOf returns, by file, the other files of the package whose declarations it names. Names are compared as text; a
// method counts if no other file of the package has one of that name.
func arrowsOf(p *pkg) map[string]map[string]bool {
	home, methods := homes(p)
	arrows := map[string]map[string]bool{}
	for _, f := range p.files {
		if f.test {
			continue
		}
		to := map[string]bool{}
		add := func(file string) {
			if file != "" && file != f.name {
				to[file] = true
			}
		}
		var visit func(n ast.Node) bool
		visit = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				add(methods[n.Sel.Name])
				ast.Inspect(n.X, visit)
				return false
			case *ast.Ident:
				add(home[n.Name])
			}
			return true
		}
		ast.Inspect(f.syntax, visit)
		arrows[f.name] = to
	}
	return arrows
}

// homes returns the files that declare the package's names, and its methods.
func homes(p *pkg) (names, methods map[string]string) {
	names, methods = map[string]string{}, map[string]string{}
	for _, f := range p.files {
		if f.test {
			continue
		}
		for _, decl := range f.syntax.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				name := decl.Name.Name
				if decl.Recv == nil {
					names[name] = f.name
					continue
				}
				if other, ok := methods[name]; ok && other != f.name {
					methods[name] = ""
				} else {
					methods[name] = f.name
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					for _, id := range declaredBy(spec) {
						names[id.Name] = f.name
					}
				}
			}
		}
	}
	return names, methods
}

// bestOrder returns an order of the files with few arrows from a later file to an earlier one: each file is moved to
// the place with the fewest until no move helps.
func bestOrder(arrows map[string]map[string]bool) []string {
	order := slices.SortedFunc(maps.Keys(arrows), func(a, b string) int {
		if d := len(arrows[b]) - len(arrows[a]); d != 0 {
			return d
		}
		if a < b {
			return -1
		}
		return 1
	})
	for improved := true; improved; {
		improved = false
		for i := range order {
			best, bestAt := 0, i
			gain := 0
			for j := i + 1; j < len(order); j++ {
				gain += change(arrows, order[i], order[j])
				if gain > best {
					best, bestAt = gain, j
				}
			}
			gain = 0
			for j := i - 1; j >= 0; j-- {
				gain += change(arrows, order[j], order[i])
				if gain > best {
					best, bestAt = gain, j
				}
			}
			if best > 0 {
				name := order[i]
				order = slices.Insert(slices.Delete(order, i, i+1), bestAt, name)
				improved = true
			}
		}
	}
	return order
}

// change returns how many fewer arrows point backwards once b is before a.
func change(arrows map[string]map[string]bool, a, b string) int {
	d := 0
	if arrows[b][a] {
		d++
	}
	if arrows[a][b] {
		d--
	}
	return d
}

// backward counts the arrows that point from a later file of an order to an earlier one.
func backward(arrows map[string]map[string]bool, order []string) (n int) {
	for i, from := range order {
		for _, to := range order[:i] {
			if arrows[from][to] {
				n++
			}
		}
	}
	return n
}

// TestBackwardReferencesAreCounted has a circle of three files, in which one arrow has to point backwards.
func TestBackwardReferencesAreCounted(t *testing.T) {
	module := parseModule(t, `
-- queue/a.go --
package queue
func a() { b(); b(); var x T; x.m() }
-- queue/b.go --
package queue
func b() { c() }
-- queue/c.go --
package queue
type T int
func (T) m() {}
func c() { a() }
-- queue/a_test.go --
package queue
func t() { a(); b(); c() }
`)
	arrows := arrowsOf(module.packages[0])
	total := 0
	for _, to := range arrows {
		total += len(to)
	}
	if back := backward(arrows, bestOrder(arrows)); total != 4 || back != 1 {
		t.Errorf("%d of %d arrows point backwards, want 1 of 4: %v", back, total, arrows)
	}
}
