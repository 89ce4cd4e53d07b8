package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// ErrReadOnly is returned by Append on a log that was opened with OpenReadOnly.
var ErrReadOnly = errors.New("log is open for reading only")

// fillPercent is how full bbolt leaves its pages: keys only ever grow, so a page is never inserted into.
const fillPercent = 0.95

// A Log is a log in a bbolt file. It is safe for concurrent use: entries may be read while others are
// appended.
type Log struct {
	path     string
	readOnly bool
	db       *bolt.DB
	file     *os.File // db's

	mu      sync.Mutex
	last    uint64   // sequence number of the last durable entry
	prev    [32]byte // hash of its record
	failed  bool     // an append has failed with unknown outcome
	closed  bool
	records []byte // scratch of Append
	ends    []int  // where each record ends in it
}

var _ eventlog.Log = (*Log)(nil)

// Path returns the path that the log was opened by.
func (l *Log) Path() string { return l.path }

// Append implements eventlog.Log. All entries are written in one transaction. An entry that the format
// cannot hold, or a wrong sequence number, is an *eventlog.EntryError and leaves the log as it was.
func (l *Log) Append(expectedLast uint64, entries []eventlog.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return eventlog.ErrClosed
	case l.readOnly:
		return ErrReadOnly
	case l.failed:
		return eventlog.ErrUnknownOutcome
	case l.last != expectedLast:
		return &eventlog.ConflictError{Expected: expectedLast, Actual: l.last}
	}
	if err := eventlog.CheckSequence(expectedLast, entries); err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	prev, err := l.encode(entries)
	if err != nil {
		return err
	}
	if err := l.commit(entries[0].Seq); err != nil {
		l.failed = true
		return fmt.Errorf("%s: append entries %d to %d, outcome unknown: %w",
			l.path, entries[0].Seq, entries[len(entries)-1].Seq, err)
	}
	l.last, l.prev = entries[len(entries)-1].Seq, prev
	return nil
}

// encode fills l.records and l.ends, and returns the last record's hash.
func (l *Log) encode(entries []eventlog.Entry) ([32]byte, error) {
	const keep = 4 << 20
	if cap(l.records) > keep {
		l.records = nil // one huge batch should not hold its memory for good
	}
	l.records, l.ends = l.records[:0], l.ends[:0]
	prev := l.prev
	for i := range entries {
		start := len(l.records)
		var err error
		if l.records, err = eventlog.AppendRecord(l.records, entries[i], prev); err != nil {
			return prev, err
		}
		prev = eventlog.HashRecord(l.records[start:])
		l.ends = append(l.ends, len(l.records))
	}
	return prev, nil
}

// commit writes what encode prepared, from the sequence number first on.
func (l *Log) commit(first uint64) error {
	return guard(func() error {
		return l.db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucketLog)
			b.FillPercent = fillPercent
			keys := make([]byte, 8*len(l.ends))
			start := 0
			for i, end := range l.ends {
				key := keys[8*i : 8*i+8]
				binary.BigEndian.PutUint64(key, first+uint64(i))
				if err := b.Put(key, l.records[start:end]); err != nil {
					return err
				}
				start = end
			}
			return nil
		})
	})
}

// Last implements eventlog.Log.
func (l *Log) Last() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, eventlog.ErrClosed
	}
	return l.last, nil
}

// Close implements eventlog.Log. It waits for reads of the file that are under way.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return eventlog.ErrClosed
	}
	l.closed, l.records, l.ends = true, nil, nil
	if err := l.db.Close(); err != nil {
		return fmt.Errorf("close %s: %w", l.path, err)
	}
	return nil
}

// Read implements eventlog.Log. Every record's checksum, its sequence number and its link to the record
// before it are checked; the record before the first one is read for that too. The caller may append
// within the loop, and may take as long as it likes: no transaction is open while it holds an entry.
func (l *Log) Read(from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		last, err := l.Last()
		if err != nil {
			yield(eventlog.Entry{}, err)
			return
		}
		from = max(from, 1)
		if from > last {
			return
		}
		r := reader{log: l, next: from, last: last}
		if err := r.link(); err != nil {
			yield(eventlog.Entry{}, err)
			return
		}
		for r.next <= r.last {
			if err := r.fill(); err != nil {
				yield(eventlog.Entry{}, err)
				return
			}
			start := 0
			for _, end := range r.ends {
				e, err := r.decode(r.batch[start:end])
				if err != nil {
					yield(eventlog.Entry{}, err)
					return
				}
				if !yield(e, nil) {
					return
				}
				start = end
			}
			if r.gap != nil {
				yield(eventlog.Entry{}, r.gap)
				return
			}
		}
	}
}

// batchSize is about how many bytes a reader copies out of the file in one transaction.
const batchSize = 256 << 10

// A reader goes through the records of a log in batches.
type reader struct {
	log        *Log
	next, last uint64   // sequence numbers of the next entry to decode and the last one
	prev       [32]byte // hash of the record before the next one
	batch      []byte
	ends       []int
	gap        error // what is wrong behind the batch
}

// link reads the record before the first one, which the first must carry the hash of.
func (r *reader) link() error {
	if r.next == 1 {
		return nil
	}
	return r.view(r.next-1, func(b *bolt.Bucket) error {
		rec := b.Get(key(r.next - 1))
		if rec == nil {
			return r.log.damaged(r.next-1, errMissing)
		}
		r.prev = eventlog.HashRecord(rec)
		return nil
	})
}

// fill copies the next records out of the file.
func (r *reader) fill() error {
	r.batch, r.ends = r.batch[:0], r.ends[:0]
	return r.view(r.next, func(b *bolt.Bucket) error {
		c := b.Cursor()
		k, rec := c.First()
		if r.next > 1 {
			// From the entry before on, so that nothing between the two is passed over.
			c.Seek(key(r.next - 1))
			k, rec = c.Next()
		}
		for seq := r.next; seq <= r.last && len(r.batch) < batchSize; seq++ {
			if k == nil || len(k) != 8 || binary.BigEndian.Uint64(k) != seq {
				r.gap = r.log.damaged(seq, errMissing)
				return nil // what is before the gap is good
			}
			r.batch = append(r.batch, rec...)
			r.ends = append(r.ends, len(r.batch))
			k, rec = c.Next()
		}
		return nil
	})
}

// decode returns the next entry, checked.
func (r *reader) decode(rec []byte) (eventlog.Entry, error) {
	e, prev, err := eventlog.DecodeRecord(rec)
	switch {
	case err != nil:
	case e.Seq != r.next:
		err = fmt.Errorf("its record is that of entry %d", e.Seq)
	case prev != r.prev:
		err = fmt.Errorf("it follows a record of hash %x, but the one before it has %x", prev, r.prev)
	}
	if err != nil {
		return eventlog.Entry{}, r.log.damaged(r.next, err)
	}
	r.next++
	r.prev = eventlog.HashRecord(rec)
	return e, nil
}

// view runs f on the log's bucket in a read transaction; a fault is damage at entry seq.
func (r *reader) view(seq uint64, f func(b *bolt.Bucket) error) error {
	err := guard(func() error {
		return r.log.db.View(func(tx *bolt.Tx) error { return f(tx.Bucket(bucketLog)) })
	})
	var fault *faultError
	switch {
	case errors.As(err, &fault):
		return r.log.damaged(seq, err)
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return eventlog.ErrClosed
	}
	return err
}

var errMissing = errors.New("it is missing")

func (l *Log) damaged(seq uint64, err error) error {
	return &eventlog.DamagedError{Path: l.path, Seq: seq, Err: err}
}

func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
