// Package boltlog is the embedded durable log: an eventlog.Log in a directory of bbolt files.
//
// It owns the layout of the directory and its files. It creates, opens and appends to them in such a way that neither
// a crash nor a full disk loses entries that Append reported durable. It owns the checks that tell a whole log from a
// damaged one. It never looks into the meaning of an entry, has no goroutine and no timer, and never changes or
// removes an entry.
//
// # Layout
//
// A log is a directory of segments. A segment is a bbolt file with the sequence number of its first entry as its name,
// twenty digits and ".seg". The last one is live: entries are appended to it. When it has reached its maximal size or
// age it is sealed, and from then on only read. The file LOCK is beside the segments. A writer keeps it locked, and
// writes into it who it is. Other files are left alone. A segment has a bucket for each purpose:
//
//	meta  "type" names the file as a Rollcall log, "format" is the layout's version (4 bytes, big endian),
//	      "first" the first entry's number (8 bytes), "previous" the hash of the record before it, "tree" the
//	      hash tree over all entries before it (package merkle), "last" the number of the last entry, which
//	      each Append notes, and "sealed", in a sealed segment only, the last entry's number, its record's
//	      hash and the tree up to it
//	log   8-byte big-endian sequence number → record (eventlog.AppendRecord), with no gap
//	snap  empty for now: room for snapshots
//
// # Durability
//
// One Append is one bbolt transaction in one segment, hence two fsyncs however many entries it has: callers should
// gather many entries into one call. After a failed commit it is unknown which writes reached the disk: the Log
// refuses to append until it is opened again.
//
// A new segment is begun before an Append, in steps that are each durable before the next:
//
// 1. the live segment is sealed, in a transaction;
// 2. it is cut to the part that bbolt uses;
// 3. its successor is made under another name, brought to the disk, and then given its name.
//
// If a crash interrupts a step, Open does the rest. Open treats a state that no crash can leave as damage.
//
// # Archives, and logs that begin later
//
// Sealed segments may be moved to another directory (Archive). The file ORIGIN, in the log's directory, then names the
// entry after which the log's own segments begin, with the record's hash and the tree there. It also names the
// directories of the earlier segments. It is durable before the first of them is removed. A reader finds them there, or
// in Options.Archives. It recognises them by their place in the chain, whatever other files there are. Archive does not
// put them into a directory with segments of another log.
//
// If they are missing, the log reads from a later entry on (Log.First), and a request for an earlier one returns an
// *ArchivedError. A log that is made from a part of another (CreateFrom) has ORIGIN too. Without ORIGIN, a log that
// does not begin with entry 1 is damaged.
//
// # Who may open a log
//
// One writer holds LOCK exclusively. Readers share it while they open the log, and copy its last segment if it is not
// sealed (copy.go). Then they release it, and keep seeing the log as it was, whatever a writer does. A reader that
// comes while a writer has LOCK sees every segment but the live one (Log.Live). Archive shares LOCK like a reader
// while it runs, and also runs beside a writer: it touches no segment that a writer may. ORIGIN.lock allows one
// archiver at a time.
//
// The locks are flock's: this package builds on Linux, macOS and the BSDs.
//
// Start reading at Log (log.go). Then read rotate.go for the change from one segment to the next, segment.go for one
// segment, open.go for checks and repairs, and archive.go and archived.go for archived segments.
package boltlog
