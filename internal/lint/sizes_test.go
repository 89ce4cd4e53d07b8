package lint

import (
	"fmt"
	"strings"
	"testing"
)

// TestEachLimitOfSizeIsHeld has, for each limit, something at it and something above it.
func TestEachLimitOfSizeIsHeld(t *testing.T) {
	methods := func(receiver string, n int) (out string) {
		for i := range n {
			out += fmt.Sprintf("func (x %s) M%d() {}\n", receiver, i)
		}
		return out
	}
	repeat := func(format string, n int) (out string) {
		for i := range n {
			out += fmt.Sprintf(format, i)
		}
		return out
	}
	for _, c := range []struct {
		limit
		source func(n int) string
		name   string
	}{
		{methodsOfType, func(n int) string { return "type T[K any] struct{}\n" + methods("*T[K]", n) }, "queue.T"},
		{methodsOfType, func(n int) string { return "type T int\n" + methods("T", n) }, "queue.T"},
		{fieldsOfStruct, func(n int) string {
			return "type T struct {\nerror\na, b int\n" + repeat("f%d int\n", n-3) + "}\n"
		}, "queue.T"},
		{methodsOfInterface, func(n int) string {
			return "type I interface {\nerror\n" + repeat("M%d()\n", n-1) + "}\n"
		}, "queue.I"},
		{linesOfFunction, func(n int) string {
			return "type T int\nfunc (T) F() {\n" + strings.Repeat("\n", n-2) + "}\n"
		}, "queue.T.F"},
		{linesOfFile, func(n int) string { return strings.Repeat("\n", n-1) }, "queue/a.go"},
	} {
		for _, n := range []int{c.most, c.most + 1} {
			module := parseModule(t, "-- queue/a.go --\npackage queue\n"+c.source(n))
			var got []string
			for _, s := range sizesOf(module) {
				if s.n > s.most {
					got = append(got, fmt.Sprint(s.rule, " ", s.name, " ", s.n))
				}
			}
			want := ""
			if n > c.most {
				want = fmt.Sprint(c.rule, " ", c.name, " ", n)
			}
			if strings.Join(got, ",") != want {
				t.Errorf("%s of %d: found %q, want %q", c.rule, n, got, want)
			}
		}
	}
}

func TestAnAdviceOnSizeNamesTheThingAndTheLimit(t *testing.T) {
	s := size{methodsOfInterface, "queue.I", 11, "queue/a.go", 3}
	want := "queue/a.go:3: interface-methods: queue.I has 11 interface methods, at most 10 are allowed: declare, " +
		"where the interface is used, a smaller one with the methods that are called there"
	if got := s.finding().String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestTheRatchetTurnsOneWay compares numbers that are lower, equal, higher and new with a table.
func TestTheRatchetTurnsOneWay(t *testing.T) {
	a, b, c, d := counted{"phrase", "a"}, counted{"phrase", "b"}, counted{"phrase", "c"}, counted{"methods", "d.T"}
	m := measured{ratchet{a: 2, b: 3, d: 41}, map[counted][]finding{b: {{"b/b.go", 7, "phrase", "write it so"}}}}
	got := m.compareWith(ratchet{a: 2, b: 2, c: 1})
	want := []string{
		"methods of d.T: 0 are allowed, there are 41. A new one is among these:",
		"phrase of b: 2 are allowed, there are 3. A new one is among these:\n\tb/b.go:7: phrase: write it so",
		"phrase of c: 1 are allowed, there are 0: lower the number with " +
			"go test ./internal/lint -run TestRatchet -lower",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
