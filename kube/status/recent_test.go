package status

import (
	"iter"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// TestTheLastEntriesAreKept compares the kept entries with a plain list, for rings of several sizes, and for entries
// that do not follow.
func TestTheLastEntriesAreKept(t *testing.T) {
	for _, most := range []int{0, 1, 2, 3, 7} {
		r := &Recent{Most: most}
		var all []uint64
		for _, seq := range []uint64{4, 5, 6, 7, 8, 9, 10, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31} {
			if len(all) > 0 && seq != all[len(all)-1]+1 {
				all = nil
			}
			all = append(all, seq)
			r.Note(eventlog.Entry{Seq: seq, Payload: &eventlog.Tick{}})
			for first := uint64(1); first <= seq+1; first++ {
				kept := all[max(0, len(all)-most):]
				wants := len(kept) > 0 && first >= kept[0] && first <= seq
				entries, ok := r.Between(first, seq)
				if ok != wants {
					t.Fatalf("of %d kept, entries %d to %d are there: %v, want %v", most, first, seq, ok, wants)
				}
				if !ok {
					continue
				}
				next := first
				for e, err := range entries {
					if e.Seq != next || err != nil {
						t.Fatalf("of %d kept, entry %d comes as %d: %v", most, next, e.Seq, err)
					}
					next++
				}
				if next != seq+1 {
					t.Fatalf("of %d kept, entries %d to %d end with %d", most, first, seq, next-1)
				}
			}
			if _, ok := r.Between(seq, seq+1); ok {
				t.Fatalf("an entry is there that has not come: %d", seq+1)
			}
		}
	}
}

// briefly passes entries on as a Recent keeps them.
func briefly(entries iter.Seq2[eventlog.Entry, error]) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range entries {
			if !yield(brief(e), err) {
				return
			}
		}
	}
}
