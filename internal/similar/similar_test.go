package similar

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

func TestEditsAreLettersInsertedDeletedOrReplaced(t *testing.T) {
	longest := strings.Repeat("n", MaxLength)
	for _, c := range []struct {
		a, b        string
		limit, want int
	}{
		{"", "", 3, 0},
		{"node", "node", 3, 0},
		{"node", "nodes", 3, 1},
		{"node", "ode", 3, 1},
		{"node", "mode", 3, 1},
		{"node", "Node", 3, 1},
		{"kitten", "sitting", 9, 3},
		{"kitten", "sitting", 3, 3},
		{"kitten", "sitting", 2, 2},
		{"ab", "ba", 9, 2},
		{"", "abc", 9, 3},
		{"größe", "grosse", 9, 3},
		{"Größe", "Grösse", 9, 2},
		{"node", "mode", 0, 0},
		{"node", "mode", -1, -1},
		{longest, longest[1:], 3, 1},
		{longest, "m" + longest[1:], 3, 1},
		{longest + "n", longest, 3, 3},
		{longest + "n", longest + "n", 3, 0},
		{strings.Repeat("ö", MaxLength), strings.Repeat("ö", MaxLength-1), 3, 1},
		{strings.Repeat("n", 1<<24), strings.Repeat("n", 1<<24-1), 1 << 25, 1 << 25},
	} {
		if got := Edits(c.a, c.b, c.limit); got != c.want {
			t.Errorf("%.20q and %.20q, limit %d: %d edits, want %d", c.a, c.b, c.limit, got, c.want)
		}
	}
}

// TestEditsAreThoseOfTheTextbook compares the count with the definition, below the limit and at it.
func TestEditsAreThoseOfTheTextbook(t *testing.T) {
	name := rapid.StringOfN(rapid.RuneFrom([]rune("abö/")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		limit := rapid.IntRange(1, 10).Draw(t, "limit")
		want := min(limit, textbook([]rune(a), []rune(b)))
		if got := Edits(a, b, limit); got != want {
			t.Fatalf("%d edits, want %d", got, want)
		}
		if back := Edits(b, a, limit); back != want {
			t.Fatalf("%d edits the other way round, want %d", back, want)
		}
	})
}

// textbook is the definition of the number of edits.
func textbook(a, b []rune) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return len(a) + len(b)
	case a[0] == b[0]:
		return textbook(a[1:], b[1:])
	}
	return 1 + slices.Min([]int{textbook(a[1:], b), textbook(a, b[1:]), textbook(a[1:], b[1:])})
}
