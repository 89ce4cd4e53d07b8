package boltlog

import (
	"context"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// batchSize is the approximate number of bytes that a cursor copies from a file in one transaction.
const batchSize = 256 << 10

// A cursor reads the records of a log in batches: fill copies records from a segment, drain decodes and checks them.
// No transaction is open between the two, so a reader may take its time.
type cursor struct {
	ctx    context.Context // when it ends, so does drain
	next   uint64          // sequence number of the next entry to decode
	chain  eventlog.Chain  // the chain before next, once linked
	linked bool
	seg    Facts // the batch's segment
	batch  []byte
	ends   []int
	gap    error // the fault after the batch

	decoder eventlog.Decoder // of the entries
}

// fill copies the next records, up to entry last, from s, which holds the next one. If it fails with
// bolterrors.ErrDatabaseNotOpen, it may be called again with the same segment reopened.
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
			// Begin with the entry before, so that a gap between the two is noticed.
			at.Seek(key(c.next - 1))
			k, rec = at.Next()
		}
		for seq := c.next; seq <= last && len(c.batch) < batchSize; seq++ {
			if k == nil || len(k) != 8 || binary.BigEndian.Uint64(k) != seq {
				c.gap = s.damaged(seq, errMissing)
				return nil // the records before the gap are good
			}
			c.batch = append(c.batch, rec...)
			c.ends = append(c.ends, len(c.batch))
			k, rec = at.Next()
		}
		return nil
	})
}

// link finds the hash of the record before the first one that is read. The first one must have it.
func (c *cursor) link(s *Segment, b *bolt.Bucket) error {
	if c.linked {
		return nil
	}
	c.linked, c.chain = true, eventlog.Chain{Seq: c.next - 1, Hash: s.Previous}
	if c.next > s.First {
		rec := b.Get(key(c.next - 1))
		if rec == nil {
			return s.damaged(c.next-1, errMissing)
		}
		c.chain.Hash = eventlog.HashRecord(rec)
	}
	return nil
}

// drain yields the copied records, as decode (entry or record) returns them, and reports whether to continue.
func drain[T any](c *cursor, decode func(rec []byte) (T, error), yield func(T, error) bool) bool {
	var none T
	start := 0
	for _, end := range c.ends {
		if c.ctx.Err() != nil {
			yield(none, context.Cause(c.ctx))
			return false
		}
		v, err := decode(c.batch[start:end])
		if err != nil {
			yield(none, err)
			return false
		}
		if !yield(v, nil) {
			return false
		}
		start = end
	}
	if c.gap != nil {
		yield(none, c.gap)
		return false
	}
	return true
}

// entry returns the next entry, checked.
func (c *cursor) entry(rec []byte) (eventlog.Entry, error) {
	e, err := c.decoder.Entry(&c.chain, rec)
	return e, c.pass(err)
}

// record returns the next record, checked except for its payload.
func (c *cursor) record(rec []byte) (eventlog.Record, error) {
	r, err := c.chain.Record(rec)
	return r, c.pass(err)
}

// pass moves to the next record. err is the chain's complaint about it.
func (c *cursor) pass(err error) error {
	if err == nil && c.seg.Sealed && c.chain.Seq == c.seg.Last && c.chain.Hash != c.seg.Hash {
		err = fmt.Errorf("its record has the hash %x, but the segment was sealed with %x", c.chain.Hash, c.seg.Hash)
	}
	if err != nil {
		return c.damaged(err)
	}
	c.next++
	return nil
}

// damaged is the error that the next entry is damaged, or from a newer version.
func (c *cursor) damaged(err error) error { return eventlog.DamageAt(c.seg.Path, c.next, err) }
