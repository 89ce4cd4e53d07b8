package lint

import (
	"fmt"
	"go/ast"
	"go/token"
)

// maxComplexity is the highest cyclomatic complexity that a function may have, test files excepted.
const maxComplexity = 20

// checkComplexity reports functions with more branches than a reader can keep in mind.
func checkComplexity(t *tree) []finding {
	var out []finding
	for _, p := range t.packages {
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, fn := range functionsOf(f.syntax) {
				if n := complexityOf(fn.node); n > maxComplexity {
					out = append(out, f.at(fn.name, "complexity", fmt.Sprintf(
						"%s has a cyclomatic complexity of %d, at most %d is allowed: give a part of it a function "+
							"with a name",
						fn.name.Name,
						n,
						maxComplexity,
					)))
				}
			}
		}
	}
	return out
}

// function is a unit of the count: a function, or a function literal outside of functions, named after the variable
// that holds it.
type function struct {
	name *ast.Ident
	node ast.Node
}

// functionsOf returns the functions of a file and the function literals of its package-level variables.
func functionsOf(syntax *ast.File) (out []function) {
	for _, decl := range syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			out = append(out, function{decl.Name, decl})
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if values, ok := spec.(*ast.ValueSpec); ok {
					out = append(out, literalsOf(values)...)
				}
			}
		}
	}
	return out
}

// literalsOf returns the outermost function literals among the values of a declaration. One inside of another counts
// as part of that one.
func literalsOf(spec *ast.ValueSpec) (out []function) {
	for i, value := range spec.Values {
		name := spec.Names[min(i, len(spec.Names)-1)]
		ast.Inspect(value, func(n ast.Node) bool {
			if literal, ok := n.(*ast.FuncLit); ok {
				out = append(out, function{name, literal})
				return false
			}
			return true
		})
	}
	return out
}

// complexityOf returns a function's cyclomatic complexity as gocyclo counts it: 1, and 1 for each if, for, case with an
// expression, && and ||, those in function literals included.
func complexityOf(fn ast.Node) int {
	complexity := 1
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			complexity++
		case *ast.CaseClause:
			if n.List != nil {
				complexity++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				complexity++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				complexity++
			}
		}
		return true
	})
	return complexity
}
