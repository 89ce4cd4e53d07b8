// Package verify checks every byte of a log, or of a bundle, that a reader relies on.
//
// It owns the order of the checks and what is said about their outcome, the Report. Segments are checked one after the
// other, each in a process of its own which damaged pages may bring down, and each against the one before it; behind
// them what a writer tells that has the log. Then the snapshots are examined, and signed checkpoints compared. What a
// record, a file or a snapshot has to be like belongs to their packages (eventlog, boltlog, snapshot, bundle).
//
// It never changes a log, never calls whole what it could not read, and does not compare a snapshot's state with the
// entries: that is what replaying is for.
//
// Start reading at Run; CheckSegments is what the other process runs.
package verify
