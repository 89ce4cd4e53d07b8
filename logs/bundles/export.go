package bundles

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/durable"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A Place is the beginning or the end of a range: an entry or a time. The zero Place is the log's own beginning or
// end.
type Place struct {
	Seq  uint64
	Time eventlog.Time
}

// ExportOptions select the range to export.
type ExportOptions struct {
	// File is the new file, if Into is nil.
	File string
	// Into gets the bundle instead of a file. If Export fails, the written part is no bundle.
	Into io.Writer
	// From is the beginning of the range. The bundle begins with that entry and the state before it. It begins earlier,
	// with a snapshot or with entry 1, only if that state cannot be made.
	From Place
	// To is the end of the range.
	To Place
	// UntilDamage lets the bundle end before damage, if there is any before To.
	UntilDamage bool
	// Version is the version of this program, for the bundle.
	Version string
	// Redact, if not nil, returns the records that are exported instead of the log's, and changes the plan for them.
	Redact func(ctx context.Context, log *logs.Source, plan *bundle.Plan) (eventlog.RecordReader, error)
}

// Exported is the result of Export.
type Exported struct {
	// Path is the file's path, empty if there is no file.
	Path  string `json:"path,omitempty"`
	Bytes int64  `json:"bytes"`
	bundle.Manifest
	Entries uint64 `json:"entries"`
}

// Export writes a range of a log to a new file, or into opts.Into. If the snapshot at its beginning has another state
// than the entries make, the error wraps snapshot.ErrNotTheEntries.
func Export(ctx context.Context, log *logs.Source, opts ExportOptions) (*Exported, error) {
	plan, err := opts.plan(ctx, log)
	if err != nil {
		return nil, err
	}
	records := eventlog.RecordReader(log)
	if opts.Redact != nil {
		if records, err = opts.Redact(ctx, log, plan); err != nil {
			return nil, fmt.Errorf("redact entries %d to %d: %w", plan.First, plan.Last, log.Advise(err))
		}
	}
	plan.Progress = func(seq uint64) { log.Progress("", seq, plan.Last) }
	made := new(Exported)
	write := func(w io.Writer) error {
		m, size, err := bundle.Write(ctx, w, records, *plan)
		if err == nil {
			made.Manifest, made.Entries, made.Bytes = *m, m.Entries(), int64(size)
		}
		return err
	}
	if opts.Into != nil {
		err = write(opts.Into)
	} else {
		made.Path = opts.File
		err = durable.WriteNew(opts.File, write)
	}
	if err != nil {
		return nil, fmt.Errorf("export entries %d to %d: %w", plan.First, plan.Last, log.Advise(err))
	}
	if made.Damage != "" {
		log.Report("%s", made.Damage)
		log.Report("exported what is good before that")
	}
	return made, nil
}

// plan finds the range and its first state.
func (o *ExportOptions) plan(ctx context.Context, log *logs.Source) (*bundle.Plan, error) {
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	from, to, err := o.findRange(ctx, log)
	if err != nil {
		return nil, err
	}
	damage := log.DamageBehind(last)
	switch {
	case o.From.Seq > 0 && from > last:
		return nil, logs.Refuse("--from is %d: the log ends with entry %d", from, last)
	case to < from:
		return nil, logs.Refuse(
			"there is no entry in that range: it would begin with entry %d and end with entry %d",
			from,
			to,
		)
	case o.To.Seq > last && !o.UntilDamage && damage == nil:
		return nil, logs.Refuse("--to is %d: the log ends with entry %d", o.To.Seq, last)
	}
	plan := &bundle.Plan{First: 1, From: from, Last: to, UntilDamage: o.UntilDamage, Version: o.Version}
	if damage != nil && to == last && o.To.Seq != last {
		if !o.UntilDamage {
			return nil, log.Advise(damage)
		}
		plan.Damage = damage.Error()
	}
	base, err := log.Base()
	if err != nil {
		return nil, err
	}
	if from <= base {
		return nil, fmt.Errorf(
			"the log is known behind entry %d only: nothing from entry %d on can be exported",
			base,
			from,
		)
	}
	m, err := log.Restore(from - 1)
	if err != nil || from == 1 {
		return plan, err
	}
	return plan, startBehind(ctx, plan, log, m)
}

// startBehind makes a bundle begin after a state, which it compares with the entries: the state before plan.From, or an
// earlier one if that state cannot be made. m is the newest state in a snapshot, nil for none.
func startBehind(ctx context.Context, plan *bundle.Plan, log *logs.Source, m *scheduler.Machine) error {
	if m != nil {
		var unknown *logs.NotComparedError
		if err := log.Confirm(ctx, m); errors.As(err, &unknown) {
			log.Report("%v", unknown) // the good part of a damaged log must remain exportable
		} else if err != nil {
			return err
		}
		if err := startAt(plan, log, m); err != nil {
			return err
		}
	}
	if plan.First == plan.From {
		return nil
	}
	exact, err := log.StateAfter(ctx, plan.From-1)
	if err == nil {
		err = exact.Restorable()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		log.Report("the state before entry %d is not known: %v; the bundle begins with entry %d", plan.From, err,
			plan.First)
		return nil
	}
	return startAt(plan, log, exact)
}

// startAt makes a bundle begin after the state m.
func startAt(plan *bundle.Plan, log *logs.Source, m *scheduler.Machine) (err error) {
	if plan.Snapshot, err = log.EncodeSnapshot(m); err != nil {
		return err
	}
	plan.First, plan.Config = m.Seq()+1, m.Config()
	return nil
}

// Range returns the first and the last entry of a range of a log. It is an error if the log does not reach a named
// entry. A range of times may be empty; then first is above last.
func Range(ctx context.Context, log *logs.Source, from, to Place) (first, last uint64, err error) {
	for _, seq := range []uint64{from.Seq, to.Seq} {
		if err := log.MustHave(seq); err != nil {
			return 0, 0, err
		}
	}
	o := ExportOptions{From: from, To: to}
	first, last, err = o.findRange(ctx, log)
	if base, berr := log.Base(); err == nil && berr == nil && first <= base {
		return 0, 0, logs.Refuse("the log is known behind entry %d only: nothing from entry %d on can be audited",
			base, first)
	}
	return first, last, err
}

// findRange returns the first and the last entry of the range. It reads the log only if the range has times.
func (o *ExportOptions) findRange(ctx context.Context, log *logs.Source) (first, last uint64, err error) {
	if last, err = log.Last(); err != nil {
		return 0, 0, err
	}
	base, err := log.Base()
	if err != nil {
		return 0, 0, err
	}
	from, to := o.From, o.To
	first = max(from.Seq, base+1)
	if from.Seq > 0 && from.Seq <= base {
		first = from.Seq // plan refuses it
	}
	if to.Seq > 0 {
		last = min(to.Seq, last)
	}
	if from.Time == 0 && to.Time == 0 {
		return first, last, nil
	}
	end := last
	if from.Time != 0 {
		first = end + 1
	}
	for e, err := range log.Read(ctx, base+1) {
		var damaged *eventlog.DamagedError
		if errors.As(err, &damaged) && o.UntilDamage {
			return first, damaged.Seq - 1, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, 0, err
		}
		if from.Time != 0 && first > end && e.Time >= from.Time {
			first = e.Seq
		}
		if to.Time != 0 && e.Time > to.Time {
			return first, e.Seq - 1, nil
		}
	}
	return first, last, nil
}
