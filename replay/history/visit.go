package history

import (
	"context"
	"fmt"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A Need says which entries a Visitor has to see from a state on.
type Need int

const (
	// EveryEntry: whatever comes next may mean something.
	EveryEntry Need = iota
	// SelectedEntries: until the next selected entry, nothing that comes is of interest, but later states are.
	SelectedEntries
	// NothingMore: neither an entry that comes is of interest nor a later state. The visit ends.
	NothingMore
	// WholeLog: this cannot be answered from the selected entries. The visit ends with ErrTooNarrow.
	WholeLog
)

// A Visitor sees the states that the entries of a log make, one after the other.
type Visitor interface {
	// Before and After see each entry that is applied, with the state before and after it.
	Before(m *scheduler.Machine, e eventlog.Entry)
	After(m *scheduler.Machine, e eventlog.Entry)
	// Needs says what has to be seen after a state. ahead are the selected entries that come. It is not called where
	// every entry is selected.
	Needs(m *scheduler.Machine, ahead []uint64) Need
}

// Visit applies entries to a Machine up to the bound, and shows v the ones that it needs to see. Between two of these
// it may continue from a snapshot. It returns the last state: the one at the bound, or an earlier one if v needed
// nothing more.
func (s *Selection) Visit(ctx context.Context, m *scheduler.Machine, v Visitor) (*scheduler.Machine, error) {
	visit := visit{s, v, m, 0}
	for {
		over, err := visit.skip()
		if err != nil || over {
			return visit.m, err
		}
		if err := visit.walk(ctx); err != nil {
			return visit.m, err
		}
	}
}

// visit is a Visit under way.
type visit struct {
	*Selection
	v      Visitor
	m      *scheduler.Machine
	failed uint64 // the snapshot that could not be used
}

// skip continues from later snapshots for as long as v allows it. It reports whether the visit is over.
func (t *visit) skip() (over bool, err error) {
	for {
		if t.m.Seq() >= t.at.Seq {
			return true, nil
		}
		if t.Whole() || t.m.Seq() == 0 {
			return false, nil
		}
		ahead := within(t.seqs, t.m.Seq()+1, t.at.Seq)
		switch t.v.Needs(t.m, ahead) {
		case EveryEntry:
			return false, nil
		case NothingMore:
			return true, nil
		case WholeLog:
			return true, ErrTooNarrow
		}
		if jumped, err := t.jump(ahead); err != nil || !jumped {
			return false, err
		}
	}
}

// jump continues from the newest snapshot before the next selected entry, if there is one far enough ahead. If every
// entry counts from the state there on, something has happened that the names do not tell: it is not used.
func (t *visit) jump(ahead []uint64) (bool, error) {
	next := append(ahead[:min(1, len(ahead)):1], t.at.Seq+1)[0]
	snapshots, err := t.log.snapshotSeqs()
	if err != nil {
		return false, err
	}
	i, _ := slices.BinarySearch(snapshots, next)
	far := t.m.Seq() + t.log.opts.Jump
	if i == 0 || snapshots[i-1] < far || snapshots[i-1] == t.failed {
		return false, nil
	}
	later, err := t.log.Nearest(snapshots[i-1])
	if err != nil {
		return false, err
	}
	if later.Seq() < far || t.v.Needs(later, ahead) == EveryEntry {
		t.failed = snapshots[i-1]
		return false, nil
	}
	t.m = later
	return true, nil
}

// walk applies entries until v no longer needs every one, or up to the bound.
func (t *visit) walk(ctx context.Context) error {
	for e, err := range t.log.source.Read(ctx, t.m.Seq()+1) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		t.v.Before(t.m, e)
		if err := t.m.Apply(e); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		t.v.After(t.m, e)
		t.log.progress(e.Seq)
		before := t.m
		if over, err := t.skip(); over || err != nil || t.m != before {
			return err
		}
	}
	return &beyondError{t.at.Seq, t.m.Seq()}
}
