package lint

import "go/ast"

const interfaceAdvice = "assertion to an interface without a name: declare it, say what it is for, " +
	"and assert where a type " +
	"implements it (var _ Name = (*T)(nil)), so that a renamed method does not compile"

// checkInterfaces reports assertions to interfaces that have methods and no name, in files of the product. If a type no
// longer implements such an interface, the program ignores it silently, and no reader sees that the program asks for
// it.
func checkInterfaces(t *tree) []finding {
	var out []finding
	for _, p := range t.packages {
		for _, f := range p.files {
			if f.test {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeAssertExpr:
					if hasMethods(n.Type) {
						out = append(out, f.at(n.Type, "unnamed-interface", interfaceAdvice))
					}
				case *ast.TypeSwitchStmt:
					for _, c := range n.Body.List {
						for _, expr := range c.(*ast.CaseClause).List {
							if hasMethods(expr) {
								out = append(out, f.at(expr, "unnamed-interface", interfaceAdvice))
							}
						}
					}
				}
				return true
			})
		}
	}
	return out
}

// hasMethods reports whether an expression is an interface type that is written out, with at least one method.
func hasMethods(expr ast.Expr) bool {
	i, ok := expr.(*ast.InterfaceType)
	return ok && i.Methods.NumFields() > 0
}
