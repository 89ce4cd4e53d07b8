package ledger

import (
	"iter"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// edges are the times at which buckets begin, except for the first bucket.
type edges []eventlog.Time

// bucket returns the bucket of the time right behind t.
func (e edges) bucket(t eventlog.Time) int {
	i, found := slices.BinarySearch(e, t)
	if found {
		i++
	}
	return i
}

// divide returns the buckets of the time between two times, with how much of it is in each.
func (e edges) divide(from, until eventlog.Time) iter.Seq2[int, eventlog.Time] {
	return func(yield func(int, eventlog.Time) bool) {
		for i := e.bucket(from); from < until; i++ {
			end := until
			if i < len(e) {
				end = min(end, e[i])
			}
			if !yield(i, end-from) {
				return
			}
			from = end
		}
	}
}

// enter books the amounts of a piece.
func (e edges) enter(p piece, c Column) {
	for bucket, d := range e.divide(p.from, p.until) {
		for i, amount := range p.amounts {
			if amount > 0 {
				p.row.cell(bucket, i, c).add(amount, d)
			}
		}
	}
}
