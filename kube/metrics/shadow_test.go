package metrics

import (
	"slices"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

func TestAShadowCountsItsComparisons(t *testing.T) {
	s := NewShadow()
	for _, x := range []*answer.Choice{
		{Verdict: answer.Same, Rank: 1}, {Verdict: answer.Other, Rank: 7},
		{Verdict: answer.Infeasible, Refusals: []answer.Refusal{{Plugin: "NodeResourcesFit"}}},
		{Verdict: answer.Other, Rank: 1, Gang: &answer.ChoiceGang{Waits: "it is held"}},
	} {
		s.Observe(x, 2*time.Millisecond)
	}
	got := gathered(t, s)
	for _, want := range []string{
		"rollcall_shadow_binds_total{Same} 1", "rollcall_shadow_binds_total{Other} 2",
		"rollcall_shadow_binds_total{Infeasible} 1", "rollcall_shadow_binds_total{Unrated} 0",
		"rollcall_shadow_infeasible_total{NodeResourcesFit} 1", "rollcall_shadow_gang_waits_total{} 1",
		"rollcall_shadow_rank{} 3 times, 9",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no %q in %q", want, got)
		}
	}
}
