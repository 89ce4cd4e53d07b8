package lint

import (
	"go/ast"
	"path"
	"regexp"
	"strconv"
)

// ban is something that a file of floors 0 to 5 may not use.
type ban struct {
	// path is the import path of a package.
	path string
	// name is the identifier of the package that files may not use; "" bans the import itself.
	name string
	rule string
}

// advice says, for each rule, what to do instead.
var advice = map[string]string{
	"clock": "time is the entry's timestamp: take it as an argument, and keep a timer as a deadline in state " +
		"(Tick entries make time pass)",
	"chance": "chance may not reach a decision: break ties by score, then name; " +
		"what must be random comes in as an entry",
	"goroutine": "the core runs on its caller's goroutine: do the work in order here, or above floor 5 " +
		"(the one exception is the loop over nodes in framework)",
	"select":   "which case of a select runs is chance: channels belong above floor 5",
	"sync.Map": "a sync.Map has no order and hides sharing: use a map, and sort its keys where order matters",
	"unsorted-store": "client-go's stores list in a map's order, and its informers run goroutines: " +
		"use the log-fed informers of package cluster, whose stores are sorted",
	"dot-import": "a dot import hides whose names are used, from these rules too: " +
		"import the package by name",
}

// bans are the packages, functions and types that are not for floors 0 to 5. Functions that are shut out
// with their whole package need no line of their own.
var bans = []ban{
	{"time", "Now", "clock"},
	{"time", "Since", "clock"},
	{"time", "Until", "clock"},
	{"time", "After", "clock"},
	{"time", "AfterFunc", "clock"},
	{"time", "NewTimer", "clock"},
	{"time", "NewTicker", "clock"},
	{"time", "Tick", "clock"},
	{"time", "Sleep", "clock"},
	{"context", "WithTimeout", "clock"},
	{"context", "WithTimeoutCause", "clock"},
	{"context", "WithDeadline", "clock"},
	{"context", "WithDeadlineCause", "clock"},
	{"k8s.io/apimachinery/pkg/apis/meta/v1", "Now", "clock"},
	{"k8s.io/apimachinery/pkg/apis/meta/v1", "NowMicro", "clock"},
	{"k8s.io/apimachinery/pkg/util/wait", "", "clock"},
	{"k8s.io/utils/clock", "RealClock", "clock"},

	{"math/rand", "", "chance"},
	{"math/rand/v2", "", "chance"},
	{"crypto/rand", "", "chance"},
	{"hash/maphash", "", "chance"}, // its seed differs from one process to the next
	{"k8s.io/apimachinery/pkg/util/rand", "", "chance"},
	{"k8s.io/apimachinery/pkg/util/uuid", "", "chance"},
	// NewMD5, NewSHA1 and NewHash are functions of their arguments and stay allowed.
	{"github.com/google/uuid", "New", "chance"},
	{"github.com/google/uuid", "NewString", "chance"},
	{"github.com/google/uuid", "NewRandom", "chance"},
	{"github.com/google/uuid", "NewRandomFromReader", "chance"},
	{"github.com/google/uuid", "NewUUID", "chance"},
	{"github.com/google/uuid", "NewV6", "chance"},
	{"github.com/google/uuid", "NewV7", "chance"},
	{"github.com/google/uuid", "NewV7FromReader", "chance"},
	{"github.com/google/uuid", "NewDCESecurity", "chance"},
	{"github.com/google/uuid", "NewDCEGroup", "chance"},
	{"github.com/google/uuid", "NewDCEPerson", "chance"},

	{"golang.org/x/sync/errgroup", "", "goroutine"},
	{"k8s.io/client-go/util/workqueue", "ParallelizeUntil", "goroutine"},
	{"sync", "Map", "sync.Map"},

	// Listers and informers list the content of their store, so it is the store that must be sorted.
	{"k8s.io/client-go/tools/cache", "NewStore", "unsorted-store"},
	{"k8s.io/client-go/tools/cache", "NewIndexer", "unsorted-store"},
	{"k8s.io/client-go/tools/cache", "NewThreadSafeStore", "unsorted-store"},
	{"k8s.io/client-go/tools/cache", "NewInformer", "unsorted-store"},
	{"k8s.io/client-go/tools/cache", "NewSharedInformer", "unsorted-store"},
	{"k8s.io/client-go/tools/cache", "NewSharedIndexInformer", "unsorted-store"},
	{"k8s.io/client-go/informers", "NewSharedInformerFactory", "unsorted-store"},
	{"k8s.io/client-go/informers", "NewSharedInformerFactoryWithOptions", "unsorted-store"},
}

// bannedMethods are methods, as (*types.Func).FullName writes them. They are found by type, so only where
// the package compiles.
var bannedMethods = map[string]string{
	"(*sync.WaitGroup).Go": "goroutine",
}

// checkBans reports, by syntax alone, every use of a banned name on floors 0 to 5.
func checkBans(t *tree) []finding {
	var out []finding
	for _, p := range t.packages {
		if !isPure(p.dir) {
			continue
		}
		for _, f := range p.files {
			if !f.test {
				out = append(out, checkFileBans(f)...)
			}
		}
	}
	return out
}

// checkFileBans reports the bans that one file breaks. It mistakes a variable that shadows an import by its name for
// the import: rename the variable.
func checkFileBans(f *file) []finding {
	var out []finding
	imported := map[string]string{}
	for _, spec := range f.syntax.Imports {
		p := importPath(spec)
		for _, b := range bans {
			if b.path == p && b.name == "" {
				out = append(out, f.at(spec, b.rule, "import of "+p+": "+advice[b.rule]))
			}
		}
		name := localName(spec)
		if name == "." {
			out = append(out, f.at(spec, "dot-import", "import of "+p+": "+advice["dot-import"]))
		}
		imported[name] = p
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			out = append(out, f.at(n, "goroutine", "go statement: "+advice["goroutine"]))
		case *ast.SelectStmt:
			out = append(out, f.at(n, "select", "select statement: "+advice["select"]))
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				out = append(out, checkUse(f, n, imported[x.Name])...)
			}
		}
		return true
	})
	return out
}

// checkUse reports the use of a banned name of the package with the given path.
func checkUse(f *file, n *ast.SelectorExpr, p string) []finding {
	for _, b := range bans {
		if b.path == p && b.name == n.Sel.Name {
			return []finding{f.at(n, b.rule, p+"."+b.name+": "+advice[b.rule])}
		}
	}
	return nil
}

var versionSuffix = regexp.MustCompile(`^v[0-9]+$`)

// localName is the name that a file uses for an import. If the import gives none, it is the last element of the path
// that is not a major version ("math/rand/v2" is rand). That holds for every package in the lists except
// "k8s.io/…/meta/v1", whose package really is called v1.
func localName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ""
	}
	if last := path.Base(p); !versionSuffix.MatchString(last) || path.Base(path.Dir(p)) == "meta" {
		return last
	}
	return path.Base(path.Dir(p))
}
