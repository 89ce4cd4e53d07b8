package outside

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

const (
	root    = "../.."
	page    = "docs/PLUGINS.md"
	heading = "## Packages for other modules\n"
	own     = "github.com/rollcall-sched/rollcall"
)

// row is a line of the table: a package, and what of it other modules may use.
type row struct {
	line int // in the page
	dir  string
	// values are functions, constants and variables. A type may be followed by a field or method:
	// "Stateful.AppendState".
	values, types []string
}

// quoted is a name in backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

func names(cell string) (out []string) {
	for _, found := range quoted.FindAllStringSubmatch(cell, -1) {
		out = append(out, found[1])
	}
	return out
}

// table returns the rows of the page's table.
func table(t *testing.T, text string) (rows []row) {
	t.Helper()
	before, section, found := strings.Cut(text, heading)
	if !found {
		t.Fatalf("%s has no section %q", page, strings.TrimSpace(heading))
	}
	section, _, _ = strings.Cut(section, "\n## ")
	line := strings.Count(before+heading, "\n")
	for text := range strings.Lines(section) {
		line++
		cells := strings.Split(text, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		rows = append(rows, row{line, names(cells[1])[0], names(cells[2]), names(cells[3])})
	}
	if len(rows) < 4 {
		t.Fatalf("%s has %d packages in the table below %q, want at least 4",
			page, len(rows), strings.TrimSpace(heading))
	}
	return rows
}

// program returns a file that uses every name of the rows. The compiler reports its errors at the lines of the page.
func program(rows []row) string {
	var imports, uses strings.Builder
	for i, r := range rows {
		at := fmt.Sprintf("//line %s:%d\n", page, r.line)
		fmt.Fprintf(&imports, "%simport %s %q\n", at, r.local(i), path.Join(own, r.dir))
		for _, name := range r.values {
			fmt.Fprintf(&uses, "%svar _ = %s.%s\n", at, r.local(i), name)
		}
		for _, name := range r.types {
			name, member, hasMember := strings.Cut(name, ".")
			if fmt.Fprintf(&uses, "%svar _ *%s.%s\n", at, r.local(i), name); hasMember {
				fmt.Fprintf(&uses, "%sfunc _(v %s.%s) { _ = v.%s }\n", at, r.local(i), name, member)
			}
		}
	}
	return "package outside\n" + imports.String() + uses.String()
}

// local is the name of a row's package in the file: two rows of one folder's name do not collide.
func (r row) local(i int) string { return fmt.Sprintf("%s%d", path.Base(r.dir), i) }

// goMod returns a go.mod with the same versions as ours, and with our module beside it.
func goMod(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range mod.Tool {
		if err := mod.DropTool(tool.Path); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		mod.AddModuleStmt("example.com/outside"), mod.AddRequire(own, "v0.0.0"), mod.AddReplace(own, "", here, ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	mod.Cleanup()
	text, err = mod.Format()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// flags are the flags of this test's own build that decide which compiled packages the go command can use again.
func flags() (out []string) {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-tags" || s.Key == "-trimpath" {
			out = append(out, s.Key+"="+s.Value)
		}
	}
	return out
}

func TestAnotherModuleCanUseWhatTheDocsName(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"go.mod": goMod(t), "go.sum": sums, "outside.go": []byte(program(table(t, string(text)))),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"build", "-mod=mod", "-gcflags=-e"}, flags()...) // -e: every error, not only the first ten
	build := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	build.Dir = dir
	build.Env = append(build.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=")
	var printed bytes.Buffer
	build.Stdout, build.Stderr = &printed, &printed
	if err := build.Run(); err != nil {
		t.Errorf("%s names packages or identifiers that another module cannot use. Correct its table %q, or what it "+
			"names (go build: %v):\n%s", page, strings.TrimSpace(heading), err, &printed)
	}
}

// TestTheTableHasEveryNameOfThePage looks for names such as app.Run in the whole page.
func TestTheTableHasEveryNameOfThePage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	packages := map[string]bool{}
	for _, r := range table(t, string(text)) {
		packages[path.Base(r.dir)] = true
		for _, name := range slices.Concat(r.values, r.types) {
			name, _, _ = strings.Cut(name, ".")
			listed[path.Base(r.dir)+"."+name] = true
		}
	}
	used := regexp.MustCompile(`\b(` + strings.Join(slices.Sorted(maps.Keys(packages)), "|") + `)\.[A-Z]\w*`)
	for _, name := range used.FindAllString(string(text), -1) {
		if !listed[name] {
			t.Errorf("%s uses %s, which its table %q does not list", page, name, strings.TrimSpace(heading))
		}
	}
}
