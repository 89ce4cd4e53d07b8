package workload

import "slices"

// mostEdits is the largest number of letters in which a name may differ from the suggested one.
const mostEdits = 3

// didYouMean suggests the candidate that is most like the name; ties go to the first by name. It returns "" if none is
// alike.
func didYouMean(name string, candidates []string) string {
	best, found := mostEdits+1, ""
	for _, candidate := range slices.Sorted(slices.Values(candidates)) {
		if n := edits(name, candidate, best); n < best {
			best, found = n, candidate
		}
	}
	if found == "" {
		return ""
	}
	return ": is " + found + " meant?"
}

// edits counts the letters that must be put in, left out or replaced to make b of a; at least limit if there are many.
func edits(a, b string, limit int) int {
	if len(a) > len(b)+limit || len(b) > len(a)+limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
