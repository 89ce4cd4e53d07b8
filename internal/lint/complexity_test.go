package lint

import (
	"fmt"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestComplexityIsCountedAsGocycloDoes has the constructs that count, each once, and the constructs that do not.
func TestComplexityIsCountedAsGocycloDoes(t *testing.T) {
	for _, c := range []struct {
		body string
		want int
	}{
		{"", 1},
		{"if a {}", 2},
		{"if a {} else if b {} else {}", 3},
		{"for a {}", 2},
		{"for range s {}", 2},
		{"for i := range s { _ = i }", 2},
		{"if a && b || c {}", 4},
		{"switch x { case 1: case 2, 3: default: }", 3},
		{"switch x.(type) { case int: default: }", 2},
		{"select { case <-ch: default: }", 2},
		{"x := func() bool { return a && b }; x()", 2},
		{"goto end; end:", 1},
		{"defer f(); go f(); return", 1},
	} {
		source := "package p\nfunc f() {\n" + c.body + "\n}\n"
		syntax, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		if got := complexityOf(syntax.Decls[0]); got != c.want {
			t.Errorf("%q: complexity %d, want %d", c.body, got, c.want)
		}
	}
}

// TestAFunctionThatIsTooComplexIsFound has functions at the limit and above it, in a product and in a test file. Each
// is a function with a name, a literal that a variable is set to, or a literal inside of a composite one.
func TestAFunctionThatIsTooComplexIsFound(t *testing.T) {
	ifs := func(n int) string { return strings.Repeat("if a {}\n", n) }
	allowed, tooMany := ifs(maxComplexity-1), ifs(maxComplexity)
	for _, c := range []struct{ before, after string }{
		{"func %s() {\n", "}\n"},
		{"func (t *T) %s() {\n", "}\n"},
		{"var %s = func() {\n", "}\n"},
		{"var (\n_, %s = 0, func() {\n", "}\n)\n"},
		{"var %s = map[string]func(){\"x\": func() {\n", "}}\n"},
		{"var %s = f(func() {\nfunc() {\n", "}() })\n"},
	} {
		source := "package p\n" + fmt.Sprintf(c.before, "allowed") + allowed + c.after +
			fmt.Sprintf(c.before, "tooComplex") + tooMany + c.after
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, "p.go", source, 0)
		if err != nil {
			t.Fatalf("%s: %v", c.before, err)
		}
		found := checkComplexity(&tree{packages: []*pkg{{dir: "p", files: []*file{
			{name: "p/p.go", fset: fset, syntax: syntax},
			{name: "p/p_test.go", test: true, fset: fset, syntax: syntax},
		}}}})
		line := 1 + strings.Count(source[:strings.Index(source, "tooComplex")], "\n")
		want := fmt.Sprintf("p/p.go:%d: complexity: tooComplex has a cyclomatic complexity of 21, at most 20 is "+
			"allowed: give a part of it a function with a name", line)
		if len(found) != 1 || found[0].String() != want {
			t.Errorf("%s: found %v, want\n%s", c.before, found, want)
		}
	}
}
