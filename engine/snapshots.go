package engine

import (
	"context"
	"errors"
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

// snapshotIfDue begins a snapshot of the state if it is time for one. It first waits until that state's last entry is
// durable: a log that ends before one of its snapshots has lost its end, and is refused. The error is that of an
// append. That the snapshot itself fails is reported and no error: the log has everything, and the next one will be
// due.
func (e *Engine) snapshotIfDue() error {
	e.collect(false)
	if e.snapshotTime == 0 {
		e.snapshotTime = e.machine.Now()
	}
	if e.opts.Snapshots == nil || e.unkept || e.writing != nil || !e.isDue() {
		return nil
	}
	seq := e.machine.Seq()
	if err := e.writer.await(seq); err != nil {
		return err
	}
	e.snapshotAt, e.snapshotTime = seq, e.machine.Now()
	position, err := e.log.RecordHash(context.Background(), seq)
	if err != nil {
		e.report(noSnapshot(seq, err))
		return nil
	}
	s, err := snapshot.Capture(e.machine, position, e.scratch)
	if err != nil {
		e.report(noSnapshot(seq, err))
		return nil
	}
	e.write(s, seq)
	return nil
}

// write packs a snapshot and brings it to its store, beside the engine's own work.
func (e *Engine) write(s *snapshot.Snapshot, seq uint64) {
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

// isDue reports whether enough entries, or enough of their time, have come since the last snapshot.
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

// Close waits for what is on its way to the disk. That a snapshot failed goes to Options.Report; the error is that of
// an append, if no other call has returned it: also after another error, which had the engine stop while its last
// entries were on their way. The engine cannot be used after it. It does not close
// the log: the caller that opened the log does, after Close.
func (e *Engine) Close() error {
	err := e.writer.stop()
	e.collect(true)
	var told *AppendError
	if e.closed || errors.As(e.failed, &told) {
		err = nil
	}
	if commits, _, _ := e.writer.collect(); len(commits) > 0 {
		err = errors.Join(err, e.observe(commits, nil))
	}
	if e.closed = true; e.failed == nil {
		e.failed = errClosed
	}
	return err
}

var errClosed = errors.New("it was closed")

func noSnapshot(seq uint64, err error) string {
	return fmt.Sprintf("no snapshot at entry %d: %v", seq, err)
}
