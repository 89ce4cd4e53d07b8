package boltlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/durable"
)

// Options say when the live segment is sealed and a new one begun, and where archived ones are. They may differ
// each time a log is opened.
type Options struct {
	// SegmentBytes is the size that a segment does not exceed, unless one Append does. 0: no limit.
	SegmentBytes int64
	// SegmentAge is the time that after a segment's first entry, by the entries' own time, none is added to it. 0: no
	// limit.
	SegmentAge time.Duration
	// Archives are directories with segments that were archived, beside those of which the log says that they are
	// there. If there are any, it is an error that one is not found.
	Archives []string
}

// DefaultOptions returns the options for everyone who has no reason for others: 256 MiB, 24 hours.
func DefaultOptions() Options { return Options{SegmentBytes: 256 << 20, SegmentAge: 24 * time.Hour} }

// A Log is a log in a directory of segments. It is safe for concurrent use: entries may be read while others
// are appended.
type Log struct {
	path       string
	opts       Options
	readOnly   bool
	live       bool // a writer has the log: the live segment is not among segments
	lock       *dirLock
	dir        *heldDir               // nil if the log is only read
	damage     *eventlog.DamagedError // what reading ends with; nil for a whole log
	endUnknown error                  // what it ends with otherwise; nil for nothing

	appending  sync.Mutex                // held by Append and Close; guards what follows, and writes of what mu guards
	end        eventlog.Chain            // behind the last durable entry
	began      eventlog.Time             // time of the live segment's first entry
	unknown    *eventlog.Attempt         // the append that has failed with unknown outcome
	superseded *eventlog.SupersededError // another writer has appended
	displaced  error                     // the directory or the live segment was moved away or replaced
	unlocked   error                     // another process has LOCK, which was removed or replaced
	batch      eventlog.Batch            // scratch of Append

	mark eventlog.Mark // of the last durable entry, until Close

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

// Live says whether a writer had the log when it was opened for reading: then there are, or will be, entries behind
// Last that only the writer can tell about.
func (l *Log) Live() bool { return l.live }

// Lacks lets reading end with damage behind the last entry, because of what whoever opened the log knows from
// elsewhere: that it had more. A log in which damage was found already stays as it is. It is called before the
// Log is used by others.
func (l *Log) Lacks(why error) {
	if l.damage == nil {
		l.damage = &eventlog.DamagedError{Path: l.path, Seq: l.last + 1, Err: why}
	}
}

// EndUnknown lets reading end with why, which is no damage: whoever opened the log cannot tell whether it had more. It is
// called before the Log is used by others.
func (l *Log) EndUnknown(why error) { l.endUnknown = why }

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
		if err := durable.Sync(path); err != nil {
			return fmt.Errorf("bring the log to the disk: %w", err)
		}
	}
	return nil
}

// limit is how much one Append takes: bbolt holds a transaction in memory.
var limit = eventlog.WideLimit

// Limit implements eventlog.Log.
func (l *Log) Limit() eventlog.Limit { return limit }

// Append implements eventlog.Log. All entries are written in one transaction in one segment. ctx is asked before it
// begins, and not again: a commit cannot be called off.
func (l *Log) Append(ctx context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	l.appending.Lock()
	defer l.appending.Unlock()
	if err := l.mayAppend(ctx, expectedLast); err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	if l.displaced = l.holds(); l.displaced != nil {
		return l.displaced
	}
	end, err := l.batch.Encode(l.end, entries, limit)
	if err != nil {
		return err
	}
	if err := l.write(entries[0].Time); err != nil {
		if errors.As(err, &l.superseded) {
			return l.superseded
		}
		if l.displaced != nil {
			return l.displaced
		}
		l.unknown = &eventlog.Attempt{Before: l.end, After: end}
		return &eventlog.UnknownOutcomeError{Path: l.path, First: l.batch.First, Last: end.Seq, Err: err}
	}
	l.end = end
	l.tail.grow(l.batch.Hashes)
	l.mu.Lock()
	l.last = end.Seq
	l.mu.Unlock()
	l.mark.Raise(end.Seq)
	return nil
}

// mayAppend says why nothing can be appended behind entry expectedLast, or nil.
func (l *Log) mayAppend(ctx context.Context, expectedLast uint64) error {
	last, err := l.Last()
	switch {
	case err != nil:
		return err
	case l.readOnly:
		return eventlog.ErrReadOnly
	case l.superseded != nil:
		return l.superseded
	case l.displaced != nil:
		return l.displaced
	case l.unknown != nil:
		return eventlog.ErrUnknownOutcome
	case last != expectedLast:
		return &eventlog.ConflictError{Expected: expectedLast, Actual: last}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// write makes the batch, whose first entry has the given time, durable, in a new segment if it is time for one.
func (l *Log) write(first eventlog.Time) error {
	due, err := l.due(first, len(l.batch.Bytes))
	if err != nil {
		return err
	}
	if due {
		if l.unlocked != nil {
			l.displaced = l.isDisplaced(l.unlocked)
			return l.displaced
		}
		if err := l.rotate(); err != nil {
			return fmt.Errorf("begin a segment: %w", err)
		}
	}
	if l.batch.First == l.tail.First {
		l.began = first
	}
	return l.commit()
}

// commit writes the records of the batch.
func (l *Log) commit() error {
	return l.tail.update(func(tx *bolt.Tx) error {
		b, meta := tx.Bucket(bucketLog), tx.Bucket(bucketMeta)
		if err := l.tail.unchanged(b, meta, l.end.Seq); err != nil {
			return err
		}
		b.FillPercent = fillPercent
		keys := make([]byte, 8*len(l.batch.Ends))
		start := 0
		for i, end := range l.batch.Ends {
			key := keys[8*i : 8*i+8]
			binary.BigEndian.PutUint64(key, l.batch.First+uint64(i))
			if err := b.Put(key, l.batch.Bytes[start:end]); err != nil {
				return err
			}
			start = end
		}
		return meta.Put(metaLast, key(l.batch.First+uint64(len(l.batch.Ends))-1))
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
	l.closed, l.batch = true, eventlog.Batch{}
	l.mark.End(eventlog.ErrClosed)
	var err error
	if l.tail != nil {
		err = l.tail.close()
	}
	return errors.Join(err, l.dir.close(), l.lock.release())
}

// Read implements eventlog.Log. Every record's checksum, its sequence number and its link to the record before it are
// checked, also from one segment to the next; the record before the first one is read for that too. The caller may take
// as long as it likes: no transaction is open while it holds an entry.
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return read(ctx, l, from, (*cursor).entry)
}

// Records implements eventlog.Log.
func (l *Log) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return read(ctx, l, from, (*cursor).record)
}

// Follow implements eventlog.Log. A Log that was opened for reading sees what it saw when it was opened.
func (l *Log) Follow(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	if !l.readOnly {
		return eventlog.FollowMark(ctx, from, &l.mark, l.Records)
	}
	why := fmt.Errorf("%s: %w: it was opened for reading, and shows the entries that it had then", l.path,
		eventlog.ErrNotFollowed)
	if l.live {
		why = fmt.Errorf("%s: %w: only the process that writes to it can tell of its live segment", l.path,
			eventlog.ErrNotFollowed)
	}
	return eventlog.NotFollowed(l.Records(ctx, from), why)
}

// read is Read or Records.
func read[T any](
	ctx context.Context, l *Log, from uint64, decode func(*cursor, []byte) (T, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		last, err := l.Last()
		if err != nil {
			yield(none, err)
			return
		}
		r := reader{log: l, last: last, cursor: cursor{ctx: ctx, next: max(from, 1)}}
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
		} else if l.endUnknown != nil {
			yield(none, l.endUnknown)
		}
	}
}

// Reopen implements eventlog.Log.
func (l *Log) Reopen(ctx context.Context) (eventlog.Log, eventlog.Reopened, error) {
	again, found, err := l.reopen(ctx)
	if err != nil {
		return nil, found, fmt.Errorf("reopen log %s: %w", l.path, err)
	}
	return again, found, nil
}

func (l *Log) reopen(ctx context.Context) (*Log, eventlog.Reopened, error) {
	if ctx.Err() != nil {
		return nil, eventlog.Reopened{}, context.Cause(ctx)
	}
	_ = l.Close() // what failed before may fail again, and it may be closed
	l.appending.Lock()
	defer l.appending.Unlock()
	if l.readOnly {
		again, err := l.opts.OpenReadOnly(l.path)
		if err != nil {
			return nil, eventlog.Reopened{}, err
		}
		return again, eventlog.Reopened{Expected: l.last, Last: again.last}, nil
	}
	again, err := l.opts.Open(l.path)
	if err != nil {
		return nil, eventlog.Reopened{}, err
	}
	attempt := eventlog.Attempt{Before: l.end, After: l.end}
	if l.unknown != nil {
		attempt = *l.unknown
	}
	found, err := attempt.Find(ctx, again)
	if err != nil {
		return nil, found, errors.Join(err, again.Close())
	}
	return again, found, nil
}
