package eventlog

import (
	"context"
	"iter"
	"sync"
)

// A Mark is the number of the last durable entry of a growing log. Goroutines wait on it for the log to grow. It is
// safe for concurrent use. The zero Mark belongs to an empty log.
type Mark struct {
	mu      sync.Mutex
	changed sync.Cond // last or err changed; Wait sets its L
	last    uint64
	err     error
}

// Raise sets the mark to last, unless it is at last or beyond already.
func (m *Mark) Raise(last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = max(m.last, last)
	m.changed.Broadcast()
}

// End makes every Wait fail with err, now and later.
func (m *Mark) End(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	m.changed.Broadcast()
}

// Wait waits until the mark is at entry seq or beyond. It returns the error of End, or ctx's cause.
func (m *Mark) Wait(ctx context.Context, seq uint64) error {
	stop := context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.changed.Broadcast()
	})
	defer stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed.L = &m.mu
	for m.last < seq && m.err == nil && ctx.Err() == nil {
		m.changed.Wait()
	}
	if m.err != nil {
		return m.err
	}
	return context.Cause(ctx)
}

// FollowMark implements a log's Follow with its Records and its Mark. records yields the records from an entry on, up
// to the mark at the time of the call or beyond it.
func FollowMark(
	ctx context.Context,
	from uint64,
	mark *Mark,
	records func(ctx context.Context, from uint64) iter.Seq2[Record, error],
) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		next := max(from, 1)
		for {
			if err := mark.Wait(ctx, next); err != nil {
				yield(Record{}, err)
				return
			}
			for r, err := range records(ctx, next) {
				if !yield(r, err) || err != nil {
					return
				}
				next = r.Seq + 1
			}
		}
	}
}

// NotFollowed implements Follow for a log that cannot see new entries of its writer. records are the records that it
// has. why says what to do instead; it wraps ErrNotFollowed.
func NotFollowed(records iter.Seq2[Record, error], why error) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for r, err := range records {
			if !yield(r, err) || err != nil {
				return
			}
		}
		yield(Record{}, why)
	}
}

// Entries decodes records, such as the records of Follow. A payload that cannot be decoded is a *DamagedError.
func Entries(records iter.Seq2[Record, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for r, err := range records {
			var e Entry
			if err == nil {
				if e, _, err = DecodeRecord(r.Bytes); err != nil {
					err = DamageAt("", r.Seq, err)
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
