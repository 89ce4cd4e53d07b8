// Package logs opens logs by name. It is the only package that knows the kinds of logs and the places of their
// snapshots. A name is a path or a URL:
//
//	jobs.log, /var/lib/rollcall/jobs.log, file:///var/lib/rollcall/jobs.log
//	               the directory of a log, or a bundle, which is one file, or a dump of a cluster
//	-              a dump, read from the standard input
//	nats://host:4222/NAME, tls://host:4222/NAME
//	               a log in a stream of NATS JetStream; package jetstream describes such names in full. It
//	               has no files; its snapshots are objects in the bucket beside the stream
//
// For reading, Open returns a Source: the log with its snapshots, as far as it can be read. Beside a writer that is up
// to the last entry that the writer sends (package localapi), or the last sealed one if it sends none. A Source knows
// the first entry from which the state is known (Base), and restores states from snapshots. It adds advice to the
// errors of reading. Reading never changes a log.
//
// Package dump makes a log in memory of a dump, which others have written about a cluster. A Source of a dump has no
// snapshots and no index.
//
// For writing, Create and Continue return a Kept log. It is served to readers beside this process until it is closed.
// Continue refuses a log that has lost its end: a snapshot shows that there were more entries.
//
// The snapshots of a log in a directory are files in it. The snapshots of a log in a stream are objects of a bucket
// (bucket.go), with the same names and bytes. That bucket may be unreachable, outdated, or left from an earlier stream
// of the same name. Such snapshots are reported and not used; the log itself stays trusted.
//
// The package never prints. Notes for a person that are no errors go to Options.Report; the progress of long work goes
// to Options.Progress. It decides nothing about a log's contents: packages below it verify (logs/verify), archive
// (logs/archive), export and import (logs/bundles), and sign and prove (logs/audit).
//
// Start reading at Open in open.go, then source.go.
package logs
