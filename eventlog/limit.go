package eventlog

// A Limit says how much one Append of a log accepts. All three numbers are above zero.
type Limit struct {
	// Entries is the number of entries that one Append may have.
	Entries int
	// Bytes is the number of bytes that their records may have together, Record or more.
	Bytes int
	// Record is the number of bytes that each record may have, at most MaxRecord.
	Record int
}

// WideLimit is the limit of a log that has none of its own: it bounds the memory that one append takes.
var WideLimit = Limit{Entries: 1 << 17, Bytes: 256 << 20, Record: MaxRecord}

// Holds reports whether one Append accepts so many entries whose encodings have so many bytes together (Encoding.Len).
// A caller that has more to append splits it. There is always room for a single entry whose record does not exceed
// Record.
//
// For example, a writer that gathers entries appends them before it adds the entry with which Holds would be false.
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
