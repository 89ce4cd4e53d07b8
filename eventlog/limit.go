package eventlog

// A Limit is how much one Append of a log takes. All three are above zero.
type Limit struct {
	// Entries is how many entries one Append may have.
	Entries int
	// Bytes is how many bytes their records may have together (RecordSize).
	Bytes int
	// Record is how many bytes each record may have, MaxRecord at the most.
	Record int
}

// WideLimit is the limit of a log that has none of its own: an append of a million entries or of 1 GiB is a mistake.
var WideLimit = Limit{Entries: 1 << 20, Bytes: 1 << 30, Record: MaxRecord}

// Holds reports whether one Append takes so many entries whose encodings have so many bytes together (Encoding.Len).
// Whoever has more to append splits it; there is always room for a single entry whose record does not exceed Record.
//
// For example, a writer that gathers entries hands them over before the one with which Holds would be false.
func (l Limit) Holds(entries, encoded int) bool {
	return entries <= l.Entries && encoded+entries*(headerSize+checksumSize) <= max(l.Bytes, l.Record)
}

// check returns a *LimitError if a batch of so many entries, with records of so many bytes, exceeds the limit.
func (l Limit) check(entries, size int) error {
	if entries > l.Entries || size > max(l.Bytes, l.Record) {
		return &LimitError{Limit: l, Entries: entries, Bytes: size}
	}
	return nil
}
