package history

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
)

// ErrTooNarrow says that a question needs entries that its Selection does not have: ask it again with Log.All.
var ErrTooNarrow = errors.New("the whole log is to be read")

// Names is a set of names: the entries of a Selection have one of them. It grows while the entries are found.
type Names struct {
	keys  map[index.Key]bool
	grown bool // since the last search
}

// NewNames returns names to begin with. Entries that may concern anything (index.Barrier) are always among those named.
func NewNames(keys ...index.Key) *Names {
	n := &Names{keys: map[index.Key]bool{}}
	n.Add(index.Barrier())
	n.Add(keys...)
	return n
}

// Add adds names.
func (n *Names) Add(keys ...index.Key) {
	for _, k := range keys {
		if !n.keys[k] {
			n.keys[k], n.grown = true, true
		}
	}
}

// Has reports whether a name is in the set.
func (n *Names) Has(k index.Key) bool { return n.keys[k] }

// A Learner is shown the entries that have some of the names, and adds names that these entries tell: the node of a
// pod, for example. It may be shown an entry more than once. If it returns ErrTooNarrow, all entries are selected.
type Learner func(e eventlog.Entry, names *Names) error

// A Selection is the entries up to a bound that concern a question, or all of them.
type Selection struct {
	log   *Log
	bound Bound
	base  uint64
	names *Names
	x     index.Lookup // nil if every entry is selected
	seqs  []uint64     // ascending, behind base and none behind at; not if every entry is selected
	at    Point
}

// All returns the Selection of all entries up to a bound.
func (l *Log) All(_ context.Context, bound Bound) (*Selection, error) {
	base, err := l.source.Base()
	return &Selection{log: l, bound: bound, base: base, at: Point{Seq: base}}, err
}

// Select returns the entries up to a bound that have the names, or names that learn adds on seeing them. If that
// would be most entries, or if the bound is outside of the log, all are selected.
func (l *Log) Select(ctx context.Context, bound Bound, names *Names, learn Learner) (*Selection, error) {
	all, err := l.All(ctx, bound)
	if err != nil {
		return nil, err
	}
	x, err := l.source.Index(ctx)
	if err != nil || x == nil {
		return all, err
	}
	s := &Selection{log: l, bound: bound, base: all.base, names: names, x: x}
	if narrow, err := s.locate(ctx); err != nil || !narrow {
		return all, err
	}
	if narrow, err := s.find(ctx, learn); err != nil || !narrow {
		return all, err
	}
	return s, nil
}

// locate finds the last entry within the bound. It reports false for a bound outside of the known entries.
func (s *Selection) locate(ctx context.Context) (bool, error) {
	last, err := s.log.source.Last()
	if err != nil || s.bound.Seq > last {
		return false, err
	}
	seq, err := s.log.boundary(ctx, s.x, s.bound)
	if err != nil || s.base > 0 && seq <= s.base {
		return false, err
	}
	for e, err := range s.x.Pick(ctx, within([]uint64{seq}, 1, last)) {
		if err != nil {
			return false, err
		}
		s.at = pointOf(e)
	}
	return true, nil
}

// find searches for the entries with the names, and shows them to learn until it adds no more names. It reports false
// if they are too many.
func (s *Selection) find(ctx context.Context, learn Learner) (bool, error) {
	seen := 0
	for s.names.grown {
		s.names.grown = false
		seqs, err := s.Naming(ctx, slices.Sorted(maps.Keys(s.names.keys))...)
		if err != nil {
			return false, err
		}
		if s.seqs = seqs; len(seqs) == seen {
			continue
		}
		if seen = len(seqs); uint64(seen) > 1000+s.at.Seq/8 {
			return false, nil
		}
		for e, err := range s.picked(ctx) {
			if err == nil {
				err = learn(e, s.names)
			}
			if errors.Is(err, ErrTooNarrow) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// Grow also selects the entries that have a name which learn adds. It reports false, and selects nothing more, if these
// are too many entries.
func (s *Selection) Grow(ctx context.Context, learn Learner) (bool, error) {
	if s.Whole() {
		return true, nil
	}
	before := *s
	s.names = &Names{keys: maps.Clone(s.names.keys), grown: true}
	narrow, err := s.find(ctx, learn)
	if err != nil || !narrow {
		*s = before
	}
	return narrow, err
}

// Whole reports whether every entry is selected.
func (s *Selection) Whole() bool { return s.x == nil }

// Names returns the names of the entries; nil if every entry is selected.
func (s *Selection) Names() *Names { return s.names }

// At returns the last entry up to the bound. If every entry is selected it is known once Entries has ended.
func (s *Selection) At() Point { return s.at }

// Naming returns, ascending, the entries up to the bound that may have one of the names; nil if every entry is
// selected.
func (s *Selection) Naming(ctx context.Context, keys ...index.Key) ([]uint64, error) {
	if s.Whole() {
		return nil, nil
	}
	seqs, err := s.x.Naming(ctx, keys...)
	return within(seqs, s.base+1, s.at.Seq), err
}

// picked yields the entries that were found by names.
func (s *Selection) picked(ctx context.Context) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range s.x.Pick(ctx, s.seqs) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Entries yields the selected entries in order, and perhaps others up to the bound. It ends with an error if the entry
// right after the bound is damaged, as a full read would.
func (s *Selection) Entries(ctx context.Context) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		if s.Whole() {
			s.each(ctx, yield)
			return
		}
		for e, err := range s.picked(ctx) {
			if !yield(e, err) || err != nil {
				return
			}
		}
		if err := s.log.damageAt(ctx, s.at.Seq+1); err != nil {
			yield(eventlog.Entry{}, err)
		}
	}
}

// each yields every entry up to the bound.
func (s *Selection) each(ctx context.Context, yield func(eventlog.Entry, error) bool) {
	for e, err := range s.log.source.Read(ctx, s.base+1) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(e, err)
			return
		}
		if s.bound.excludes(e) {
			return
		}
		s.at = pointOf(e)
		if !yield(e, nil) {
			return
		}
		s.log.progress(e.Seq)
	}
	if s.bound.Seq > s.at.Seq {
		yield(eventlog.Entry{}, &beyondError{s.bound.Seq, s.at.Seq})
	}
}

// Behind yields the entries behind the bound that have one of the names.
func (s *Selection) Behind(ctx context.Context, keys ...index.Key) iter.Seq2[eventlog.Entry, error] {
	return s.log.Entries(ctx, Query{From: s.at.Seq + 1, Keys: keys})
}
