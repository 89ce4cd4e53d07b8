// Package outside tests what other modules may import of this one. docs/PLUGINS.md has the list, as a table. The test
// writes a module that uses every package and identifier of that table, and compiles it without a network.
//
// examples/rack-limit shows how such a module works. The test here finds out whether the docs name something that other
// modules cannot use. To make another package public, add a row to the table.
//
// Start reading at outside_test.go.
package outside
