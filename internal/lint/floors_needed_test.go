package lint

import (
	"slices"
	"testing"
)

// TestRowsOfTheTablesThatNothingNeedsAreFound has each kind of row once as it is needed, and once as it is not. Imports
// of a test file need no row, and neither do imports of a backend by test support.
func TestRowsOfTheTablesThatNothingNeedsAreFound(t *testing.T) {
	module := parseModule(t, `
-- a/a.go --
package a
import _ "m/b"
-- a/a_test.go --
package a
import _ "m/c"
-- b/a.go --
package b
-- c/a.go --
package c
import _ "m/store"
-- c/d/a.go --
package d
-- store/a.go --
package store
-- support/a.go --
package support
import _ "m/store"
`)
	tables := floorTables{
		rooms: []room{
			{dir: "a", floor: 1}, {dir: "b", floor: 1}, {dir: "c", floor: 1}, {dir: "c/...", floor: 1},
			{dir: "store", floor: 0}, {dir: "support", floor: 2, testSupport: true},
			{dir: "later", floor: 3, planned: true},
			{dir: "gone", floor: 3}, {dir: "a/...", floor: 1},
		},
		sideways: []neighbours{
			{"a", "b", "needed"}, {"a", "c", "by a test only"}, {"b", "a", "the other way"},
			{"c", "store", "it is on a lower floor"},
		},
		backends: []backendUser{
			{"store", "c", "needed"}, {"store", "a", "no such import"}, {"store", "support", "test support"},
		},
	}
	tables.rooms = append(tables.rooms, room{dir: "built", floor: 3, planned: true})
	module.packages = append(module.packages, parseModule(t, "-- built/a.go --\npackage built\n").packages...)
	var got []string
	for _, f := range checkTables(module, tables) {
		got = append(got, f.advice)
	}
	want := []string{
		"the room gone has files: false, is planned: false; a room is one or the other: correct rooms",
		"the room a/... has files: false, is planned: false; a room is one or the other: correct rooms",
		"the room built has files: true, is planned: true; a room is one or the other: correct rooms",
		"no file of a imports c: remove the pair from sideways",
		"no file of b imports a: remove the pair from sideways",
		"no file of c imports store: remove the pair from sideways",
		"no file of a imports store: remove the row from backends",
		"no file of support imports store: remove the row from backends",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
