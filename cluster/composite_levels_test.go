package cluster

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is below each other, also in rings and far below what is allowed, those above one are the same as a naive
// climb finds.
func TestThoseAboveACompositeAreFoundHoweverManyTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := make([]*Composite, rapid.IntRange(1, 60).Draw(t, "composites"))
		for i := range all {
			all[i] = &Composite{Name: fmt.Sprintf("c%02d", i)}
		}
		for i, c := range all {
			switch above := rapid.IntRange(-1, len(all)-1).Draw(t, "above"); {
			case rapid.IntRange(0, 9).Draw(t, "chained") > 0: // long chains
				c.parent = all[(i+1)%len(all)]
			case above >= 0:
				c.parent = all[above]
			}
		}
		for _, c := range all {
			line := []*Composite{c}
			ring := false
			for at := c.parent; at != nil; at = at.parent {
				if i := slices.Index(line, at); i >= 0 {
					line, ring = line[firstByName(line[:i+1]):], true
					break
				}
				line = slices.Insert(line, 0, at)
			}
			got, inRing := c.climb()
			if !slices.Equal(got, line) || inRing != ring {
				t.Fatalf("above %s: %v, ring %t, want %v, ring %t", c.Name, got, inRing, line, ring)
			}
		}
	})
}
