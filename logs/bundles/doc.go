// Package bundles makes bundles from logs and logs from bundles: Export writes a range of a log to a new file, Import
// makes a new log from such a file.
//
// It owns the choice of a bundle's range and first state. Its results appear whole and durable, or not at all. The
// format of a bundle belongs to package bundle. It never writes over a file, and never puts a snapshot into a bundle
// whose state is not the one that the entries make, as far as that can be known.
//
// Start reading at Export.
package bundles
