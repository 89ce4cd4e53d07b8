package engine

import (
	"sync"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// maxInFlight is how many entries may be on their way to the disk before whoever has more waits: some hundredths of a
// second of a fast scheduler's work, and a few megabytes.
const maxInFlight = 4 * maxAppend

// A writer brings entries to the log beside the engine's own work, in order, one append after the other. Each append
// takes all that has come meanwhile, up to maxAppend entries: with nothing to do it is a single one at once, and the
// slower the disk, the more entries share a commit. Its goroutine lives as long as there is something to append.
//
// Of an entry it reads the header and the Encoding, which nobody changes, and never the payload, which the Machine
// goes on to use: encoding an object there would race with plugins that read it.
type writer struct {
	log      eventlog.Log
	appended chan struct{} // holds one after an append, until it is received
	batch    []eventlog.Entry

	mu      sync.Mutex
	changed sync.Cond        // of what follows
	queue   []eventlog.Entry // not taken yet
	taken   int              // entries of the append under way
	running bool
	waiting int          // who waits to put more
	durable uint64       // the last entry known to be durable
	failed  *AppendError // nothing is appended after it
}

func newWriter(log eventlog.Log, durable uint64) *writer {
	w := &writer{log: log, durable: durable, appended: make(chan struct{}, 1)}
	w.changed.L = &w.mu
	return w
}

// put hands entries over, which are copied. It waits while there are too many already.
func (w *writer) put(entries []eventlog.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.failed == nil && len(w.queue)+w.taken >= maxInFlight {
		w.waiting++
		w.changed.Wait()
		w.waiting--
	}
	if w.failed != nil {
		return w.failed
	}
	w.queue = append(w.queue, entries...)
	if !w.running {
		w.running = true
		go w.run()
	}
	return nil
}

// await waits until entry seq, which was put, is durable.
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

// stop waits until the goroutine is gone: all that was put is durable, or an append has failed.
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

// state returns the last entry that is known to be durable, and how it failed, if it has.
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
		w.settle(w.log.Append(w.batch[0].Seq-1, w.batch))
	}
}

// take moves what the next append holds to batch; false, and the goroutine is gone, if there is nothing.
func (w *writer) take() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxAppend)
	if n == 0 || w.failed != nil {
		w.running = false
		w.changed.Broadcast()
		return false
	}
	w.batch = append(w.batch[:0], w.queue[:n]...)
	left := copy(w.queue, w.queue[n:])
	clear(w.queue[left:])
	w.queue, w.taken = w.queue[:left], n
	return true
}

// settle notes what became of the append of batch.
func (w *writer) settle(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, last := w.batch[0].Seq, w.batch[len(w.batch)-1].Seq
	if err != nil {
		w.failed = &AppendError{First: first, Last: last, Err: err}
		w.queue = nil
	} else {
		w.durable = last
	}
	w.taken = 0
	clear(w.batch)
	w.changed.Broadcast()
	select {
	case w.appended <- struct{}{}:
	default: // one is waiting to be received
	}
}
