package lint

import (
	"path/filepath"
	"testing"
)

// moduleRoot is the directory of go.mod, seen from this package's directory, in which its tests run.
const moduleRoot = "../.."

// absRoot is moduleRoot as an absolute path.
func absRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(moduleRoot)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestRulesHoldInTheModule holds every rule over the whole module.
func TestRulesHoldInTheModule(t *testing.T) {
	module, err := readTree(absRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	found := append(module.unparsed, checkFloors(module)...)
	found = append(found, checkTables(module, floorTables{rooms, sideways, backends})...)
	found = append(found, checkBans(module)...)
	found = append(found, checkNames(module)...)
	found = append(found, checkPackageComments(module)...)
	found = append(found, checkComplexity(module)...)
	found = append(found, checkInterfaces(module)...)
	found = append(found, checkLogFiles(module)...)

	long, err := checkColumns(module.root)
	if err != nil {
		t.Fatal(err)
	}
	found = append(found, long...)

	var pure []string
	for _, p := range module.packages {
		if isPure(p.dir) && p.hasProductCode() {
			pure = append(pure, p.dir)
		}
	}
	typed, err := checkTypes(module.root, pure)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range sorted(except(exceptions, append(found, typed...))) {
		t.Error(f)
	}
}

// TestRulesHoldInTheModuleOfTheTests holds the rules that are no matter of floors over the module e2e.
func TestRulesHoldInTheModuleOfTheTests(t *testing.T) { checkModule(t, "test/e2e") }

// TestRulesHoldInTheExamples holds them over each module in examples.
func TestRulesHoldInTheExamples(t *testing.T) {
	for _, dir := range examples(t) {
		checkModule(t, dir)
	}
}

// examples returns the modules in the folder examples.
func examples(t *testing.T) (dirs []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(absRoot(t), "examples", "*", "go.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples are found (%v)", err)
	}
	for _, file := range files {
		dirs = append(dirs, filepath.Join("examples", filepath.Base(filepath.Dir(file))))
	}
	return dirs
}

// checkModule holds the rules that are no matter of floors over a module inside of this one.
func checkModule(t *testing.T, dir string) {
	t.Helper()
	module, err := readTree(filepath.Join(absRoot(t), dir))
	if err != nil {
		t.Fatal(err)
	}
	found := append(module.unparsed, checkNames(module)...)
	found = append(found, checkPackageComments(module)...)
	found = append(found, checkComplexity(module)...)
	long, err := checkColumns(module.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range sorted(append(found, long...)) {
		t.Errorf("%s/%v", dir, f)
	}
}

// TestTheTableNamesEachRoomOnce also holds the reasons: a sideways import without one is no decision.
func TestTheTableNamesEachRoomOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rooms {
		if seen[r.dir] {
			t.Errorf("%s stands twice in rooms", r.dir)
		}
		seen[r.dir] = true
	}
	for _, s := range sideways {
		if s.reason == "" {
			t.Errorf("%s may import %s without a reason", s.from, s.to)
		}
	}
}
