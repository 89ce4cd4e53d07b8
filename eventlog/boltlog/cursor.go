package boltlog

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// batchSize is about how many bytes a cursor copies out of a file in one transaction.
const batchSize = 256 << 10

// A cursor goes through the records of a log in batches: fill copies records out of a segment, drain decodes
// and checks them. No transaction is open between the two, so whoever reads may take as long as it likes.
type cursor struct {
	next   uint64   // sequence number of the next entry to decode
	prev   [32]byte // hash of the record before it, once linked
	linked bool
	seg    Facts // where the batch is from
	batch  []byte
	ends   []int
	gap    error // what is wrong behind the batch
}

// fill copies the next records, up to entry last, out of s, which holds the next one. It may fail with
// bolterrors.ErrDatabaseNotOpen, and be called again with the same segment opened once more.
func (c *cursor) fill(s *Segment, last uint64) error {
	c.seg, c.batch, c.ends, c.gap = s.Facts, c.batch[:0], c.ends[:0], nil
	return s.view(c.next, func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketLog)
		if err := c.link(s, b); err != nil {
			return err
		}
		at := b.Cursor()
		k, rec := at.First()
		if c.next > s.First {
			// From the entry before on, so that nothing between the two is passed over.
			at.Seek(key(c.next - 1))
			k, rec = at.Next()
		}
		for seq := c.next; seq <= last && len(c.batch) < batchSize; seq++ {
			if k == nil || len(k) != 8 || binary.BigEndian.Uint64(k) != seq {
				c.gap = s.damaged(seq, errMissing)
				return nil // what is before the gap is good
			}
			c.batch = append(c.batch, rec...)
			c.ends = append(c.ends, len(c.batch))
			k, rec = at.Next()
		}
		return nil
	})
}

// link finds the hash of the record before the first one that is read, which the first must carry.
func (c *cursor) link(s *Segment, b *bolt.Bucket) error {
	if c.linked {
		return nil
	}
	c.linked, c.prev = true, s.Previous
	if c.next > s.First {
		rec := b.Get(key(c.next - 1))
		if rec == nil {
			return s.damaged(c.next-1, errMissing)
		}
		c.prev = eventlog.HashRecord(rec)
	}
	return nil
}

// drain yields what fill copied, and says whether to go on.
func (c *cursor) drain(yield func(eventlog.Entry, error) bool) bool {
	start := 0
	for _, end := range c.ends {
		e, err := c.decode(c.batch[start:end])
		if err != nil {
			yield(eventlog.Entry{}, err)
			return false
		}
		if !yield(e, nil) {
			return false
		}
		start = end
	}
	if c.gap != nil {
		yield(eventlog.Entry{}, c.gap)
		return false
	}
	return true
}

// decode returns the next entry, checked.
func (c *cursor) decode(rec []byte) (eventlog.Entry, error) {
	e, prev, err := eventlog.DecodeRecord(rec)
	var hash [32]byte
	if err == nil {
		hash = eventlog.HashRecord(rec)
	}
	switch {
	case err != nil:
	case e.Seq != c.next:
		err = fmt.Errorf("its record is that of entry %d", e.Seq)
	case prev != c.prev:
		err = fmt.Errorf("it follows a record of hash %x, but the one before it has %x", prev, c.prev)
	case c.seg.Sealed && e.Seq == c.seg.Last && hash != c.seg.Hash:
		err = fmt.Errorf("its record has the hash %x, but the segment was sealed with %x", hash, c.seg.Hash)
	}
	if err != nil {
		return eventlog.Entry{}, &eventlog.DamagedError{Path: c.seg.Path, Seq: c.next, Err: err}
	}
	c.next++
	c.prev = hash
	return e, nil
}
