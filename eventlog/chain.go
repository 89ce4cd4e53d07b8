package eventlog

import (
	"context"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// A Chain is the end of a chain of records: the next record has to continue it. The zero Chain is the end of an empty
// log.
//
// The invariant of a log: each record continues the one before it. For example, only one kind of record may follow the
// Chain {7, h}: its header says that it is entry 8, and that h is the hash of the record before it. Then the Chain is
// {8, hash of that record}.
type Chain struct {
	// Seq is the number of the last entry.
	Seq uint64
	// Hash is the hash of its record (HashRecord).
	Hash [32]byte
}

// End returns the chain's end at o.
func (o Origin) End() Chain { return Chain{Seq: o.Seq, Hash: o.Hash} }

// Append appends the record of e, which must be the next entry, to dst, and makes it the end. The error is an
// *EntryError; then dst and the chain are as they were.
func (c *Chain) Append(dst []byte, e Entry) ([]byte, error) {
	if e.Seq != c.Seq+1 {
		return dst, &EntryError{Seq: e.Seq, Err: fmt.Errorf("out of sequence: want %d", c.Seq+1)}
	}
	out, err := AppendRecord(dst, e, c.Hash)
	if err != nil {
		return dst, err
	}
	*c = Chain{Seq: e.Seq, Hash: HashRecord(out[len(dst):])}
	return out, nil
}

// Record checks that rec, except for its payload, is the next record. If so, rec becomes the end of the chain. An error
// says what is wrong with rec; the chain is then as it was.
func (c *Chain) Record(rec []byte) (Record, error) {
	seq, prev, err := RecordPlace(rec)
	if err != nil {
		return Record{}, err
	}
	if err := c.pass(rec, seq, prev); err != nil {
		return Record{}, err
	}
	return Record{Seq: seq, Bytes: rec, Hash: c.Hash}, nil
}

// Entry is Record, and decodes the entry. It does not read the payload before it knows that the record is the next one.
func (c *Chain) Entry(rec []byte) (Entry, error) { return c.entry(rec, nil) }

// entry is Entry, decoded by d.
func (c *Chain) entry(rec []byte, d *Decoder) (Entry, error) {
	seq, prev, err := RecordPlace(rec)
	if err != nil {
		return Entry{}, err
	}
	next := *c
	if err := next.pass(rec, seq, prev); err != nil {
		return Entry{}, err
	}
	e, _, err := decodeChecked(rec, d)
	if err != nil {
		return Entry{}, err
	}
	*c = next
	return e, nil
}

// pass moves the end behind rec, whose header says that it is entry seq and that prev is the hash of the record before
// it.
func (c *Chain) pass(rec []byte, seq uint64, prev [32]byte) error {
	switch {
	case seq != c.Seq+1:
		return fmt.Errorf("its record is that of entry %d", seq)
	case prev != c.Hash:
		return fmt.Errorf("it follows a record of hash %x, but the one before it has %x", prev, c.Hash)
	}
	*c = Chain{Seq: seq, Hash: HashRecord(rec)}
	return nil
}

// A Batch is the records of one append, encoded and chained. The zero Batch is ready; it may be used again.
type Batch struct {
	// First is the number of the first entry.
	First uint64
	// Bytes has the records one behind the other. Ends has the offset at which each of them ends.
	Bytes []byte
	Ends  []int
	// Hashes has the hash of each record.
	Hashes [][32]byte
}

// keptBatch is the number of bytes that a Batch keeps for its next use: one huge batch should not hold its memory for
// ever.
const keptBatch = 4 << 20

// Encode makes b the records of entries behind end, and returns the new end. Every Log calls it, or Chain.Append and
// Limit, before it writes anything. The error is an *EntryError or a *LimitError; b must not be used then.
func (b *Batch) Encode(end Chain, entries []Entry, limit Limit) (Chain, error) {
	if err := limit.check(len(entries), 0); err != nil {
		return end, err
	}
	if cap(b.Bytes) > keptBatch {
		b.Bytes = nil
	}
	b.First, b.Bytes, b.Ends, b.Hashes = end.Seq+1, b.Bytes[:0], b.Ends[:0], b.Hashes[:0]
	for i := range entries {
		start := len(b.Bytes)
		var err error
		if b.Bytes, err = end.Append(b.Bytes, entries[i]); err != nil {
			return end, err
		}
		if err := limit.checkRecord(entries[i].Seq, len(b.Bytes)-start); err != nil {
			return end, err
		}
		if err := limit.check(len(entries), len(b.Bytes)); err != nil {
			return end, err
		}
		b.Ends = append(b.Ends, len(b.Bytes))
		b.Hashes = append(b.Hashes, end.Hash)
	}
	return end, nil
}

// Record returns record i of the batch, counted from 0.
func (b *Batch) Record(i int) []byte {
	start := 0
	if i > 0 {
		start = b.Ends[i-1]
	}
	return b.Bytes[start:b.Ends[i]:b.Ends[i]]
}

// TreeAt returns the hash tree over the first size entries. It reads the entries behind the largest smaller tree that
// the log knows. It returns the errors of RecordReader.
func TreeAt(ctx context.Context, log RecordReader, size uint64) (merkle.Tree, error) {
	o, err := OriginAt(ctx, log, size)
	return o.Tree, err
}

// OriginAt returns the place behind entry seq, where another log may continue. It reads the same entries as TreeAt.
func OriginAt(ctx context.Context, log RecordReader, seq uint64) (Origin, error) {
	tree, err := log.KnownTree(ctx, seq)
	if err != nil {
		return Origin{}, err
	}
	if tree.Size == seq {
		hash, err := log.RecordHash(ctx, seq)
		return Origin{Seq: seq, Hash: hash, Tree: tree}, err
	}
	for r, err := range log.Records(ctx, tree.Size+1) {
		if err != nil {
			return Origin{}, err
		}
		tree.Add(r.Hash)
		if r.Seq == seq {
			return Origin{Seq: seq, Hash: r.Hash, Tree: tree}, nil
		}
	}
	if _, err := log.RecordHash(ctx, seq); err != nil {
		return Origin{}, err
	}
	return Origin{}, fmt.Errorf("there is no entry %d: the last is %d", seq, tree.Size)
}
