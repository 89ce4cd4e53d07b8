// Package similar measures how alike two names are, for messages that suggest the name that was meant. It owns the one
// count of edits. It does not choose names, and words no message.
//
// The names may come from files and from logs, so the work of a call is bounded, whatever their lengths. Start reading
// at Edits.
package similar

// MaxLength is the largest number of letters that a name may have to be compared: more than the 317 of the key of a
// label, which is the longest name of Kubernetes.
const MaxLength = 320

// Edits returns the least number of letters to insert, delete or replace that makes one name of the other. It returns
// limit if at least so many are necessary, and for two different names of which one has more than MaxLength letters.
// Upper and lower case differ. A limit of 0 or less is the answer.
//
// A call compares at most MaxLength letters with 2·limit+1 letters each.
func Edits(a, b string, limit int) int {
	switch {
	case limit <= 0:
		return limit
	case a == b:
		return 0
	case len(a) > 4*MaxLength || len(b) > 4*MaxLength: // a letter has four bytes at most
		return limit
	}
	x, y := []rune(a), []rune(b)
	if len(x) > len(y) {
		x, y = y, x
	}
	if len(y) > MaxLength || len(y)-len(x) >= limit {
		return limit
	}
	return edits(x, y, limit)
}

// edits is Edits for names that are compared. The row of i has, at j, the edits that make the first j letters of y of
// the first i letters of x. They are at least the difference of i and j, so that only the places with a difference
// below the limit matter.
func edits(x, y []rune, limit int) int {
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = min(j, limit)
	}
	for i := 1; i <= len(x); i++ {
		first, last := max(1, i-limit+1), min(len(y), i+limit-1)
		before := row[first-1] // of the row of i-1, at the place to the left
		if row[first-1] = limit; first == 1 {
			row[0] = min(i, limit)
		}
		least := row[first-1]
		for j := first; j <= last; j++ {
			replaced := before
			if x[i-1] != y[j-1] {
				replaced++
			}
			before = row[j]
			row[j] = min(replaced, row[j-1]+1, row[j]+1, limit)
			least = min(least, row[j])
		}
		if least == limit {
			return limit
		}
	}
	return row[len(y)]
}
