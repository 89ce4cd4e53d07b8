package history

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A Log answers questions about the entries of a Source and the states that they make.
type Log struct {
	source    Source
	opts      Options
	cache     cache
	snapshots []uint64
	listed    bool // snapshots are known
}

// Options say how a log is read. The zero value keeps nothing and is silent.
type Options struct {
	// Keep is the number of Machines that the Log keeps to begin with. The least recently used goes first. Keeping one
	// costs a copy of the state: set it where more than one question is asked.
	Keep int
	// Progress is called now and then with the last entry read; nil is not called.
	Progress func(seq uint64)
	// Undecided is a sentence that says what the log does not know, if it is of a cluster that others schedule, and has
	// no decisions. Answers about what waits are then attempts at the point in question, and have the sentence. "" is a
	// log with decisions.
	Undecided string
	// Jump is over how many entries a visit rather restores a snapshot than applies them; 0 means 40,000. With 5,000
	// nodes and 40,000 pods, restoring takes as long as applying twice as many. With fewer it pays earlier.
	Jump uint64
}

const defaultJump = 40000

// New returns the history of a log.
func New(source Source, opts Options) *Log {
	if opts.Jump == 0 {
		opts.Jump = defaultJump
	}
	return &Log{source: source, opts: opts, cache: cache{limit: opts.Keep}}
}

// An Extent says how far a log can be read.
type Extent struct {
	// First and Last are the first and the last entry. Entries before First are archived or trimmed away.
	First, Last uint64
	// Base is the entry after which the first state is known, 0 for the empty state before entry 1.
	Base uint64
	// Behind says why there may be entries behind Last, and Damage is the damage there. Both are nil for a log that
	// ends with Last, as far as the Source knows.
	Behind, Damage error
}

// KnownFrom returns the first entry about which the log tells everything, 0 if that is entry 1.
func (x Extent) KnownFrom() uint64 {
	if x.Base == 0 {
		return 0
	}
	return x.Base + 1
}

// Extent returns how far the log can be read.
func (l *Log) Extent(ctx context.Context) (x Extent, err error) {
	x.First, x.Behind = l.source.First(), l.source.Behind()
	if x.Last, err = l.source.Last(); err != nil {
		return x, err
	}
	if x.Base, err = l.source.Base(); err != nil {
		return x, err
	}
	x.Damage = l.damageAt(ctx, x.Last+1)
	return x, nil
}

// damageAt returns the error that reading the log ends with at an entry, nil if there is none.
func (l *Log) damageAt(ctx context.Context, seq uint64) error {
	for _, err := range l.source.Read(ctx, seq) {
		return err
	}
	return nil
}

// Undecided says what the log does not know if nobody decides in it: the sentence of Options.Undecided, or another one
// if the epoch of m, a state of the log, only records. It is "" where decisions are made.
func (l *Log) Undecided(m *scheduler.Machine) string {
	if l.opts.Undecided == "" && framework.LoggedRecording(m.Config()) {
		return "The log records a cluster that others schedule: it has no decisions, and no place in their queue."
	}
	return l.opts.Undecided
}

// Base returns the entry after which the first state is known, 0 for the empty state before entry 1.
func (l *Log) Base() (uint64, error) { return l.source.Base() }

// First returns the first entry that can be read.
func (l *Log) First() uint64 { return l.source.First() }

// Last returns the last entry that can be read, 0 for an empty log.
func (l *Log) Last() (uint64, error) { return l.source.Last() }

// At returns the state after an entry. The Machine is the caller's own.
func (l *Log) At(ctx context.Context, seq uint64) (*scheduler.Machine, error) {
	base, err := l.source.Base()
	if err != nil {
		return nil, err
	}
	if seq < base {
		return nil, fmt.Errorf("entry %d is before what is known: the first state is that after entry %d", seq, base)
	}
	m, err := l.Nearest(seq)
	if err != nil {
		return nil, err
	}
	began := m.Seq()
	for e, err := range l.source.Read(ctx, began+1) {
		if m.Seq() == seq {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = m.Apply(e)
		}
		if err != nil {
			return nil, err
		}
		l.progress(e.Seq)
	}
	if m.Seq() < seq {
		return nil, &beyondError{seq, m.Seq()}
	}
	if l.cache.limit > 0 && (m.Seq() > began || !l.cache.has(seq)) {
		return m, l.cache.keep(m, l.source.Registry())
	}
	return m, nil
}

// Nearest returns the newest state after an entry up to last that is at hand without applying entries: of a kept
// Machine, of a snapshot, or the empty one. If the log is known from Base on it is not older than that. The Machine is
// the caller's own.
func (l *Log) Nearest(last uint64) (*scheduler.Machine, error) {
	base, err := l.source.Base()
	if err != nil {
		return nil, err
	}
	last = max(last, base)
	snapshots, err := l.snapshotSeqs()
	if err != nil {
		return nil, err
	}
	i, _ := slices.BinarySearch(snapshots, last+1)
	if kept := l.cache.newest(last); kept != nil && (i == 0 || snapshots[i-1] <= kept.Seq()) {
		return clone(kept, l.source.Registry())
	}
	m, err := l.source.Restore(last)
	switch {
	case err != nil:
		return nil, err
	case m == nil && base > 0:
		return nil, fmt.Errorf("the log is known behind entry %d only, and there is no state to begin with", base)
	case m == nil:
		return scheduler.New(l.source.Registry()), nil
	case m.Seq() > last:
		return nil, fmt.Errorf("the state after entry %d was asked for, and that after entry %d came", last, m.Seq())
	}
	return m, nil
}

// snapshotSeqs returns the entries with a snapshot, ascending.
func (l *Log) snapshotSeqs() (seqs []uint64, err error) {
	if !l.listed {
		if l.snapshots, err = l.source.SnapshotSeqs(); err != nil {
			return nil, err
		}
		l.listed = true
	}
	return l.snapshots, nil
}

func (l *Log) progress(seq uint64) {
	if l.opts.Progress != nil && seq%1000 == 0 {
		l.opts.Progress(seq)
	}
}

// ErrBeyond is the error for an entry behind the log's last one.
var ErrBeyond = errors.New("the entry is not in the log")

type beyondError struct{ seq, last uint64 }

func (e *beyondError) Error() string {
	return fmt.Sprintf("entry %d is not in the log: its last one is %d", e.seq, e.last)
}

func (e *beyondError) Unwrap() error { return ErrBeyond }

// A Point is an entry's place in a log; the zero Point is the log's beginning.
type Point struct {
	Seq  uint64
	Time eventlog.Time
}

func pointOf(e eventlog.Entry) Point { return Point{e.Seq, e.Time} }

// A Bound limits a range of entries: their numbers are at most Seq, and their times at most Time. 0 is no bound.
type Bound struct {
	Seq  uint64
	Time eventlog.Time
}

// excludes reports whether an entry is behind the bound.
func (b Bound) excludes(e eventlog.Entry) bool {
	return b.Seq > 0 && e.Seq > b.Seq || b.Time > 0 && e.Time > b.Time
}
