package snapshot

import "slices"

// A Retention says which snapshots of a log are kept beside the newest one.
type Retention struct {
	// Last is the number of the last ones that are kept, the newest among them; less than 1 means 1.
	Last int
	// Spacing is the least number of entries between two of the older snapshots that are kept beside the last ones. It
	// is counted from the log's first entry, so that any point of a long log is near a snapshot. 0: none are kept
	// beside the last ones.
	Spacing uint64
	// Base is the entry before the first one that the log has, 0 if it has all. The log's beginning is restored from
	// the first snapshot from there on, which is always kept.
	Base uint64
}

// Superfluous returns the snapshots, ascending, that are not to be kept beside the newest one. It drops no later
// snapshot: they may show that the log was longer. It goes through the older ones from the oldest on, so that a
// snapshot that was kept once stays.
func (r Retention) Superfluous(seqs []uint64, newest uint64) (drop []uint64) {
	at, _ := slices.BinarySearch(seqs, newest)
	kept, based := uint64(0), r.Base == 0
	for i, seq := range seqs[:min(at+1, len(seqs))] {
		begins := !based && seq >= r.Base
		switch {
		case i > at-max(1, r.Last):
		case begins || r.Spacing > 0 && seq >= kept+r.Spacing:
			kept = seq
		default:
			drop = append(drop, seq)
		}
		based = based || begins
	}
	return drop
}
