// Package boltlog is the embedded durable log: an eventlog.Log in one bbolt file.
//
// It owns the file's layout, how it is created, opened and appended to so that neither a crash nor a full
// disk loses what Append reported durable, and the checks that tell a whole log from a damaged one. It
// never looks into what an entry means, has no goroutine and no timer, and never changes or removes an
// entry.
//
// Layout: a bucket for each purpose.
//
//	meta  "type" names the file as a Rollcall log, "format" is the layout's version (4 bytes, big endian)
//	log   8-byte big-endian sequence number → record (eventlog.AppendRecord), from 1 with no gap
//	snap  empty for now: room for snapshots
//
// A log is a single file for now. Sealed segments, which other processes may read while the log is
// written, are to come: they are files of this same layout, in a directory, so this package's Log stays
// what one of them is.
//
// One Append is one bbolt transaction, hence two fsyncs however many entries it has: the caller gathers
// what it has into one call. After a commit that failed, nothing is known of what reached the disk: the
// Log refuses to append until it is opened again.
//
// Start reading at Log (log.go), then create.go for how a file comes to be.
package boltlog
