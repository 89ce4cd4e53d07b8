// Package bundle owns the incident bundle: one file that carries a range of a log's entries, the state that they begin
// from, and what must be known about both to trust them. Who gets the file needs nothing else to replay the range, to
// ask it for explanations, or to make a log of it again.
//
// It never trusts a file: a Bundle that was opened has been read from end to end, its checksums, the chain of its
// records, its digest and its snapshot compared with what the file says about itself; what is read later is compared
// again. It never holds more of the records in memory than one of them.
//
// # Layout
//
// Integers are big endian.
//
//	"rollbndl" | format u32 | size of the manifest u32 | manifest, JSON | SHA-256 of all before
//	snapshot, if the range does not begin with entry 1 | records, one zstd stream | SHA-256 of all before
//
// Before it is packed, each record (eventlog.AppendRecord) is behind its length, four bytes. The snapshot is that of
// the entry before the first one; it is packed already (package snapshot). The packing is zstd and not gzip because a
// bundle is unpacked at every reading of it: zstd is about three times as fast at that, makes a smaller file, and lets
// its reader bound the memory.
//
// Start reading at Manifest, then Write and Open.
package bundle
