// Package bundle owns the incident bundle: one file that carries a range of a log's entries, the state before them,
// and the facts needed to trust both. A person who gets the file needs nothing else to replay the range, to ask it for
// explanations, or to make a log of it again.
//
// It never trusts a file. Opening a Bundle reads it from end to end, and compares its checksums, the chain of its
// records, its digest and its snapshot with its manifest. Later reads are compared again. It never holds more than one
// record in memory.
//
// # Layout
//
// Integers are big endian.
//
//	"rollbndl" | format u32 | size of the manifest u32 | manifest, JSON | SHA-256 of all before
//	snapshot, if the range does not begin with entry 1 | records, one zstd stream | SHA-256 of all before
//
// Before packing, each record (eventlog.AppendRecord) follows its length, four bytes. The snapshot is the snapshot of
// the entry before the first one; it is packed already (package snapshot). The packing is zstd and not gzip because a
// bundle is unpacked at every reading of it: zstd is about three times as fast at that, makes a smaller file, and lets
// its reader bound the memory.
//
// Start reading at Manifest, then Write and Open.
package bundle
