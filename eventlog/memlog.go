package eventlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// chunkSize is the number of bytes of records that a Memory allocates at once.
const chunkSize = 1 << 20

// Memory is a Log that lasts as long as its process. It keeps encoded records, so that it accepts and yields exactly
// the entries that a durable log would. The entries that it yields share nothing with the appended ones.
//
// Several Memories may be open on the same entries, as several processes are on a durable log: Reopen and TakeOver open
// one for appending, ReadOnly one for reading. Once one of them has appended, an append of another one fails as
// superseded.
type Memory struct {
	entries  *memory
	readOnly bool
	mark     Mark // of the entries of all Memories, until Close

	// Guarded by entries.mu:
	end        Chain // as this Memory knows it
	superseded *SupersededError
	closed     bool
}

// memory is the part that Memories share.
type memory struct {
	origin Origin // the place that the first entry follows
	limit  Limit

	mu      sync.Mutex
	opened  []*Memory // and not closed yet
	records [][]byte  // records[i] is entry origin.Seq+i+1; never changed once appended
	chunk   []byte    // the free rest of the current chunk is its capacity
	end     Chain
}

var _ Log = (*Memory)(nil)

// NewMemory returns an empty log.
func NewMemory() *Memory { return NewMemoryFrom(Origin{}, WideLimit) }

// NewMemoryFrom returns an empty log that begins behind entry origin.Seq of another one. limit is the limit of one
// Append. Read of entry origin.Seq or one before it is an *ArchivedError.
func NewMemoryFrom(origin Origin, limit Limit) *Memory {
	m := &memory{origin: origin.Clone(), limit: limit, end: origin.End()}
	return m.open(false)
}

// open returns a Memory of the present entries.
func (m *memory) open(readOnly bool) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := &Memory{entries: m, readOnly: readOnly, end: m.end}
	out.mark.Raise(m.end.Seq)
	m.opened = append(m.opened, out)
	return out
}

// ReadOnly opens the entries once more, for reading.
func (m *Memory) ReadOnly() *Memory { return m.entries.open(true) }

// TakeOver opens the entries once more, for appending, like another process that takes a log over. Its first append
// supersedes this Memory.
func (m *Memory) TakeOver() *Memory { return m.entries.open(false) }

// Append implements Log. It never fails with an unknown outcome.
func (m *Memory) Append(ctx context.Context, expectedLast uint64, entries []Entry) error {
	s := m.entries
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.closed:
		return ErrClosed
	case m.readOnly:
		return ErrReadOnly
	case m.superseded != nil:
		return m.superseded
	case m.end.Seq != expectedLast:
		return &ConflictError{Expected: expectedLast, Actual: m.end.Seq}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.end != m.end:
		m.superseded = &SupersededError{Expected: m.end.Seq, Actual: s.end.Seq}
		if e, _, err := DecodeRecord(s.records[len(s.records)-1]); err == nil {
			m.superseded.Epoch = e.Epoch
		}
		return m.superseded
	}
	return m.add(entries)
}

// add appends entries behind the last one.
func (m *Memory) add(entries []Entry) error {
	s, limit := m.entries, m.entries.limit
	if err := limit.check(len(entries), 0); err != nil {
		return err
	}
	added, chunk, end, size := s.records, s.chunk, s.end, 0
	for i := range entries {
		if cap(chunk)-len(chunk) < chunkSize/16 {
			chunk = make([]byte, 0, chunkSize)
		}
		start := len(chunk)
		var err error
		if chunk, err = end.Append(chunk, entries[i]); err != nil {
			return err
		}
		if err := limit.checkRecord(entries[i].Seq, len(chunk)-start); err != nil {
			return err
		}
		size += len(chunk) - start
		if err := limit.check(len(entries), size); err != nil {
			return err
		}
		added = append(added, chunk[start:len(chunk):len(chunk)])
	}
	s.records, s.chunk, s.end, m.end = added, chunk, end, end
	for _, open := range s.opened {
		open.mark.Raise(end.Seq)
	}
	return nil
}

// Limit implements Log.
func (m *Memory) Limit() Limit { return m.entries.limit }

// Read implements Log.
func (m *Memory) Read(ctx context.Context, from uint64) iter.Seq2[Entry, error] {
	return readMemory(ctx, m.entries, from, m.Last, func(rec []byte) (Entry, error) {
		e, _, err := DecodeRecord(rec)
		return e, err
	})
}

// Records implements Log.
func (m *Memory) Records(ctx context.Context, from uint64) iter.Seq2[Record, error] {
	return readMemory(ctx, m.entries, from, m.Last, recordOf)
}

func recordOf(rec []byte) (Record, error) {
	seq, _, err := RecordPlace(rec)
	return Record{Seq: seq, Bytes: rec, Hash: HashRecord(rec)}, err
}

// readMemory yields the entries from from on, as decode returns them for their records, up to the entry that last
// returns when the iteration begins.
func readMemory[T any](
	ctx context.Context, m *memory, from uint64, last func() (uint64, error), decode func(rec []byte) (T, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		end, err := last()
		from := max(from, 1)
		if err == nil && from <= min(m.origin.Seq, end) {
			err = m.archived(from)
		}
		if err != nil {
			yield(none, err)
			return
		}
		m.mu.Lock()
		records := m.records
		m.mu.Unlock()
		for seq := from; seq <= end; seq++ {
			if ctx.Err() != nil {
				yield(none, context.Cause(ctx))
				return
			}
			v, err := decode(records[seq-m.origin.Seq-1])
			if err != nil {
				err = DamageAt("", seq, err)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// last returns the last entry, of any Memory.
func (m *memory) last() (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end.Seq, nil
}

// archived returns the error for an entry that is not in the log because it was made from a part of another.
func (m *memory) archived(seq uint64) error {
	return &ArchivedError{Path: "memory", Seq: seq, First: m.origin.Seq + 1}
}

// RecordHash implements Log.
func (m *Memory) RecordHash(ctx context.Context, seq uint64) ([32]byte, error) {
	last, err := m.Last()
	origin := m.entries.origin
	switch {
	case err != nil:
		return [32]byte{}, err
	case seq > last:
		return [32]byte{}, fmt.Errorf("there is no entry %d: the last is %d", seq, last)
	case seq == 0:
		return [32]byte{}, nil
	case seq == origin.Seq:
		return origin.Hash, nil
	}
	for r, err := range m.Records(ctx, seq) {
		return r.Hash, err
	}
	return [32]byte{}, ErrClosed
}

// KnownTree implements Log: it knows the tree at the place where the log begins.
func (m *Memory) KnownTree(_ context.Context, size uint64) (merkle.Tree, error) {
	if size < m.entries.origin.Seq {
		return merkle.Tree{}, m.entries.archived(size)
	}
	return m.entries.origin.Tree.Clone(), nil
}

// Follow implements Log: it yields the entries that any Memory of the same log appends.
func (m *Memory) Follow(ctx context.Context, from uint64) iter.Seq2[Record, error] {
	return FollowMark(ctx, from, &m.mark, func(ctx context.Context, from uint64) iter.Seq2[Record, error] {
		return readMemory(ctx, m.entries, from, m.entries.last, recordOf)
	})
}

// First implements Log.
func (m *Memory) First() uint64 { return m.entries.origin.Seq + 1 }

// Last implements Log.
func (m *Memory) Last() (uint64, error) {
	m.entries.mu.Lock()
	defer m.entries.mu.Unlock()
	if m.closed {
		return 0, ErrClosed
	}
	return m.end.Seq, nil
}

// Reopen implements Log.
func (m *Memory) Reopen(ctx context.Context) (Log, Reopened, error) {
	if ctx.Err() != nil {
		return nil, Reopened{}, context.Cause(ctx)
	}
	_ = m.Close() // an error means that it is closed already
	m.entries.mu.Lock()
	before := m.end
	m.entries.mu.Unlock()
	again := m.entries.open(m.readOnly)
	if m.readOnly {
		return again, Reopened{Expected: before.Seq, Last: again.end.Seq}, nil
	}
	found, err := Attempt{Before: before, After: before}.Find(ctx, again)
	if err != nil {
		return nil, found, errors.Join(err, again.Close())
	}
	return again, found, nil
}

// Close implements Log. The records stay in memory as long as a Memory of them, closed or not, or an iteration.
func (m *Memory) Close() error {
	m.entries.mu.Lock()
	defer m.entries.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.closed = true
	m.entries.opened = slices.DeleteFunc(m.entries.opened, func(open *Memory) bool { return open == m })
	m.mark.End(ErrClosed)
	return nil
}
