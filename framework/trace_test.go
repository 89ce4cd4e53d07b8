package framework

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
)

// narrowing returns a PreFilter plugin that leaves only these nodes.
func narrowing(name string, nodes ...string) prefilter {
	return prefilter{bare{&script{name: name, preFilterResult: onlyNodes(nodes...)}}}
}

// traced places a pod on four nodes, with a trace.
func traced(t *testing.T, plugins ...fwk.Plugin) (Placement, *Trace) {
	t.Helper()
	p := profileOf(t, World{Lister: nodesNamed("n1", "n2", "n3", "n4")}, plugins...)
	trace := &Trace{}
	return p.Place(context.Background(), NewCycleState(), podNamed("p"), 0, trace), trace
}

func TestATraceNamesTheNodesThatEachPreFilterPluginLeftOut(t *testing.T) {
	refuses := filterer{bare{&script{name: "c", filter: map[string]*fwk.Status{"n3": unschedulable("full")}}}}
	out, trace := traced(t, narrowing("a", "n2", "n3", "n4", "gone"), narrowing("b", "n1", "n3", "n4"), refuses)
	if out.Node != "n4" {
		t.Fatalf("the pod is placed on %q: %+v", out.Node, out)
	}
	var rows []string
	for _, n := range slices.Concat(trace.LeftOut, trace.Refused) {
		rows = append(rows, n.Node+" "+n.Plugin+" "+n.Code+" "+strings.Join(n.Reasons, ";"))
	}
	want := []string{
		"n1 a UnschedulableAndUnresolvable node(s) didn't satisfy plugin a",
		"n2 b UnschedulableAndUnresolvable node(s) didn't satisfy plugin b",
		"n3 c Unschedulable full",
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("the nodes that are refused differ (- want, + in the trace):\n%s", diff)
	}
	if len(out.Rejections) != len(rows) {
		t.Errorf("there are %d refused nodes in the trace, and these rejections: %+v", len(rows), out.Rejections)
	}
	if !slices.Equal(trace.Feasible, []string{"n4"}) || !slices.Equal(trace.Filters, []string{"c"}) {
		t.Errorf("feasible are %v, asked were %v", trace.Feasible, trace.Filters)
	}
}

func TestNoNodeIsRefusedWhereThePodIs(t *testing.T) {
	out, trace := traced(t, narrowing("a", "n2", "n3"), narrowing("b", "n1"), filterer{bare{&script{name: "c"}}})
	if !out.Status.IsRejected() || len(trace.Refused)+len(trace.Filters)+len(trace.Feasible) > 0 {
		t.Errorf("the plugins leave no node, and the trace tells of %v refused, %v asked, %v feasible (%v)",
			trace.Refused, trace.Filters, trace.Feasible, out.Status)
	}
	// As in the rejections: the nodes that a excluded count, and the nodes of the plugin that left none do not.
	if len(trace.LeftOut) != 2 || trace.LeftOut[0].Node != "n1" || trace.LeftOut[1].Node != "n4" {
		t.Errorf("left out are %+v", trace.LeftOut)
	}
}

func TestATraceTellsWhereAPluginFailed(t *testing.T) {
	broken := func() *fwk.Status { return fwk.NewStatus(fwk.Error, "broken") }
	for _, tc := range []struct {
		name        string
		plugin      fwk.Plugin
		point, node string
		feasible    int
	}{
		{"Filter", filterer{bare{&script{name: "x", filter: map[string]*fwk.Status{"n1": broken()}}}},
			"Filter", "n1", 0},
		{"Score", scoring{bare{&script{name: "x", scoreStatus: broken()}}}, "Score", "n1", 4},
		{"NormalizeScore", scoring{bare{&script{name: "x",
			normalize: func(fwk.NodeScoreList) *fwk.Status { return broken() }}}}, "NormalizeScore", "", 4},
		{"out of range", scoring{bare{&script{name: "x", score: map[string]int64{"n3": 101}}}},
			"NormalizeScore", "", 4},
	} {
		out, trace := traced(t, tc.plugin)
		f := trace.Failed
		if !out.Status.IsError() || f == nil || f.Point != tc.point || f.Node != tc.node || f.Plugin != "x" ||
			f.Code != "Error" || len(trace.Feasible) != tc.feasible {
			t.Errorf("%s: the trace says %+v, feasible %v (%v)", tc.name, f, trace.Feasible, out.Status)
		}
	}
	_, trace := traced(t, preScorer{bare{&script{name: "x", preScore: broken()}}}, scoring{bare{&script{name: "y"}}})
	if trace.Failed != nil || len(trace.PreScore) != 1 || trace.PreScore[0].Code != "Error" {
		t.Errorf("PreScore fails, and the trace says %+v", trace)
	}
}

func TestATraceNamesThePluginsThatWereSkipped(t *testing.T) {
	skip := fwk.NewStatus(fwk.Skip)
	_, trace := traced(t, newFitter(&script{name: "w", preFilter: skip}), newRater(&script{name: "x", preScore: skip}),
		newFitter(&script{name: "y"}), newRater(&script{name: "z"}))
	if !slices.Equal(trace.SkippedFilters, []string{"w"}) || !slices.Equal(trace.Filters, []string{"y"}) ||
		!slices.Equal(trace.SkippedScores, []string{"x"}) || trace.PreScore[0].Code != "Skip" {
		t.Errorf("skipped are %v and %v, asked %v: %+v", trace.SkippedFilters, trace.SkippedScores, trace.Filters,
			trace.PreScore)
	}
}
