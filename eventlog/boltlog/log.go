package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Options say when the live segment is sealed and a new one begun, and where archived ones are. They may differ
// each time a log is opened.
type Options struct {
	// SegmentBytes is the size that a segment does not exceed, unless one Append does. 0: no limit.
	SegmentBytes int64
	// SegmentAge is how long after a segment's first entry, by the entries' own time, none is added to it.
	// 0: no limit.
	SegmentAge time.Duration
	// Archives are directories with segments that were archived, beside those of which the log says that they are there.
	// If there are any, it is an error that one is not found.
	Archives []string
}

// DefaultOptions returns the options for everyone who has no reason for others: 256 MiB, 24 hours.
func DefaultOptions() Options { return Options{SegmentBytes: 256 << 20, SegmentAge: 24 * time.Hour} }

// A Log is a log in a directory of segments. It is safe for concurrent use: entries may be read while others
// are appended.
type Log struct {
	path     string
	opts     Options
	readOnly bool
	live     bool // a writer has the log: the live segment is not among segments
	lock     *dirLock
	damage   *eventlog.DamagedError // what reading ends with; nil for a whole log
	doubt    error                  // what it ends with otherwise; nil for nothing

	appending sync.Mutex    // held by Append and Close; guards what follows, and writes of what mu guards
	prev      [32]byte      // hash of the last record
	began     eventlog.Time // time of the live segment's first entry
	failed    bool          // an append has failed with unknown outcome
	records   []byte        // scratch of Append
	ends      []int         // where each record ends in it
	hashes    [][32]byte    // of each record

	mu       sync.Mutex // never held while the disk is waited for
	begin    *beginning // nil if the log begins with entry 1
	absent   error      // why there are no archived segments before segments
	segments []Facts    // in order, archived ones first; empty only beside a writer that has sealed none yet
	tail     *Segment   // the last segment, held open if it is not sealed
	last     uint64     // sequence number of the last durable entry
	closed   bool
}

var _ eventlog.Log = (*Log)(nil)

// Path returns the path that the log was opened by.
func (l *Log) Path() string { return l.path }

// Live says whether a writer had the log when it was opened for reading: then there are, or will be, entries
// behind Last that only the writer can tell of.
func (l *Log) Live() bool { return l.live }

// Lacks lets reading end with damage behind the last entry, because of what whoever opened the log knows from
// elsewhere: that it had more. A log in which damage was found already stays as it is. It is called before the
// Log is used by others.
func (l *Log) Lacks(why error) {
	if l.damage == nil {
		l.damage = &eventlog.DamagedError{Path: l.path, Seq: l.last + 1, Err: why}
	}
}

// Doubt lets reading end with why, which is no damage: whoever opened the log cannot tell whether it had more. It is
// called before the Log is used by others.
func (l *Log) Doubt(why error) { l.doubt = why }

// Sync brings to the disk what can be read of the log, which a writer that died may not have done: what is written
// down elsewhere of an entry must not outlive it. Sealed segments before the last were synced when they were sealed.
func (l *Log) Sync() error {
	l.mu.Lock()
	paths := []string{l.path}
	if n := len(l.segments); n > 0 {
		paths = append(paths, l.segments[n-1].Path)
	}
	l.mu.Unlock()
	for _, path := range paths {
		if err := syncPath(path); err != nil {
			return fmt.Errorf("bring the log to the disk: %w", err)
		}
	}
	return nil
}

// Append implements eventlog.Log. All entries are written in one transaction in one segment. An entry that
// the format cannot hold, or a wrong sequence number, is an *eventlog.EntryError and leaves the log as it was.
func (l *Log) Append(expectedLast uint64, entries []eventlog.Entry) error {
	l.appending.Lock()
	defer l.appending.Unlock()
	last, err := l.Last()
	switch {
	case err != nil:
		return err
	case l.readOnly:
		return eventlog.ErrReadOnly
	case l.failed:
		return eventlog.ErrUnknownOutcome
	case last != expectedLast:
		return &eventlog.ConflictError{Expected: expectedLast, Actual: last}
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
	if err := l.write(entries); err != nil {
		l.failed = true
		return fmt.Errorf("%s: append entries %d to %d, outcome unknown: %w",
			l.path, entries[0].Seq, entries[len(entries)-1].Seq, err)
	}
	l.prev = prev
	l.tail.grow(l.hashes)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = entries[len(entries)-1].Seq
	return nil
}

// encode fills l.records, l.ends and l.hashes, and returns the last record's hash.
func (l *Log) encode(entries []eventlog.Entry) ([32]byte, error) {
	const keep = 4 << 20
	if cap(l.records) > keep {
		l.records = nil // one huge batch should not hold its memory for good
	}
	l.records, l.ends, l.hashes = l.records[:0], l.ends[:0], l.hashes[:0]
	prev := l.prev
	for i := range entries {
		start := len(l.records)
		var err error
		if l.records, err = eventlog.AppendRecord(l.records, entries[i], prev); err != nil {
			return prev, err
		}
		prev = eventlog.HashRecord(l.records[start:])
		l.ends = append(l.ends, len(l.records))
		l.hashes = append(l.hashes, prev)
	}
	return prev, nil
}

// write makes what encode prepared durable, in a new segment if it is time for one.
func (l *Log) write(entries []eventlog.Entry) error {
	due, err := l.due(entries, len(l.records))
	if err != nil {
		return err
	}
	if due {
		if err := l.rotate(); err != nil {
			return fmt.Errorf("begin a segment: %w", err)
		}
	}
	if entries[0].Seq == l.tail.First {
		l.began = entries[0].Time
	}
	return l.commit(entries[0].Seq)
}

// commit writes the records, from the sequence number first on.
func (l *Log) commit(first uint64) error {
	return l.tail.update(func(tx *bolt.Tx) error {
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
		if l.tail.Format < formatTree {
			return nil
		}
		return tx.Bucket(bucketMeta).Put(metaLast, key(first+uint64(len(l.ends))-1))
	})
}

// Last implements eventlog.Log. Beside a writer (Live) it is the last sealed entry; in a damaged log it is the
// last entry before the damage, as far as that is known before the entries are read.
func (l *Log) Last() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, eventlog.ErrClosed
	}
	return l.last, nil
}

// Close implements eventlog.Log. It waits for an Append and for reads of the live segment that are under way.
func (l *Log) Close() error {
	l.appending.Lock()
	defer l.appending.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return eventlog.ErrClosed
	}
	l.closed, l.records, l.ends, l.hashes = true, nil, nil, nil
	var err error
	if l.tail != nil {
		err = l.tail.close()
	}
	return errors.Join(err, l.lock.release())
}

// Read implements eventlog.Log. Every record's checksum, its sequence number and its link to the record
// before it are checked, also from one segment to the next; the record before the first one is read for
// that too. The caller may append within the loop, and may take as long as it likes: no transaction is open
// while it holds an entry. What is good of a damaged log is read before the damage is reported. Entries before
// First are an *ArchivedError.
func (l *Log) Read(from uint64) iter.Seq2[eventlog.Entry, error] {
	return read(l, from, (*cursor).entry)
}

// Records is Read without decoding the entries: two to three times as fast. A payload that cannot be decoded is
// no error here.
func (l *Log) Records(from uint64) iter.Seq2[eventlog.Record, error] {
	return read(l, from, (*cursor).record)
}

// read is Read or Records.
func read[T any](l *Log, from uint64, decode func(*cursor, []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		last, err := l.Last()
		if err != nil {
			yield(none, err)
			return
		}
		r := reader{log: l, last: last, cursor: cursor{next: max(from, 1)}}
		defer r.close()
		for r.next <= r.last {
			if err := r.fill(); err != nil {
				yield(none, err)
				return
			}
			if !drain(&r.cursor, func(rec []byte) (T, error) { return decode(&r.cursor, rec) }, yield) {
				return
			}
		}
		if l.damage != nil {
			yield(none, l.damage)
		} else if l.doubt != nil {
			yield(none, l.doubt)
		}
	}
}
