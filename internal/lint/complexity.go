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
			for _, decl := range f.syntax.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if n := complexityOf(fn); n > maxComplexity {
					out = append(out, f.at(fn.Name, "complexity", fmt.Sprintf(
						"%s has a cyclomatic complexity of %d, at most %d is allowed: give a part of it a function "+
							"with a name",
						fn.Name.Name,
						n,
						maxComplexity,
					)))
				}
			}
		}
	}
	return out
}

// complexityOf returns a function's cyclomatic complexity as gocyclo counts it: 1, and 1 for each if, for, case with an
// expression, && and ||, those in function literals included.
func complexityOf(fn *ast.FuncDecl) int {
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
