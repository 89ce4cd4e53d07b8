// Package index tells which entries of a log may name an object, without reading them, and what ranges of entries
// hold, counted.
//
// An index is made of parts. A Part is of a range of entries. It is derived from them and is never the truth: it can
// be missing, damaged or of another log, and is then made again from the entries, or done without. What ties it to its
// log is the hash of the record of its last entry.
//
// What it answers is more than what is asked for, and never less: names are kept as hashes of 32 bits, so that an
// entry may be told that does not name the object. Whoever asks reads the entries, and skips what does not concern
// him. So an answer that is made of these entries is the one that all entries give.
//
// A Part takes about 13 bytes an entry of a busy log. What an entry names is in its record in full, and takes at most
// ten bytes here, so that an index is always smaller than its log.
//
// The package owns the form of a part and the directory of parts. It has no goroutine, and does not know who reads
// them: package logs does.
//
// Start reading at Key (key.go), then part.go and dir.go.
package index
