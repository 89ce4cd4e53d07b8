package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// emptyNames say nothing about what a package owns.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "misc"}

// checkNames reports packages whose name says nothing.
func checkNames(t *tree) []finding {
	var out []finding
	for _, p := range t.packages {
		// The folder counts as well as the package clause: an import shows the folder.
		for _, f := range p.files {
			for _, name := range []string{f.syntax.Name.Name, path.Base(p.dir)} {
				if slices.Contains(emptyNames, strings.ToLower(strings.TrimSuffix(name, "_test"))) {
					out = append(out, f.at(f.syntax.Name, "package-name",
						fmt.Sprintf("package %s: name it after what it does", name)))
					break
				}
			}
		}
	}
	return out
}

// checkPackageComments reports packages without a package comment, with more than one, or with one outside
// doc.go although there is a doc.go. Packages of test files only need none.
func checkPackageComments(t *tree) []finding {
	var out []finding
	for _, p := range t.packages {
		var product, commented []*file
		var doc *file
		for _, f := range p.files {
			if f.test {
				continue
			}
			product = append(product, f)
			if f.syntax.Doc != nil && f.syntax.Doc.Text() != "" {
				commented = append(commented, f)
			}
			if path.Base(f.name) == "doc.go" {
				doc = f
			}
		}
		if len(product) == 0 {
			continue
		}
		home := product[0]
		if doc != nil {
			home = doc
		}
		if len(commented) == 0 {
			out = append(out, home.at(home.syntax.Name, "package-comment",
				"no package comment: say, in doc.go, what the package owns, what it never does, "+
					"where to start reading"))
			continue
		}
		out = append(out, checkComments(home, doc, commented)...)
	}
	return out
}

// checkComments reports package comments that are in the wrong file or begin wrongly.
func checkComments(home, doc *file, commented []*file) []finding {
	if doc == nil {
		home = commented[0]
	}
	var out []finding
	for _, f := range commented {
		if f != home {
			out = append(out, f.at(f.syntax.Name, "package-comment",
				"the package comment belongs in "+path.Base(home.name)+", once: move what this one says there"))
			continue
		}
		name := f.syntax.Name.Name
		if name != "main" && !strings.HasPrefix(f.syntax.Doc.Text(), "Package "+name+" ") {
			out = append(out, f.at(f.syntax.Name, "package-comment",
				fmt.Sprintf("begin the package comment with %q", "Package "+name+" ")))
		}
	}
	return out
}
