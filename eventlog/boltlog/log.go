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

// Options set when the live segment is sealed and a new one begun, and name the directories of archived ones. They may
// differ each time a log is opened.
type Options struct {
	// SegmentBytes is the largest size of a segment, unless one Append exceeds it. 0: no limit.
	SegmentBytes int64
	// SegmentAge is the time after a segment's first entry, by the entries' own time, after which no entry is added to
	// it. 0: no limit.
	SegmentAge time.Duration
	// Archives are directories with archived segments, in addition to the ones that the log records. If there are any,
	// a missing archived segment is an error.
	Archives []string
}

// DefaultOptions returns the options for most users: 256 MiB, 24 hours.
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
	damage     *eventlog.DamagedError // the error at the end of reading; nil for a whole log
	endUnknown error                  // another error at the end of reading; nil for none

	// held by Append and Close; guards the next fields, and writes of the fields that mu guards
	appending  sync.Mutex
	end        eventlog.Chain            // behind the last durable entry
	began      eventlog.Time             // time of the live segment's first entry
	unknown    *eventlog.Attempt         // the append that failed with unknown outcome
	superseded *eventlog.SupersededError // another writer has appended
	displaced  error                     // the directory or the live segment was moved away or replaced
	unlocked   error                     // another process has LOCK, which was removed or replaced
	batch      eventlog.Batch            // scratch of Append

	mark eventlog.Mark // of the last durable entry, until Close

	mu       sync.Mutex // never held while waiting for the disk
	begin    *beginning // nil if the log begins with entry 1
	absent   error      // the reason why there are no archived segments before segments
	segments []Facts    // in order, archived ones first; empty only beside a writer that has sealed none yet
	tail     *Segment   // the last segment, held open if it is not sealed
	last     uint64     // sequence number of the last durable entry
	closed   bool
}

var _ eventlog.Log = (*Log)(nil)

// Path returns the path with which the log was opened.
func (l *Log) Path() string { return l.path }

// Live reports whether a writer had the log when it was opened for reading: then there are, or will be, entries after
// Last that only the writer can read.
func (l *Log) Live() bool { return l.live }

// Lacks makes reading end with damage after the last entry, because the opener of the log knows that it had more. A
// log in which damage was found already stays as it is. It must be called before other uses of the Log.
func (l *Log) Lacks(why error) {
	if l.damage == nil {
		l.damage = &eventlog.DamagedError{Path: l.path, Seq: l.last + 1, Err: why}
	}
}

// EndUnknown makes reading end with why, which is no damage: the opener of the log cannot know whether it had more. It
// must be called before other uses of the Log.
func (l *Log) EndUnknown(why error) { l.endUnknown = why }

// Sync brings the readable part of the log to the disk. A writer that died may not have done that, and facts stored
// elsewhere about an entry must not outlive it. Sealed segments before the last were synced when they were sealed.
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

// limit is the largest Append: bbolt holds a transaction in memory.
var limit = eventlog.WideLimit

// Limit implements eventlog.Log.
func (l *Log) Limit() eventlog.Limit { return limit }

// Append implements eventlog.Log. All entries are written in one transaction in one segment. ctx is checked before it
// begins, and not again: a commit cannot be cancelled.
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

// mayAppend returns an error if nothing can be appended after entry expectedLast.
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

// write makes the batch, whose first entry has the given time, durable, in a new segment if one is due.
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

// Last implements eventlog.Log. Beside a writer (Live) it is the last sealed entry. In a damaged log it is the last
// entry before the damage, as far as that is known before the entries are read.
func (l *Log) Last() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, eventlog.ErrClosed
	}
	return l.last, nil
}

// Close implements eventlog.Log. It waits for an Append and for reads of the live segment in progress.
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

// Read implements eventlog.Log. It checks every record's checksum, its sequence number and its link to the record
// before it, also from one segment to the next. For the first record it reads the one before. The caller may take its
// time: no transaction is open while it holds an entry.
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return read(ctx, l, from, (*cursor).entry)
}

// Records implements eventlog.Log.
func (l *Log) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return read(ctx, l, from, (*cursor).record)
}

// Follow implements eventlog.Log. A Log that was opened for reading shows the entries of that time.
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
