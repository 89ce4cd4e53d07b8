package order

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTheLeastRegularOvertakingsAreKept adds overtakings in the log's order and compares the kept ones with all of
// them, sorted.
func TestTheLeastRegularOvertakingsAreKept(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := &Report{Rules: map[Rule]uint64{}}
		var all []Overtaking
		keep := random.IntN(8)
		for placed := range uint64(random.IntN(30)) {
			o := Overtaking{Rule: ranks[random.IntN(len(ranks))], Verdict: Allowed, Placed: placed}
			if o.Rule.isViolation() {
				o.Verdict = Violation
			}
			o.Overtaken.Priority = int32(random.IntN(3))
			r.add(o, uint64(keep))
			all = append(all, o)
		}
		slices.SortStableFunc(all, func(a, b Overtaking) int { return compareRegularity(&a, &b) })
		first := slices.IndexFunc(all, func(o Overtaking) bool { return o.Verdict == Allowed })
		if first < 0 {
			first = len(all)
		}
		want := all[:min(len(all), first+keep)]
		if fmt.Sprint(r.Overtakings) != fmt.Sprint(want) || r.Omitted != uint64(len(all)-len(want)) {
			t.Fatalf("seed %d: kept are %v and %d are omitted, want %v", seed, r.Overtakings, r.Omitted, want)
		}
	}
}

// TestEachRuleHasItsRank finds every rule once among the ranks, violations first.
func TestEachRuleHasItsRank(t *testing.T) {
	rules := []Rule{Gated, Backoff, Refused, NoRoom, Reserved, Lane, Asking, Beyond, Nominated, Turn, Strict, Blocked,
		Attempt}
	for _, rule := range rules {
		at := slices.Index(ranks, rule)
		if at < 0 || rule.isViolation() != (at < 4) {
			t.Errorf("the rule %s has the rank %d", rule, at)
		}
	}
	if len(ranks) != len(rules) {
		t.Errorf("there are %d ranks for %d rules", len(ranks), len(rules))
	}
}
