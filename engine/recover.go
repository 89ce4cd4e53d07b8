package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

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
func (e *Engine) recover(ctx context.Context) error {
	if err := e.restore(ctx); err != nil {
		return err
	}
	for entry, err := range e.log.Read(ctx, e.machine.Seq()+1) {
		if err != nil {
			return err
		}
		if err := e.machine.Apply(entry); err != nil {
			return err
		}
		e.recovery.Entries++
		if e.snapshotTime == 0 {
			e.snapshotTime = entry.Time
		}
		if e.opts.Progress != nil && entry.Seq%10000 == 0 {
			e.opts.Progress(entry.Seq)
		}
	}
	if e.opts.Snapshots != nil && (e.machine.Seq() > 0 || len(e.recovery.Refused) > 0) {
		e.report(e.recovery.String())
	}
	return nil
}

// restore tries the snapshots, newest first. It leaves an empty Machine if none can be used; what is wrong with
// them is no error. But that there is a good one of an entry that the log has not is damage of the log.
func (e *Engine) restore(ctx context.Context) error {
	e.machine = scheduler.New(e.opts.Registry)
	if e.opts.Snapshots == nil {
		return nil
	}
	last, err := e.log.Last()
	if err != nil {
		return err
	}
	series := snapshot.Series{Store: e.opts.Snapshots, Registry: e.opts.Registry,
		Position: func(seq uint64) ([32]byte, error) { return e.log.RecordHash(ctx, seq) }}
	lost, refused, err := series.Beyond(last)
	if lost != nil {
		return &eventlog.DamagedError{Seq: last + 1, Err: lost}
	}
	if err != nil {
		return err
	}
	m, more := series.Newest(1, last)
	e.recovery.Refused = append(refused, more...)
	for _, err := range e.recovery.Refused {
		var why *snapshot.RefusedError
		if errors.As(err, &why) && errors.Is(err, snapshot.ErrForeign) {
			e.foreign = append(e.foreign, why.Seq)
		}
	}
	if m != nil {
		e.machine, e.recovery.Snapshot = m, m.Seq()
		e.snapshotAt, e.snapshotTime = m.Seq(), m.Now()
	}
	return nil
}

func (e *Engine) report(message string) {
	if e.opts.Report != nil {
		e.opts.Report(message)
	}
}
