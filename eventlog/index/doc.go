// Package index finds the entries of a log that may name an object, without reading all entries, and counts the
// contents of ranges of entries.
//
// An index consists of parts. A Part covers a range of entries. It is derived from them and never the truth: it can be
// missing, damaged or from another log. Then it is made again from the entries, or the query runs without it. The hash
// of the record of its last entry ties a part to its log.
//
// An answer may have too many entries, never too few: names are kept as hashes of 32 bits, so an entry may be returned
// that does not name the object. Callers read the returned entries and skip the ones that do not concern them. So an
// answer built from these entries is the same as one built from all entries.
//
// A Part takes about 13 bytes per entry of a busy log. A name is in its entry's record in full, and takes at most ten
// bytes here, so an index is always smaller than its log.
//
// The package owns the format of a part and the directory of parts. It has no goroutine, and does not know its
// readers: see package logs.
//
// Start reading at Key (key.go), then part.go and dir.go.
package index
