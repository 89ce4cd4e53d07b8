package lint

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var lower = flag.Bool("lower", false, "write the present numbers into ratchet.txt, unless the sum of a rule rises; "+
	"without the file they are written in any case")

// measureAll measures this module, the module e2e and the examples.
func measureAll(t *testing.T) measured {
	t.Helper()
	m, err := measure(absRoot(t), append(examples(t), ".", "test/e2e"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRatchetHolds compares the module with ratchet.txt. A higher number is an error, and so is a lower one: the file
// has to follow. With ROLLCALL_LINT=cluster,docs/HA.md it prints all findings in the packages and pages named.
func TestRatchetHolds(t *testing.T) {
	m := measureAll(t)
	if names := os.Getenv("ROLLCALL_LINT"); names != "" {
		printFindings(m, strings.Split(names, ","))
	}
	allowed, err := readRatchet(ratchetFile)
	fresh := *lower && os.IsNotExist(err)
	if err != nil && !fresh {
		t.Fatal(err)
	}
	if !*lower {
		for _, message := range m.compareWith(allowed) {
			t.Error(message)
		}
		return
	}
	before, now := allowed.totals(), m.totals()
	for _, rule := range slices.Sorted(maps.Keys(now)) {
		t.Logf("%s: %d, now %d", rule, before[rule], now[rule])
		if now[rule] > before[rule] && !fresh {
			t.Errorf("%s: %d findings are allowed in all, and there are %d: not written", rule, before[rule], now[rule])
		}
	}
	if t.Failed() {
		return
	}
	if err := os.WriteFile(ratchetFile, []byte(m.text()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// printFindings prints the findings at places, sorted.
func printFindings(m measured, names []string) {
	var all []finding
	for k, found := range m.findings {
		if slices.Contains(names, k.name) {
			all = append(all, found...)
		}
	}
	for _, f := range sorted(all) {
		fmt.Println(f)
	}
}
