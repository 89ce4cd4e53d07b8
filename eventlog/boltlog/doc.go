// Package boltlog is the embedded durable log: an eventlog.Log in a directory of bbolt files.
//
// It owns the layout of the directory and of its files, how they are created, opened and appended to so that neither a
// crash nor a full disk loses what Append reported durable, and the checks that tell a whole log from a damaged one.
// It never looks into what an entry means, has no goroutine and no timer, and never changes or removes an entry.
//
// # Layout
//
// A log is a directory of segments. A segment is a bbolt file that is named by the sequence number of its first entry,
// twenty digits and ".seg". The last one is live: it is appended to. When it has reached its size or its age it is
// sealed, and from then on only read. Beside the segments stands LOCK, which a writer holds locked and in which it
// says who it is. Other files are left alone. In a segment there is a bucket for each purpose:
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
// One Append is one bbolt transaction in one segment, hence two fsyncs however many entries it has: the caller gathers
// what it has into one call. After a commit that failed, nothing is known about what reached the disk: the Log refuses
// to append until it is opened again.
//
// A new segment is begun before an Append, in steps of which each is durable before the next:
//
// 1. the live segment is sealed, in a transaction;
// 2. it is cut to what bbolt uses of it;
// 3. its successor is made under another name, brought to the disk, and then given its name.
//
// Whatever step a crash interrupts, Open does the rest. What no crash explains it refuses as damage.
//
// # Archives, and logs that begin later
//
// Sealed segments may be moved to another directory (Archive). ORIGIN, in the log's directory, then says behind which
// entry the log's own segments begin, with the record's hash and the tree there, and where those before are: it is
// durable before the first of them disappears. A reader finds them there, or where Options.Archive says: by their
// place in the chain, whatever else is there. Archive puts none beside those of another log. If they are not there,
// the log reads from a later entry on (Log.First), and asking for one before is an *ArchivedError. A log that is made
// from a part of another (CreateFrom) has ORIGIN too. Without ORIGIN, a log that does not begin with entry 1 is
// damaged.
//
// # Who may open what
//
// One writer holds LOCK exclusively. Readers share it while they open the log, and copy its last segment if it is not
// sealed (copy.go); then they let go of it, and see the log as it was, whatever a writer does. A reader that comes
// while a writer has LOCK sees every segment but the live one (Log.Live). Archive shares LOCK like a reader, for as
// long as it takes, and beside a writer too: it touches no segment that a writer may. ORIGIN.lock lets one archive at
// a time.
//
// The locks are flock's: this package builds on Linux, macOS and the BSDs.
//
// Start reading at Log (log.go), then rotate.go for how a segment follows another, segment.go for one segment, open.go
// for what is checked and mended, archive.go and archived.go for what was moved away.
package boltlog
