package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// DefaultSnapshotEvery is Options.SnapshotEvery's default.
const DefaultSnapshotEvery = 100_000

// RecordHasher is what a log may offer beside eventlog.Log: the hash of entry seq's record in the log's chain
// (eventlog.HashRecord). By it a snapshot knows its log.
type RecordHasher interface {
	RecordHash(seq uint64) ([32]byte, error)
}

// Recovery is what Open made the state of.
type Recovery struct {
	// Snapshot is the entry of the snapshot that was restored, 0 if the whole log was read.
	Snapshot uint64
	// Entries is how many entries were read and applied.
	Entries uint64
	// Refused says, newest first, which snapshots could not be used and why.
	Refused []error
}

// String says it in a line.
func (r Recovery) String() string {
	from := "the whole log"
	if r.Snapshot > 0 {
		from = fmt.Sprintf("the snapshot at entry %d", r.Snapshot)
	}
	out := fmt.Sprintf("recovered from %s and %d entries", from, r.Entries)
	if r.Snapshot == 0 {
		out = fmt.Sprintf("recovered from %s, %d entries", from, r.Entries)
	}
	if len(r.Refused) > 0 {
		out += fmt.Sprintf("; refused: %v", errors.Join(r.Refused...))
	}
	return out
}

// recover makes the state of the newest snapshot that can be trusted and the entries after it.
func (e *Engine) recover() error {
	if err := e.restore(); err != nil {
		return err
	}
	for entry, err := range e.log.Read(e.machine.Seq() + 1) {
		if err != nil {
			return err
		}
		if err := e.machine.Apply(entry); err != nil {
			return err
		}
		e.recovery.Entries++
		if e.opts.Progress != nil && entry.Seq%10000 == 0 {
			e.opts.Progress(entry.Seq)
		}
	}
	if e.opts.Snapshots != nil {
		e.report(e.recovery.String())
	}
	return nil
}

// restore tries the snapshots, newest first. It leaves an empty Machine if none can be used; what is wrong with
// them is no error.
func (e *Engine) restore() error {
	e.machine = scheduler.New(e.opts.Registry)
	if e.opts.Snapshots == nil {
		return nil
	}
	last, err := e.log.Last()
	if err != nil {
		return err
	}
	seqs, err := e.opts.Snapshots.List()
	if err != nil {
		e.recovery.Refused = append(e.recovery.Refused, err)
	}
	for _, seq := range slices.Backward(seqs) {
		m, err := e.restoreOne(seq, last)
		if err != nil {
			e.recovery.Refused = append(e.recovery.Refused, fmt.Errorf("snapshot at entry %d: %w", seq, err))
			continue
		}
		e.machine, e.recovery.Snapshot, e.snapshotAt = m, seq, seq
		return nil
	}
	return nil
}

// errForeign says that a snapshot was made of another log, or of a part of this one that was lost.
var errForeign = errors.New("it is not of this log")

func (e *Engine) restoreOne(seq, last uint64) (*scheduler.Machine, error) {
	if seq > last {
		return nil, fmt.Errorf("%w: the log ends with entry %d", errForeign, last)
	}
	data, err := e.opts.Snapshots.Get(seq)
	if err != nil {
		return nil, err
	}
	s, err := snapshot.Decode(data)
	if err != nil {
		return nil, err
	}
	if s.Seq != seq {
		return nil, fmt.Errorf("%w: it says that it is of entry %d", errForeign, s.Seq)
	}
	position, err := e.positionOf(seq)
	if err != nil {
		return nil, err
	}
	if position != s.Position {
		return nil, fmt.Errorf("%w: entry %d is another one here", errForeign, seq)
	}
	return s.Restore(e.opts.Registry)
}

// positionOf returns what a snapshot of entry seq of this log has as its position.
func (e *Engine) positionOf(seq uint64) ([32]byte, error) {
	if h, ok := e.log.(RecordHasher); ok {
		return h.RecordHash(seq)
	}
	for entry, err := range e.log.Read(seq) {
		if err != nil {
			return [32]byte{}, err
		}
		return digest(entry)
	}
	return [32]byte{}, fmt.Errorf("the log has no entry %d", seq)
}

// digest stands for the record's hash where the log does not tell it: it knows the entry, but not those before.
func digest(entry eventlog.Entry) ([32]byte, error) {
	rec, err := eventlog.AppendRecord(nil, entry, [32]byte{})
	return eventlog.HashRecord(rec), err
}

// snapshotIfDue writes a snapshot of the state, which is that of the last durable entry. That it fails is
// reported and no error: the log has everything, and the next one will be due.
func (e *Engine) snapshotIfDue() {
	seq := e.machine.Seq()
	if e.opts.Snapshots == nil || seq < e.snapshotAt+e.opts.SnapshotEvery {
		return
	}
	e.snapshotAt = seq
	position, err := e.positionOf(seq)
	if err == nil {
		var data []byte
		if data, err = snapshot.Encode(e.machine, position); err == nil {
			err = e.opts.Snapshots.Put(seq, data)
		}
	}
	if err != nil {
		e.report(fmt.Sprintf("no snapshot at entry %d: %v", seq, err))
	}
}

func (e *Engine) report(message string) {
	if e.opts.Report != nil {
		e.opts.Report(message)
	}
}
