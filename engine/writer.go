package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// maxAppend is the largest number of entries in one append. An append is a commit: a reader, or a process after a
// crash, sees all of it or nothing. The same holds for the entries of a step, which are always in one append, unless
// there are more than maxAppend.
const maxAppend = 4096

// maxInFlight and maxInFlightBytes limit how many entries, and bytes of payload, may be on their way to the disk. A
// caller with more to hand over waits. The limit is some hundredths of a second of a fast scheduler's work, and a few
// megabytes of entries of the usual size. One call may exceed maxInFlightBytes. It then waits until nothing else is in
// flight.
const (
	maxInFlight      = 4 * maxAppend
	maxInFlightBytes = 64 << 20
)

// A Commit has the entries that one append made durable. Where one Commit ends and the next one begins depends on the
// speed of the disk. Only the entries, one after the other, are the same in every run.
type Commit struct {
	// Entries are the entries of the append, at least one. The slice is the caller's, the payloads are the Machine's.
	Entries []eventlog.Entry
	// At is the time at which the append succeeded, by Options.Clock; zero without a clock.
	At time.Time
}

// Last returns the sequence number of the last entry.
func (c Commit) Last() uint64 { return c.Entries[len(c.Entries)-1].Seq }

// AppendError says that an append failed. No effect of its entries, or of later ones, was given out as durable. Every
// entry before First is durable. Whether the log has First to Last is not known until it is opened again. It has none
// of the entries after Last.
type AppendError struct {
	First, Last uint64
	Err         error
}

// Error implements error.
func (e *AppendError) Error() string {
	return fmt.Sprintf("append entries %d to %d: %v", e.First, e.Last, e.Err)
}

// Unwrap returns the log's error.
func (e *AppendError) Unwrap() error { return e.Err }

// A writer appends entries to the log in a goroutine of its own, in order, one append after the other. Each append
// takes all entries that have come meanwhile, up to limit. So a single entry is appended at once, and the slower the
// disk is, the more entries share a commit. The entries of one call of put are always in one append. The goroutine
// lives as long as there is something to append.
//
// The writer reads the header and the Encoding of an entry, which do not change any more. It never reads the payload,
// which the Machine still uses: encoding an object here would race with plugins that read it.
type writer struct {
	log      Log
	limit    eventlog.Limit   // of one append: the log's, and maxAppend entries
	clock    func() time.Time // for Commit.At; nil for no time
	appended chan struct{}    // holds one after an append, until it is received
	batch    []eventlog.Entry

	mu      sync.Mutex
	changed sync.Cond        // signals changes of the fields below
	queue   []eventlog.Entry // not taken yet
	parts   []load           // the calls of put that queue came from
	taken   load             // the append under way
	flying  load             // queue and taken
	running bool
	durable uint64       // the last entry known to be durable
	commits []Commit     // what became durable and is not collected yet
	failed  *AppendError // nothing is appended after it
}

// A load is a number of entries, and the size of their payloads.
type load struct{ entries, bytes int }

func (l load) plus(m load) load  { return load{l.entries + m.entries, l.bytes + m.bytes} }
func (l load) minus(m load) load { return load{l.entries - m.entries, l.bytes - m.bytes} }

func (l load) isTooMuch() bool { return l.entries > maxInFlight || l.bytes > maxInFlightBytes }

func newWriter(log Log, durable uint64) *writer {
	w := &writer{log: log, limit: log.Limit(), durable: durable, appended: make(chan struct{}, 1)}
	w.limit.Entries = min(w.limit.Entries, maxAppend)
	w.changed.L = &w.mu
	return w
}

// put adds entries, no more than limit holds, and copies their headers. It waits while too many are in flight.
func (w *writer) put(entries []eventlog.Entry) error {
	part := load{entries: len(entries)}
	for i := range entries {
		part.bytes += entries[i].Encoding.Len()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.failed == nil && w.flying.entries > 0 && w.flying.plus(part).isTooMuch() {
		w.changed.Wait()
	}
	if w.failed != nil {
		return w.failed
	}
	w.queue = append(w.queue, entries...)
	w.parts, w.flying = append(w.parts, part), w.flying.plus(part)
	if !w.running {
		w.running = true
		go w.run()
	}
	return nil
}

// await waits until entry seq is durable. It must have been put.
func (w *writer) await(seq uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.failed == nil && w.durable < seq {
		w.changed.Wait()
	}
	if w.failed != nil {
		return w.failed
	}
	return nil
}

// stop waits until the goroutine has ended: everything that was put is durable, or an append has failed.
func (w *writer) stop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.running {
		w.changed.Wait()
	}
	if w.failed != nil {
		return w.failed
	}
	return nil
}

// collect returns the commits since the last call, and the results of state.
func (w *writer) collect() (commits []Commit, durable uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	commits, w.commits = w.commits, nil
	if w.failed != nil {
		return commits, w.durable, w.failed
	}
	return commits, w.durable, nil
}

// state returns the last entry that is known to be durable, and the error of the append that failed, if one has.
func (w *writer) state() (durable uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.durable, w.failed
	}
	return w.durable, nil
}

func (w *writer) run() {
	for w.take() {
		w.note(w.log.Append(context.Background(), w.batch[0].Seq-1, w.batch))
	}
}

// take moves the entries of the next append to batch. It returns false if there are none, and the goroutine must end.
func (w *writer) take() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 || w.failed != nil {
		w.running = false
		w.changed.Broadcast()
		return false
	}
	parts := 0
	for ; parts < len(w.parts); parts++ {
		more := w.taken.plus(w.parts[parts])
		if parts > 0 && !w.limit.Holds(more.entries, more.bytes) {
			break
		}
		w.taken = more
	}
	w.parts = w.parts[:copy(w.parts, w.parts[parts:])]
	n := w.taken.entries
	w.batch = append(w.batch[:0], w.queue[:n]...)
	left := copy(w.queue, w.queue[n:])
	clear(w.queue[left:])
	w.queue = w.queue[:left]
	return true
}

// note records how the append of batch ended.
func (w *writer) note(err error) {
	var commit Commit
	if err == nil {
		commit.Entries = slices.Clone(w.batch)
		if w.clock != nil {
			commit.At = w.clock()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	first, last := w.batch[0].Seq, w.batch[len(w.batch)-1].Seq
	if err != nil {
		w.failed = &AppendError{First: first, Last: last, Err: err}
		w.queue, w.parts = nil, nil
	} else {
		w.durable = last
		w.commits = append(w.commits, commit)
	}
	w.flying, w.taken = w.flying.minus(w.taken), load{}
	clear(w.batch)
	w.changed.Broadcast()
	select {
	case w.appended <- struct{}{}:
	default: // an earlier message was not received yet
	}
}
