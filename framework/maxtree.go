package framework

import "slices"

// maxTree finds the first of the highest numbers of a list. A number that changes is taken in in a time that grows with
// the logarithm of the list's length.
//
// levels[0] are the numbers, by place. levels[k+1][i] is the highest of the fan numbers of levels[k] from fan*i on,
// which together are one line of a processor's cache. The last level is one number, the highest of all. Example, if fan
// were 2: [3 7 7 1 5], [7 7 5], [7 5], [7]; the first of the highest is at 1.
type maxTree struct{ levels [][]int32 }

const fan = 16

// newMaxTree returns a tree over n numbers, at least one, which are 0.
func newMaxTree(n int) maxTree {
	var t maxTree
	for {
		t.levels = append(t.levels, make([]int32, n))
		if n <= 1 {
			return t
		}
		n = (n + fan - 1) / fan
	}
}

// numbers returns the list. After writing to it build is due.
func (t *maxTree) numbers() []int32 { return t.levels[0] }

// block returns the numbers below the i-th number of the level above.
func block(level []int32, i int) []int32 { return level[i*fan : min((i+1)*fan, len(level))] }

// build makes all levels anew from the numbers.
func (t *maxTree) build() {
	for k := 1; k < len(t.levels); k++ {
		for i := range t.levels[k] {
			t.levels[k][i] = slices.Max(block(t.levels[k-1], i))
		}
	}
}

// set changes the number at a place.
func (t *maxTree) set(at, to int32) {
	was := t.levels[0][at]
	t.levels[0][at] = to
	for k := 1; k < len(t.levels) && to != was; k++ {
		at /= fan
		highest := t.levels[k][at]
		switch {
		case to > highest:
		case was == highest:
			to = slices.Max(block(t.levels[k-1], int(at)))
		default:
			return
		}
		t.levels[k][at], was = to, highest
	}
}

// first returns the place of the highest number, and of equals the first place.
func (t *maxTree) first() int {
	highest, at := t.levels[len(t.levels)-1][0], 0
	for k := len(t.levels) - 2; k >= 0; k-- {
		at = at*fan + slices.Index(block(t.levels[k], at), highest)
	}
	return at
}

// bytes is how much memory the numbers take.
func (t *maxTree) bytes() (n int) {
	for _, level := range t.levels {
		n += 4 * len(level)
	}
	return n
}
