package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

// TestATraceIsTheDecisionInFull decides each cycle of large random worlds once more with a trace, without the memos
// that a cycle without one uses. The decision is the same, and all that it counts is in the trace: see wrongTrace.
func TestATraceIsTheDecisionInFull(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(4) {
		w := newRichWorld(t, 300+seed)
		w.before = func(e eventlog.Entry) {
			recorded, ok := e.Payload.(*eventlog.Decision)
			if !ok {
				return
			}
			trace := &framework.Trace{}
			d, ok := w.m.Decide(trace)
			if diff := cmp.Diff(*recorded, d); !ok || diff != "" {
				t.Fatalf("seed %d, entry %d: with a trace another decision (- without, + with): %t\n%s", seed, e.Seq,
					ok, diff)
			}
			if wrong := wrongTrace(&d, trace); wrong != "" {
				t.Fatalf("seed %d, entry %d: %s\n%+v\n%+v", seed, e.Seq, wrong, d, trace)
			}
			note(seen, &d, trace)
		}
		w.affine, w.spread = []int{0, 1, 0, 20}[seed], seed != 0
		for range 70 {
			w.node()
		}
		w.run(400)
	}
	for _, what := range []string{"Scheduled", "Waiting", "Unschedulable", "scored", "only one", "refused",
		"skipped filters", "skipped scores", "PostFilter", "Permit"} {
		if seen[what] < 5 {
			t.Errorf("%s: seen %d times, too few to tell: %v", what, seen[what], seen)
		}
	}
}

// note counts what there was to check in a trace.
func note(seen map[string]int, d *eventlog.Decision, t *framework.Trace) {
	count := func(what string, yes bool) {
		if yes {
			seen[what]++
		}
	}
	count(d.Outcome.String(), true)
	count("scored", len(t.Scored) > 1)
	count("only one", len(t.Scored) == 1)
	count("refused", len(t.Refused) > 0)
	count("skipped filters", len(t.SkippedFilters) > 0)
	count("skipped scores", len(t.SkippedScores) > 0)
	count("PostFilter", len(t.PostFilter) > 0)
	count("Permit", len(t.Permit) > 0)
}

// wrongTrace compares a decision with the trace of its cycle, and returns a difference, "" for none.
func wrongTrace(d *eventlog.Decision, t *framework.Trace) string {
	if !t.Searched {
		if len(t.PreFilter)+len(t.LeftOut)+len(t.Refused)+len(t.Scored)+len(t.PostFilter)+len(t.Permit) > 0 {
			return "there was no search, and the trace has one"
		}
		return ""
	}
	if d.Outcome == eventlog.Asked {
		return "" // it found what to ask about, and decided on no node
	}
	if int64(len(t.Feasible)) != d.Feasible || int64(len(t.Feasible)+len(t.Refused)) != d.Evaluated {
		return fmt.Sprintf("the trace has %d feasible and %d refused nodes", len(t.Feasible), len(t.Refused))
	}
	if d.Node != "" {
		if len(t.Scored) == 0 || t.Scored[0].Node != d.Node || t.Scored[0].Total != d.Score {
			return fmt.Sprintf("the first of the scored nodes is not %s with %d", d.Node, d.Score)
		}
	}
	if t.Failed == nil {
		for i, n := range t.Scored {
			if wrong := wrongScores(n); wrong != "" {
				return wrong
			}
			if i == 0 {
				continue
			}
			if p := t.Scored[i-1]; p.Total < n.Total || p.Total == n.Total && p.Node >= n.Node {
				return "the scored nodes are not in order"
			}
		}
	}
	return wrongRefusals(d, t)
}

// wrongScores checks the arithmetic of one node's scores.
func wrongScores(n framework.ScoredNode) string {
	var sum int64
	for _, p := range n.Plugins {
		beyond := p.Normalized < 0 || p.Normalized > 100
		if p.Weighted != p.Normalized*p.Weight || beyond && !strings.HasPrefix(p.Plugin, framework.ExtenderName) {
			return fmt.Sprintf("%s scores node %s wrongly: %+v", p.Plugin, n.Node, p)
		}
		sum += p.Weighted
	}
	if sum != n.Total {
		return fmt.Sprintf("the weighted scores of node %s are %d together, and its total is %d", n.Node, sum, n.Total)
	}
	return ""
}

// wrongRefusals counts the refusals of nodes again.
func wrongRefusals(d *eventlog.Decision, t *framework.Trace) string {
	type reason struct{ plugin, code, reason string }
	counted, recorded := map[reason]int64{}, map[reason]int64{}
	for _, n := range slices.Concat(t.LeftOut, t.Refused) {
		reasons := slices.Compact(slices.Clone(n.Reasons)) // which are sorted
		if len(reasons) == 0 {
			reasons = []string{""}
		}
		for _, r := range reasons {
			counted[reason{n.Plugin, n.Code, r}]++
		}
	}
	for _, r := range d.Rejections {
		if r.Nodes > 0 {
			recorded[reason{r.Plugin, r.Code, r.Reason}] = r.Nodes
		}
	}
	if diff := cmp.Diff(recorded, counted, cmp.AllowUnexported(reason{})); diff != "" {
		return "the refusals differ (- recorded, + counted in the trace):\n" + diff
	}
	return ""
}
