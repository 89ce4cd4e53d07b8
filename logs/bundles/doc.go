// Package bundles makes bundles of logs and logs of bundles: Export writes a range of a log to a new file, Import makes
// a new log of such a file.
//
// It owns the choice of a bundle's range and of the state that it begins from, and that what it makes appears whole
// and durable or not at all. The format of a bundle belongs to package bundle. It never writes over a file, and never
// puts a snapshot into a bundle that is not the state which the entries make, as far as that can be known.
//
// Start reading at Export.
package bundles
