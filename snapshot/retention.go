package snapshot

import "slices"

// A Retention says which snapshots of a log are kept beside the newest one.
type Retention struct {
	// Last is how many of the last ones are kept, the newest among them; less than 1 stands for 1.
	Last int
	// Spacing is how many entries lie at least between two of the older snapshots that are kept beside the last ones,
	// counted from the log's first entry, so that any point of a long log is near one. 0: none are kept beside the last
	// ones.
	Spacing uint64
	// Base is the entry before the first one that the log has, 0 if it has all: the first snapshot from there on is
	// what the log's beginning is restored from, and always kept.
	Base uint64
}

// Superfluous returns those of the snapshots, ascending, that are not to be kept beside the newest one. Of later ones
// none is dropped: they may show that the log was longer. What is kept of the older ones is decided from the oldest on,
// so that what was kept once stays.
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
