package workload

import (
	"slices"

	"github.com/rollcall-sched/rollcall/internal/similar"
)

// mostEdits is the largest number of letters in which a name may differ from the suggested one.
const mostEdits = 3

// didYouMean suggests the candidate that is most like the name; ties go to the first by name. It returns "" if none is
// alike.
func didYouMean(name string, candidates []string) string {
	best, found := mostEdits+1, ""
	for _, candidate := range slices.Sorted(slices.Values(candidates)) {
		if n := similar.Edits(name, candidate, best); n < best {
			best, found = n, candidate
		}
	}
	if found == "" {
		return ""
	}
	return ": is " + found + " meant?"
}
