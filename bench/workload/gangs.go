package workload

import (
	"fmt"
	"strconv"
	"strings"
)

// gangCycle returns the sizes of gangs, which repeat in this order: Gang and its doubles up to GangMost, and GangMost.
// Example: 8 to 100 gives 8, 16, 32, 64 and 100. There is at least one.
func (s Spec) gangCycle() (sizes []int, sum int) {
	most := max(s.Gang, s.GangMost)
	for size := s.Gang; ; size *= 2 {
		size = min(size, most)
		sizes, sum = append(sizes, size), sum+size
		if size == most {
			return sizes, sum
		}
	}
}

// gangAt returns the number of pod i's gang, the gang's first pod, and the number after its last pod. It continues the
// pattern for pods beyond the last. Gang is not 0.
func (s Spec) gangAt(i int) (g, first, end int) {
	sizes, sum := s.gangCycle()
	g, first = i/sum*len(sizes), i/sum*sum
	for _, size := range sizes {
		if i < first+size {
			return g, first, first + size
		}
		g, first = g+1, first+size
	}
	panic("workload: a cycle of gangs ends before it has all its pods")
}

// groupOf returns the number of the i-th pod's gang.
func (s Spec) groupOf(i int) (g int, ok bool) {
	if s.Gang == 0 || i >= s.Pods {
		return 0, false
	}
	g, _, _ = s.gangAt(i)
	return g, true
}

// Begins returns the number of the gang whose first pod is pod i; ok is false if it is no gang's first.
func (s Spec) Begins(i int) (g int, ok bool) {
	if g, ok = s.groupOf(i); !ok {
		return 0, false
	}
	_, first, _ := s.gangAt(i)
	return g, first == i
}

// Groups is the number of gangs.
func (s Spec) Groups() int {
	g, ok := s.groupOf(s.Pods - 1)
	if !ok {
		return 0
	}
	return g + 1
}

// Members returns the numbers of the g-th gang's pods: from first up to, and without, end.
func (s Spec) Members(g int) (first, end int) {
	sizes, sum := s.gangCycle()
	first = g / len(sizes) * sum
	for _, size := range sizes[:g%len(sizes)] {
		first += size
	}
	return first, min(first+sizes[g%len(sizes)], s.Pods)
}

// GangFlag returns the flag for the sizes of gangs: one number, or two for the smallest and the largest.
func (s *Spec) GangFlag() *GangFlag { return (*GangFlag)(s) }

// GangUsage is the flag's line of help.
const GangUsage = "how many pods make a gang; 8-1024: sizes that double from 8 to 1024, in turn; 0: there are no gangs"

// GangFlag is a flag for Gang and GangMost of a Spec.
type GangFlag Spec

// String implements pflag.Value.
func (f *GangFlag) String() string {
	if f.GangMost > 0 {
		return fmt.Sprintf("%d-%d", f.Gang, f.GangMost)
	}
	return strconv.Itoa(f.Gang)
}

// Type implements pflag.Value.
func (f *GangFlag) Type() string { return "sizes" }

// Set implements pflag.Value.
func (f *GangFlag) Set(text string) error {
	least, most, both := strings.Cut(text, "-")
	low, err := strconv.ParseUint(least, 10, 31)
	high := uint64(0)
	if err == nil && both {
		high, err = strconv.ParseUint(most, 10, 31)
	}
	if err != nil || both && (low == 0 || high < low) {
		return fmt.Errorf("want a number, or two such as 8-1024, the smallest from 1, and not %q", text)
	}
	f.Gang, f.GangMost = int(low), int(high)
	return nil
}
