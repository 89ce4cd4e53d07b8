package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bundle"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// export is what the export command is asked to do.
type export struct {
	reading
	file           string
	from, to, upTo place
	out            output
}

// exportFacts is what "rollcall log export" prints.
type exportFacts struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	bundle.Manifest
	Entries uint64 `json:"entries"`
}

func newLogExport() *cobra.Command {
	var x export
	cmd := &cobra.Command{
		Use:   "export LOG --out FILE",
		Short: "Write a range of a log to one file, the incident bundle",
		Long: `Writes the entries of a range, the state that they begin from, the configuration, and the place of
both in the log's chain and hash tree to one compressed file. replay, explain, log cat and log info
read the file as it is, and log import makes a log of it.

The file begins behind the newest snapshot that is old enough, hence somewhat before --from. If
there is none, it begins with entry 1. That snapshot is compared with the state which the entries
make: all of them from the log's first one on, archived ones too, or from the first snapshot on if the
entries before that are not found; which is what a large log takes its time for. If it is another
state, the snapshot is named, and the exit code is 4. If entries are damaged it is not compared, which is said.

With --to the whole range must be there. With --up-to the file ends earlier if the log is damaged
before that entry: it carries what is good, and says why it ends there.`,
		Example: `  rollcall log export jobs.db --out incident.bundle --from 2026-01-03T13:30:00Z --to 2026-01-03T14:30:00Z
  rollcall log export damaged.db --up-to 4710 --out good.bundle`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := x.check(); err != nil {
				return err
			}
			facts, err := x.run(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return x.out.write(cmd.OutOrStdout(), facts, facts.writeText)
		},
	}
	f := cmd.Flags()
	f.StringVar(&x.file, "out", "", "the new file to write")
	f.Var(&x.from, "from", "the first `entry`, or a time as 2026-01-03T14:03:00Z; default: the first there is")
	f.Var(&x.to, "to", "the last `entry`, or a time; default: the log's last")
	f.Var(&x.upTo, "up-to", "as --to, but end before damage if there is any")
	x.reading.register(cmd)
	x.out.register(cmd)
	return cmd
}

func (x *export) check() error {
	switch {
	case x.file == "":
		return usageError{errors.New("--out is needed: the file to write")}
	case x.to.given() && x.upTo.given():
		return usageError{errors.New("--to and --up-to exclude each other")}
	}
	if _, err := os.Lstat(x.file); err == nil {
		return usageError{fmt.Errorf("%s is there already: remove it, or name another file", x.file)}
	}
	return x.out.check()
}

func (x *export) run(ctx context.Context, path string) (*exportFacts, error) {
	log, err := x.open(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	plan, err := x.plan(ctx, log)
	if err != nil {
		return nil, err
	}
	p := newProgress()
	plan.Progress = func(seq uint64) { p.show("entry %d of %d", seq, plan.Last) }
	facts := &exportFacts{Path: x.file}
	err = writeNewFile(x.file, func(w io.Writer) error {
		m, err := bundle.Write(w, log.interruptible(ctx), *plan)
		if err == nil {
			facts.Manifest, facts.Entries = *m, m.Entries()
		}
		return err
	})
	p.done()
	if err != nil {
		return nil, fmt.Errorf("export entries %d to %d: %w", plan.First, plan.Last, log.advise(err))
	}
	info, err := os.Stat(x.file)
	if err != nil {
		return nil, err
	}
	facts.Bytes = info.Size()
	if facts.Damage != "" {
		fmt.Fprintf(os.Stderr, "rollcall: %s\nrollcall: exported what is good before that\n", facts.Damage)
	}
	return facts, nil
}

// plan finds the range and the state that it begins from.
func (x *export) plan(ctx context.Context, log *source) (*bundle.Plan, error) {
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	end, lenient := x.to, false
	if x.upTo.given() {
		end, lenient = x.upTo, true
	}
	from, to, err := findRange(ctx, log, x.from, end, lenient)
	if err != nil {
		return nil, err
	}
	if x.from.seq > 0 && from > last {
		return nil, usageError{fmt.Errorf("--from is %d: the log ends with entry %d", from, last)}
	}
	if to < from {
		return nil, usageError{fmt.Errorf("there is no entry in that range: it would begin with entry %d and end with entry %d", from, to)}
	}
	if end.seq > last && !lenient && log.damageBehind(last) == nil {
		return nil, usageError{fmt.Errorf("--to is %d: the log ends with entry %d", end.seq, last)}
	}
	plan := &bundle.Plan{First: 1, From: from, Last: to, UntilDamage: lenient, Version: version().String()}
	if damage := log.damageBehind(last); damage != nil && to == last && end.seq != last {
		if !lenient {
			return nil, log.advise(damage)
		}
		plan.Damage = damage.Error()
	}
	base, err := log.base()
	if err != nil {
		return nil, err
	}
	if from <= base {
		return nil, fmt.Errorf("the log is known behind entry %d only: nothing from entry %d on can be exported", base, from)
	}
	m, err := log.restore(from - 1)
	if err != nil || m == nil {
		return plan, err
	}
	var unknown *notComparedError
	if err := log.follows(ctx, m); errors.As(err, &unknown) {
		fmt.Fprintf(os.Stderr, "rollcall: %v\n", unknown) // what is good of a damaged log is to be saved
	} else if err != nil {
		return nil, err
	}
	return plan, begin(plan, log, m)
}

// begin lets a bundle begin behind a state.
func begin(plan *bundle.Plan, log *source, m *scheduler.Machine) error {
	position, err := log.RecordHash(m.Seq())
	if err != nil {
		return err
	}
	if plan.Snapshot, err = snapshot.Encode(m, position); err != nil {
		return err
	}
	plan.First, plan.Config = m.Seq()+1, m.Config()
	return nil
}

// damageBehind returns the damage that is known to stand behind the log's last entry, nil for none.
func (s *source) damageBehind(last uint64) error {
	for _, err := range s.records.Read(last + 1) {
		return err
	}
	return nil
}

// findRange returns the first and the last entry from one place to another. The log is read for times only.
func findRange(ctx context.Context, log *source, from, to place, lenient bool) (first, last uint64, err error) {
	if last, err = log.Last(); err != nil {
		return 0, 0, err
	}
	base, err := log.base()
	if err != nil {
		return 0, 0, err
	}
	first = max(from.seq, base+1)
	if from.seq > 0 && from.seq <= base {
		first = from.seq // refused by whoever asks
	}
	if to.seq > 0 {
		last = min(to.seq, last)
	}
	if from.time == 0 && to.time == 0 {
		return first, last, nil
	}
	end := last
	if from.time != 0 {
		first = end + 1
	}
	for e, err := range log.Read(base + 1) {
		var damaged *eventlog.DamagedError
		if errors.As(err, &damaged) && lenient {
			return first, damaged.Seq - 1, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, 0, err
		}
		if from.time != 0 && first > end && e.Time >= from.time {
			first = e.Seq
		}
		if to.time != 0 && e.Time > to.time {
			return first, e.Seq - 1, nil
		}
	}
	return first, last, nil
}

// interruptible returns the log as what a bundle is made of, which ends when ctx does.
func (s *source) interruptible(ctx context.Context) bundle.Source {
	return &interruptible{s.records, ctx}
}

type interruptible struct {
	records
	ctx context.Context
}

// Records implements bundle.Source.
func (i *interruptible) Records(from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for rec, err := range i.records.Records(from) {
			if err == nil {
				err = i.ctx.Err()
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// writeNewFile lets write make the content of the file at path, which appears there when it is whole and durable.
func writeNewFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already if all went well
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil { // a link does not replace what came there meanwhile
		if errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Rename(f.Name(), path); err != nil {
			return err
		}
	}
	return syncDir(filepath.Dir(path))
}

func (f *exportFacts) writeText(w io.Writer) error {
	fmt.Fprintf(w, "file      %s, %d bytes\nentries   %d to %d", f.Path, f.Bytes, f.First, f.Last)
	if f.From > f.First {
		fmt.Fprintf(w, "; asked for from %d on, and the state is that of entry %d", f.From, f.First-1)
	}
	_, err := fmt.Fprintf(w, "\ntimes     %s to %s\nchain     %x to %s\ntree      %s\n", f.FirstTime, f.LastTime, f.Origin.Hash, f.LastHash, f.Root)
	return err
}

// A place is where a range begins or ends: an entry or a time. It is a flag's value.
type place struct {
	seq  uint64
	time eventlog.Time
	text string
}

func (p *place) given() bool { return p.seq > 0 || p.time != 0 }

// String implements pflag.Value.
func (p *place) String() string { return p.text }

// Type implements pflag.Value.
func (p *place) Type() string { return "entry" }

// Set implements pflag.Value.
func (p *place) Set(s string) error {
	seq, err := strconv.ParseUint(s, 10, 64)
	if err == nil && seq > 0 {
		*p = place{seq: seq, text: s}
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.UnixNano() == 0 {
		return errors.New("want an entry's number above 0, or a time such as 2026-01-03T14:03:00Z")
	}
	*p = place{time: eventlog.TimeOf(t), text: s}
	return nil
}
