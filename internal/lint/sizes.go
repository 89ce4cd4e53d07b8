package lint

import (
	"fmt"
	"go/ast"
	"strings"
)

// limit is the largest size that something may have.
type limit struct {
	// rule is the rule's short name, which is also the name of the quantity.
	rule string
	// most is the largest size allowed.
	most int
	// advice says how to get below the limit.
	advice string
}

// The limits of size. Methods and fields are counted in types of the product; lines are counted in tests, too.
var (
	methodsOfType = limit{"methods", 40,
		"give a part of the type's fields a type of its own, with the methods that use only these fields"}
	fieldsOfStruct = limit{"fields", 25,
		"put the fields that are used together into a struct with a name"}
	methodsOfInterface = limit{"interface-methods", 10,
		"declare, where the interface is used, a smaller one with the methods that are called there"}
	linesOfFile = limit{"file-lines", 500,
		"move one subject of the file to a file of its own"}
	linesOfFunction = limit{"function-lines", 80,
		"give a step of the function a name and a function"}
)

// size is the size of one thing, for which there is a limit.
type size struct {
	limit
	// name is the package's directory and the name in it, or a file's path.
	name string
	n    int
	// file and line are the place of its declaration.
	file string
	line int
}

// finding reports the size as a broken rule.
func (s size) finding() finding {
	return finding{s.file, s.line, s.rule, fmt.Sprintf("%s has %d %s, at most %d are allowed: %s",
		s.name, s.n, strings.ReplaceAll(s.rule, "-", " "), s.most, s.advice)}
}

// sizesOf returns the sizes of all types, functions and files of a module.
func sizesOf(t *tree) (out []size) {
	for _, p := range t.packages {
		methods := map[string]int{}
		types := map[string]size{}
		for _, f := range p.files {
			out = append(out, sizesOfFile(p.dir, f)...)
			if !f.test {
				countMethods(p.dir, f, methods, types)
			}
		}
		for name, n := range methods {
			s := types[name]
			s.limit, s.name, s.n = methodsOfType, p.dir+"."+name, n
			out = append(out, s)
		}
	}
	return out
}

// countMethods adds a file's methods by the name of their type, and notes where the file declares types.
func countMethods(dir string, f *file, methods map[string]int, types map[string]size) {
	for _, decl := range f.syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				methods[receiver(decl)]++
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					types[spec.Name.Name] = size{file: f.name, line: f.fset.Position(spec.Pos()).Line}
				}
			}
		}
	}
}

// receiver returns the name of the type that a method belongs to, "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	expr := fn.Recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// sizesOfFile returns the sizes that one file shows: its own, and the sizes of its functions, structs and interfaces.
func sizesOfFile(dir string, f *file) []size {
	position := f.fset.Position
	out := []size{{linesOfFile, f.name, f.fset.File(f.syntax.FileStart).LineCount(), f.name, 1}}
	at := func(l limit, name string, n int, node ast.Node) {
		out = append(out, size{l, dir + "." + name, n, f.name, position(node.Pos()).Line})
	}
	for _, decl := range f.syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := decl.Name.Name
			if r := receiver(decl); r != "" {
				name = r + "." + name
			}
			at(linesOfFunction, name, position(decl.End()).Line-position(decl.Pos()).Line+1, decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				spec, ok := spec.(*ast.TypeSpec)
				if !ok || f.test {
					continue
				}
				switch x := spec.Type.(type) {
				case *ast.StructType:
					at(fieldsOfStruct, spec.Name.Name, x.Fields.NumFields(), spec)
				case *ast.InterfaceType:
					at(methodsOfInterface, spec.Name.Name, x.Methods.NumFields(), spec)
				}
			}
		}
	}
	return out
}
