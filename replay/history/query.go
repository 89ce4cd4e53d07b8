package history

import (
	"context"
	"iter"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
)

// A Query says which entries are asked for. The zero value asks for all.
type Query struct {
	// From is the first entry of the range, 0 for the first that can be read. No entry before Since is yielded.
	From  uint64
	Since eventlog.Time
	// To ends the range.
	To Bound
	// Keys are names of which an entry has to have one; nil for any entry. Two names may have the same Key.
	Keys []index.Key
	// Kinds are the kinds of entries; nil for any.
	Kinds []eventlog.Kind
}

// matches reports whether an entry within the range is asked for.
func (q *Query) matches(e eventlog.Entry) bool {
	return e.Time >= q.Since && (q.Kinds == nil || slices.Contains(q.Kinds, e.Kind())) &&
		(q.Keys == nil || index.Names(e, q.Keys))
}

// Entries yields the entries that a query asks for, in order. They are the same with and without an index. Damage
// behind the end of the range is an error only right behind it.
func (l *Log) Entries(ctx context.Context, q Query) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		q.From = max(q.From, l.source.First())
		q.Keys = slices.Compact(slices.Sorted(slices.Values(q.Keys)))
		if len(q.Keys) == 0 {
			q.Keys = nil
		}
		candidates := l.source.Read(ctx, q.From)
		if x := l.indexFor(ctx, q); x != nil {
			candidates = l.candidates(ctx, x, q)
		}
		for e, err := range candidates {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(e, err)
				return
			}
			if q.To.excludes(e) {
				return
			}
			l.progress(e.Seq)
			if q.matches(e) && !yield(e, nil) {
				return
			}
		}
	}
}

// indexFor returns the index if it saves reading for a query, and nil otherwise. A log without a kept index is read to
// its end for one: damage anywhere in it would be an error, also behind the range of the query. So the query reads its
// range where no index can be made.
func (l *Log) indexFor(ctx context.Context, q Query) index.Lookup {
	if q.Keys == nil && q.Kinds == nil && q.Since == 0 {
		return nil
	}
	x, err := l.source.Index(ctx)
	if err != nil {
		return nil // what is wrong with the range, the reading of it finds
	}
	return x
}

// candidates yields the entries that the query may ask for, as far as the index knows. After them it yields the first
// entry behind the range, or the error there, as if it had read all entries.
func (l *Log) candidates(ctx context.Context, x index.Lookup, q Query) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		last, err := l.boundary(ctx, x, q.To)
		if err == nil && q.Since > 0 {
			var before uint64
			before, err = x.Until(ctx, q.Since-1)
			q.From = max(q.From, before+1)
		}
		if err == nil {
			err = l.between(ctx, x, q, last, yield)
		}
		if err != nil && err != errStopped {
			yield(eventlog.Entry{}, err)
		}
	}
}

// errStopped says that no more entries are wanted.
var errStopped = stopped{}

type stopped struct{}

func (stopped) Error() string { return "no more entries are wanted" }

// between yields candidates up to entry last, and what is behind it.
func (l *Log) between(
	ctx context.Context, x index.Lookup, q Query, last uint64, yield func(eventlog.Entry, error) bool,
) error {
	pass := func(entries iter.Seq2[eventlog.Entry, error], to uint64) error {
		for e, err := range entries {
			if err != nil {
				return err
			}
			if !yield(e, nil) {
				return errStopped
			}
			if e.Seq >= to {
				break
			}
		}
		return nil
	}
	if q.Keys != nil {
		seqs, err := x.Naming(ctx, q.Keys...)
		if err != nil {
			return err
		}
		if err := pass(x.Pick(ctx, within(seqs, q.From, last)), last); err != nil {
			return err
		}
	} else {
		for _, f := range x.Facts() {
			if first := max(q.From, f.First); first <= min(f.Last, last) && hasKind(&f, q.Kinds) {
				if err := pass(l.source.Read(ctx, first), min(f.Last, last)); err != nil {
					return err
				}
			}
		}
	}
	return pass(l.source.Read(ctx, max(q.From, last+1)), max(q.From, last+1))
}

// hasKind reports whether there is an entry of one of the kinds in a part.
func hasKind(f *index.Facts, kinds []eventlog.Kind) bool {
	return kinds == nil || slices.ContainsFunc(kinds, func(k eventlog.Kind) bool { return f.Kinds[k] > 0 })
}

// within returns the part of seqs from first to last; seqs ascend.
func within(seqs []uint64, first, last uint64) []uint64 {
	from, _ := slices.BinarySearch(seqs, first)
	to, _ := slices.BinarySearch(seqs, last+1)
	return seqs[min(from, to):to]
}

// boundary returns the last entry that is not behind a bound, 0 if there is none. A bound with a time needs an index.
func (l *Log) boundary(ctx context.Context, x index.Lookup, b Bound) (uint64, error) {
	last, err := l.source.Last()
	if err == nil && b.Time > 0 {
		last, err = x.Until(ctx, b.Time)
	}
	if b.Seq > 0 {
		last = min(last, b.Seq)
	}
	return last, err
}
