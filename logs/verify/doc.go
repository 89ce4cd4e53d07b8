// Package verify checks every byte of a log, or of a bundle, that a reader relies on.
//
// It owns the order of the checks and the description of their outcome, the Report. It checks the segments one after
// the other, each against the one before it, in a process of its own, since damaged pages may crash that. Then it
// checks the entries that the log's writer sends, and the snapshots, and compares signed checkpoints. From the entries
// it makes the parts of the log's index again, and compares them. The packages eventlog, boltlog, index, snapshot and
// bundle own the forms of records, files, parts and snapshots.
//
// It never changes a log, never calls a log whole that it could not read, and does not compare a snapshot's state with
// the entries: replay does that.
//
// Start reading at Run; the other process runs CheckSegments.
package verify
