package lint

import (
	"fmt"
	"strings"
)

// floorTables are the tables of floors.go.
type floorTables struct {
	rooms    []room
	sideways []neighbours
	backends []backendUser
}

// checkTables reports rows that nothing needs: rooms without files that are not planned, rooms with files that are,
// and permissions to import that no file makes use of. Test files need no permission.
func checkTables(t *tree, tables floorTables) []finding {
	usedRoom := map[string]bool{}
	usedSideways, usedBackends := map[neighbours]bool{}, map[backendUser]bool{}
	for _, p := range t.packages {
		from, _ := roomIn(tables.rooms, p.dir)
		usedRoom[from.dir] = true
		for _, target := range p.productImports(t.module) {
			to, _ := roomIn(tables.rooms, target)
			for _, s := range tables.sideways {
				if from.floor == to.floor && matches(s.from, p.dir) && matches(s.to, target) {
					usedSideways[s] = true
				}
			}
			for _, b := range tables.backends {
				if b.backend == target && matches(b.user, p.dir) && !from.testSupport {
					usedBackends[b] = true
				}
			}
		}
	}

	var out []finding
	needless := func(format string, args ...any) {
		out = append(out, finding{"internal/lint/floors.go", 1, "floors", fmt.Sprintf(format, args...)})
	}
	for _, r := range tables.rooms {
		if r.planned == usedRoom[r.dir] {
			needless("the room %s has files: %v, is planned: %v; a room is one or the other: correct rooms",
				r.dir, usedRoom[r.dir], r.planned)
		}
	}
	for _, s := range tables.sideways {
		if !usedSideways[s] {
			needless("no file of %s imports %s: remove the pair from sideways", s.from, s.to)
		}
	}
	for _, b := range tables.backends {
		if !usedBackends[b] {
			needless("no file of %s imports %s: remove the row from backends", b.user, b.backend)
		}
	}
	return out
}

// productImports returns the packages of the module that files of p import, test files excepted.
func (p *pkg) productImports(module string) (dirs []string) {
	for _, f := range p.files {
		if f.test {
			continue
		}
		for _, spec := range f.syntax.Imports {
			if target, ok := strings.CutPrefix(importPath(spec), module+"/"); ok {
				dirs = append(dirs, target)
			}
		}
	}
	return dirs
}
