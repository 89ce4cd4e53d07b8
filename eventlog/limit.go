package eventlog

// A Limit is how much one Append of a log takes. All three are above zero.
type Limit struct {
	// Entries is how many entries one Append may have.
	Entries int
	// Bytes is how many bytes their records may have together, Record or more.
	Bytes int
	// Record is how many bytes each record may have, MaxRecord at the most.
	Record int
}

// WideLimit is the limit of a log that has none of its own: it bounds the memory that one append takes.
var WideLimit = Limit{Entries: 1 << 17, Bytes: 256 << 20, Record: MaxRecord}

// Holds reports whether one Append takes so many entries whose encodings have so many bytes together (Encoding.Len).
// Whoever has more to append splits it; there is always room for a single entry whose record does not exceed Record.
//
// For example, a writer that gathers entries hands them over before the one with which Holds would be false.
func (l Limit) Holds(entries, encoded int) bool {
	return entries <= l.Entries && encoded+entries*(headerSize+checksumSize) <= l.Bytes
}

// check returns a *LimitError if a batch of so many entries, with records of so many bytes, exceeds the limit.
func (l Limit) check(entries, size int) error {
	if entries > l.Entries || size > l.Bytes {
		return &LimitError{Limit: l, Entries: entries, Bytes: size}
	}
	return nil
}

// checkRecord returns an *EntryError if the record of entry seq, which has so many bytes, exceeds the limit.
func (l Limit) checkRecord(seq uint64, size int) error {
	if size > l.Record {
		return &EntryError{Seq: seq, Err: tooLargeFor(size, l.Record)}
	}
	return nil
}
