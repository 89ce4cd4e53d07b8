package eventlog

import (
	"fmt"
	"iter"
	"sync"
)

// chunkSize is how many bytes of records a Memory allocates at once.
const chunkSize = 1 << 20

// Memory is a Log that lasts as long as its process. It keeps encoded records, so that it accepts and
// yields exactly what a durable log would, and what it yields shares nothing with what was appended.
type Memory struct {
	mu      sync.Mutex
	records [][]byte // records[i] is that of entry i+1; never changed once appended
	chunk   []byte   // the free rest of the current chunk is its capacity
	prev    [32]byte // hash of the last record
	closed  bool
}

var _ Log = (*Memory)(nil)

// NewMemory returns an empty log.
func NewMemory() *Memory { return &Memory{} }

// Append implements Log. It never fails with an unknown outcome.
func (m *Memory) Append(expectedLast uint64, entries []Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if last := uint64(len(m.records)); last != expectedLast {
		return &ConflictError{Expected: expectedLast, Actual: last}
	}
	if err := CheckSequence(expectedLast, entries); err != nil {
		return err
	}
	added, chunk, prev := m.records, m.chunk, m.prev
	for i := range entries {
		if cap(chunk)-len(chunk) < chunkSize/16 {
			chunk = make([]byte, 0, chunkSize)
		}
		start := len(chunk)
		var err error
		if chunk, err = AppendRecord(chunk, entries[i], prev); err != nil {
			return err
		}
		record := chunk[start:len(chunk):len(chunk)]
		prev = HashRecord(record)
		added = append(added, record)
	}
	m.records, m.chunk, m.prev = added, chunk, prev
	return nil
}

// Read implements Log.
func (m *Memory) Read(from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		m.mu.Lock()
		records, closed := m.records, m.closed
		m.mu.Unlock()
		if closed {
			yield(Entry{}, ErrClosed)
			return
		}
		for seq := max(from, 1); seq <= uint64(len(records)); seq++ {
			e, _, err := DecodeRecord(records[seq-1])
			if err != nil {
				yield(Entry{}, &DamagedError{Seq: seq, Err: err})
				return
			}
			if e.Seq != seq {
				panic(fmt.Sprintf("eventlog: record %d of a memory log is that of entry %d", seq, e.Seq))
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Last implements Log.
func (m *Memory) Last() (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, ErrClosed
	}
	return uint64(len(m.records)), nil
}

// Close implements Log. The records are released once no iteration holds them.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.records, m.chunk, m.closed = nil, nil, true
	return nil
}
