package engine

import (
	"fmt"

	"github.com/rollcall-sched/rollcall/snapshot"
)

// A writing is a snapshot on its way to its store. The state was copied between two steps; packing it and
// bringing it to the disk takes about a third of the whole, and needs the Machine no more: it is done beside
// the engine's own work, one at a time.
type writing struct {
	seq     uint64
	scratch []byte // the state's memory, for the next one
	done    chan error
	foreign []uint64 // dropped once there is a good one
}

// snapshotIfDue begins a snapshot of the state, which is that of the last durable entry. That it fails is
// reported and no error: the log has everything, and the next one will be due.
func (e *Engine) snapshotIfDue() {
	e.collect(false)
	if e.snapshotTime == 0 {
		e.snapshotTime = e.machine.Now()
	}
	if e.opts.Snapshots == nil || e.writing != nil || !e.isDue() {
		return
	}
	seq := e.machine.Seq()
	e.snapshotAt, e.snapshotTime = seq, e.machine.Now()
	position, err := PositionOf(e.log, seq)
	if err != nil {
		e.report(noSnapshot(seq, err))
		return
	}
	s, err := snapshot.Capture(e.machine, position, e.scratch)
	if err != nil {
		e.report(noSnapshot(seq, err))
		return
	}
	e.scratch = nil
	w, store := &writing{seq: seq, done: make(chan error, 1), foreign: e.foreign}, e.opts.Snapshots
	e.writing = w
	go func() {
		data, err := s.Encode()
		if err == nil {
			err = store.Put(seq, data)
		}
		for _, other := range w.foreign {
			if err == nil && other != seq {
				err = store.Drop(other)
			}
		}
		w.scratch = s.Release()
		w.done <- err
	}()
}

// isDue says whether enough entries, or enough of their time, have come since the last snapshot.
func (e *Engine) isDue() bool {
	since := e.machine.Seq() - e.snapshotAt
	every, age := e.opts.SnapshotEvery, e.opts.SnapshotAge
	return every > 0 && since >= every || age > 0 && since > 0 && e.machine.Now().Sub(e.snapshotTime) >= age
}

// collect takes in what became of the snapshot under way, if it has ended or the caller waits for that.
func (e *Engine) collect(wait bool) {
	w := e.writing
	if w == nil || !wait && len(w.done) == 0 {
		return
	}
	if err := <-w.done; err != nil {
		e.report(noSnapshot(w.seq, err))
	} else if len(w.foreign) > 0 {
		e.report(fmt.Sprintf("dropped what is kept as snapshots of entries %d: they are not of this log", w.foreign))
		e.foreign = nil
	}
	e.writing, e.scratch = nil, w.scratch
}

// Close waits for a snapshot that is on its way to the disk; that it failed goes to Options.Report. The engine
// is of no more use. The log is whoever's who opened it, to be closed after this.
func (e *Engine) Close() { e.collect(true) }

func noSnapshot(seq uint64, err error) string {
	return fmt.Sprintf("no snapshot at entry %d: %v", seq, err)
}
