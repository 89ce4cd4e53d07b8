package framework

import "slices"

// maxTree finds the highest number of a list, and the first place that has it. A change of a number takes a time
// logarithmic in the length of the list.
//
// levels[0] has the numbers, by place. levels[k+1][i] is the highest of the fan numbers of levels[k] from fan*i on,
// which fill one line of a processor's cache. The last level has one number, the highest of all. Example with a fan of
// 2: [3 7 7 1 5], [7 7 5], [7 5], [7]; the first of the highest is at 1.
type maxTree struct{ levels [][]int32 }

const fan = 16

// newMaxTree returns a tree over n numbers, all 0. n must be at least 1.
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

// numbers returns the list. After writing to it, call build.
func (t *maxTree) numbers() []int32 { return t.levels[0] }

// block returns the numbers below the i-th number of the level above.
func block(level []int32, i int) []int32 { return level[i*fan : min((i+1)*fan, len(level))] }

// build computes all levels from the numbers.
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

// first returns the place of the highest number. Ties go to the first place.
func (t *maxTree) first() int {
	highest, at := t.levels[len(t.levels)-1][0], 0
	for k := len(t.levels) - 2; k >= 0; k-- {
		at = at*fan + slices.Index(block(t.levels[k], at), highest)
	}
	return at
}

// bytes returns the memory that the numbers take.
func (t *maxTree) bytes() (n int) {
	for _, level := range t.levels {
		n += 4 * len(level)
	}
	return n
}
