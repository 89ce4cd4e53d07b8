package index

import (
	"context"
	"iter"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A Lookup is the index of all entries of a log. The owner of a log makes it from Parts.
type Lookup interface {
	// Facts returns the facts of the parts, in order.
	Facts() []Facts
	// Until returns the last entry that is not after a time, 0 if there is none.
	Until(ctx context.Context, at eventlog.Time) (uint64, error)
	// Naming returns, ascending, the entries that name one of the keys, and it may be others.
	Naming(ctx context.Context, keys ...Key) ([]uint64, error)
	// Pick yields the entries of seqs, which are ascending. It does not read the entries in between.
	Pick(ctx context.Context, seqs []uint64) iter.Seq2[eventlog.Entry, error]
}

// Names reports whether an entry names one of the keys, which are sorted.
func Names(e eventlog.Entry, sorted []Key) bool {
	found := false
	keys(&e, func(k Key) {
		if !found {
			_, found = slices.BinarySearch(sorted, k)
		}
	})
	return found
}
