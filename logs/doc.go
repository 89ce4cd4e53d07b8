// Package logs opens logs by name: the one place that knows what kinds of logs there are and where their snapshots
// stand. A name is a path or a URL:
//
//	jobs.log, /var/lib/rollcall/jobs.log, file:///var/lib/rollcall/jobs.log
//	               the directory of a log, or a bundle, which is one file
//	nats://host:4222/NAME, tls://host:4222/NAME
//	               a log in a stream of NATS JetStream; what else such a name may say is in package jetstream. It
//	               has no files; its snapshots are objects in the bucket beside the stream
//
// For reading, Open returns a Source: the log with its snapshots, as far as it can be read. Beside a writer that is
// up to the last entry that this writer tells (package localapi), or the last sealed one if it tells nothing. A
// Source knows from which entry on the state is known (Base), restores states from snapshots, and adds to the errors
// of reading what can be done about them. Reading never changes a log.
//
// For writing, Create and Continue return a Kept log. It is served to readers beside this process until it is closed.
// Continue refuses a log that has lost its end: a snapshot says that there were more entries.
//
// The snapshots of a log in a directory are files in it, and those of a log in a stream objects of a bucket
// (bucket.go), with the same names and bytes. That bucket may be out of reach, or behind, or of an earlier stream of
// the same name: nothing of that puts the log in doubt. Its snapshots are then reported and not used.
//
// The package never prints. What is worth a note and is no error goes to Options.Report; how far long work has come
// goes to Options.Progress. It decides nothing about a log's contents: packages below it verify (logs/verify),
// archive (logs/archive), export and import (logs/bundles), and sign and prove (logs/audit).
//
// Start reading at Open in open.go, then source.go.
package logs
