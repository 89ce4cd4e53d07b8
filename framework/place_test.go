package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func place(p *Profile, pod *v1.Pod, trace *Trace) Placement {
	return p.Place(WithoutLogger(context.Background()), NewCycleState(), pod, 0, trace)
}

// fitter is a plugin with PreFilter and Filter.
type fitter struct {
	bare
	prefilter
	filterer
}

func (p fitter) Name() string { return p.bare.name }

func newFitter(s *script) fitter { return fitter{bare{s}, prefilter{bare{s}}, filterer{bare{s}}} }

// rater is a plugin with PreScore and Score.
type rater struct {
	bare
	preScorer
	scoring
}

func (p rater) Name() string { return p.bare.name }

func newRater(s *script) rater { return rater{bare{s}, preScorer{bare{s}}, scoring{bare{s}}} }

func onlyNodes(names ...string) *fwk.PreFilterResult {
	return &fwk.PreFilterResult{NodeNames: sets.New(names...)}
}

func show(rejections []eventlog.Rejection) string {
	var rows []string
	for _, r := range rejections {
		rows = append(rows, fmt.Sprintf("%s %s %q %d", r.Plugin, r.Code, r.Reason, r.Nodes))
	}
	return strings.Join(rows, "\n")
}

func TestPreFilterDecidesWhatRunsAndWhoIsToBlame(t *testing.T) {
	tests := []struct {
		name       string
		a, b       script
		node       string
		plugins    string // Placement.Plugins
		calls      string
		rejections string
	}{
		{
			name: "Skip leaves the plugin's Filter out and its result unread",
			a: script{preFilter: fwk.NewStatus(fwk.Skip), preFilterResult: onlyNodes("n2"),
				filter: map[string]*fwk.Status{"n1": unschedulable()}},
			node:  "n1",
			calls: "a.PreFilter b.PreFilter b.Filter n1",
		},
		{
			name:       "UnschedulableAndUnresolvable ends the cycle",
			a:          script{preFilter: unresolvable("never")},
			plugins:    "a",
			calls:      "a.PreFilter",
			rejections: `a UnschedulableAndUnresolvable "never" 0`,
		},
		{
			name:    "Unschedulable lets the others run, and the last one's answer stands",
			a:       script{preFilter: unschedulable("not now")},
			b:       script{preFilter: unschedulable("nor now")},
			plugins: "b",
			calls:   "a.PreFilter b.PreFilter",
			rejections: `a Unschedulable "not now" 0
b Unschedulable "nor now" 0`,
		},
		{
			name:       "an error wins over Unschedulable, has no reason and blames nobody",
			a:          script{preFilter: unschedulable("not now")},
			b:          script{preFilter: fwk.AsStatus(errors.New("boom 0xc000"))},
			calls:      "a.PreFilter b.PreFilter",
			rejections: "a Unschedulable \"not now\" 0\nb Error \"\" 0",
		},
		{
			name:  "results are intersected, nodes that do not exist pass over",
			a:     script{preFilterResult: onlyNodes("n2", "n3", "ghost")},
			b:     script{preFilterResult: onlyNodes("n1", "n3", "ghost")},
			node:  "n3",
			calls: "a.PreFilter b.PreFilter a.Filter n3 b.Filter n3",
			rejections: `a UnschedulableAndUnresolvable "node(s) didn't satisfy plugin a" 1
b UnschedulableAndUnresolvable "node(s) didn't satisfy plugin b" 1`,
		},
		{
			name:    "results with nothing in common end the cycle",
			a:       script{preFilterResult: onlyNodes("n1")},
			b:       script{preFilterResult: onlyNodes("n2")},
			plugins: "a b",
			calls:   "a.PreFilter b.PreFilter",
			rejections: `a UnschedulableAndUnresolvable "node(s) didn't satisfy plugin a" 2
a UnschedulableAndUnresolvable "node(s) didn't satisfy plugin(s) [a b] simultaneously" 0
b UnschedulableAndUnresolvable "node(s) didn't satisfy plugin(s) [a b] simultaneously" 0`,
		},
		{
			name:    "the plugin that narrowed the nodes down is to blame with the one that refused the rest",
			a:       script{preFilterResult: onlyNodes("n1")},
			b:       script{filter: map[string]*fwk.Status{"n1": unschedulable("full", "hot", "full")}},
			plugins: "a b",
			calls:   "a.PreFilter b.PreFilter a.Filter n1 b.Filter n1",
			rejections: "a UnschedulableAndUnresolvable \"node(s) didn't satisfy plugin a\" 2\nb Unschedulable " +
				"\"full\" 1\nb Unschedulable \"hot\" 1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log []string
			tt.a.name, tt.b.name, tt.a.log, tt.b.log = "a", "b", &log, &log
			p := profileOf(t, World{Lister: nodesNamed("n1", "n2", "n3")}, newFitter(&tt.a), newFitter(&tt.b))
			got := place(p, podNamed("p"), nil)
			if got.Node != tt.node {
				t.Errorf("node %q, want %q", got.Node, tt.node)
			}
			if s := strings.Join(got.Plugins, " "); s != tt.plugins {
				t.Errorf("to blame: %q, want %q", s, tt.plugins)
			}
			if s := strings.Join(log, " "); s != tt.calls {
				t.Errorf("calls %q\n want %q", s, tt.calls)
			}
			if s := show(got.Rejections); s != tt.rejections {
				t.Errorf("rejections\n%s\nwant\n%s", s, tt.rejections)
			}
		})
	}
}

func TestFilterStartsWhereToldAndStopsWhenItHasEnough(t *testing.T) {
	names := make([]string, 200)
	refusals := map[string]*fwk.Status{}
	for i := range names {
		names[i] = fmt.Sprintf("n%03d", i)
		if i%4 == 0 {
			refusals[names[i]] = unschedulable("every fourth")
		}
	}
	var log []string
	p := profileOf(t, World{Lister: nodesNamed(names...)},
		newFitter(&script{name: "f", log: &log, filter: refusals}), scoring{bare{&script{name: "s"}}})
	p.percentage = 50 // of 200: 100 feasible nodes

	got := p.Place(WithoutLogger(context.Background()), NewCycleState(), podNamed("p"), 150, nil)
	if log[1] != "f.Filter n150" || log[51] != "f.Filter n000" {
		t.Errorf("it begins at %s and goes on at %s", log[1], log[51])
	}
	if got.Feasible != 100 || got.Evaluated != int64(len(log)-1) || got.Next != (150+int(got.Evaluated))%200 {
		t.Errorf("feasible %d, evaluated %d of %d calls, next %d", got.Feasible, got.Evaluated, len(log)-1, got.Next)
	}
	if got.Node != "n001" {
		t.Errorf("of equal scores %s wins, want the smallest name n001", got.Node)
	}
}

func TestNumberOfNodesToFindFollowsUpstreamsFormula(t *testing.T) {
	for _, tt := range []struct {
		percentage  int32
		nodes, want int
	}{
		{100, 5, 5}, {0, 99, 99}, {10, 99, 99}, {10, 500, 100}, {30, 500, 150}, {100, 6000, 6000},
		{0, 1000, 420}, {0, 5000, 500}, {0, 10000, 500}, {0, 100, 100}, {1, 100, 100},
	} {
		if got := NumFeasibleNodesToFind(tt.percentage, tt.nodes); got != tt.want {
			t.Errorf("%d%% of %d nodes: %d, want %d", tt.percentage, tt.nodes, got, tt.want)
		}
	}
}

func TestBestNodeIsTheOneOfHighestWeightedScoreThenOfSmallestName(t *testing.T) {
	var log []string
	doubled := func(scores fwk.NodeScoreList) *fwk.Status {
		for i := range scores {
			scores[i].Score *= 2
		}
		return nil
	}
	p := profileOf(t, World{Lister: nodesNamed("n1", "n2", "n3", "n4")},
		newRater(&script{name: "a", log: &log, score: map[string]int64{"n1": 10, "n2": 50, "n3": 40, "n4": 50},
			normalize: doubled}),
		newRater(&script{name: "b", log: &log, score: map[string]int64{"n1": 90, "n2": 10, "n3": 20, "n4": 10}}),
		newRater(&script{name: "c", log: &log, preScore: fwk.NewStatus(fwk.Skip), score: map[string]int64{"n1": 100}}),
	)
	p.score[0].weight = 2 // a: 40 200 160 200; b: 90 10 20 10
	trace := &Trace{}
	got := place(p, podNamed("p"), trace)
	if got.Node != "n2" || got.Score != 210 || got.Feasible != 4 {
		t.Errorf("%s with %d of %d feasible, want n2 with 210 of 4", got.Node, got.Score, got.Feasible)
	}
	if strings.Contains(strings.Join(log, " "), "c.Score") {
		t.Error("Score runs though PreScore asked to be left out")
	}
	var order []string
	for _, s := range trace.Scored {
		order = append(order, fmt.Sprint(s.Node, " ", s.Total))
	}
	if want := []string{"n2 210", "n4 210", "n3 180", "n1 130"}; !slices.Equal(order, want) {
		t.Errorf("trace ranks %v, want %v", order, want)
	}
	want := PluginScore{Plugin: "a", Raw: 50, Normalized: 100, Weight: 2, Weighted: 200}
	if winner, ok := trace.Winner(); !ok || winner.Plugins[0] != want {
		t.Errorf("trace rates the winner %+v, want %+v", winner.Plugins, want)
	}
	if next := trace.RunnersUp(2); len(next) != 2 || next[0].Node != "n4" || len(trace.RunnersUp(9)) != 3 {
		t.Errorf("runners-up %v", next)
	}
}

func TestOnlyFeasibleNodeIsNotScored(t *testing.T) {
	var log []string
	p := profileOf(t, World{Lister: nodesNamed("n1", "n2")},
		newFitter(&script{name: "f", filter: map[string]*fwk.Status{"n1": unschedulable("full")}}),
		newRater(&script{name: "s", log: &log, score: map[string]int64{"n2": 50}}))
	trace := &Trace{}
	got := place(p, podNamed("p"), trace)
	if got.Node != "n2" || got.Score != 0 || got.Evaluated != 2 || got.Feasible != 1 || len(log) != 0 {
		t.Errorf("%+v after %v", got, log)
	}
	if s := show(got.Rejections); s != `f Unschedulable "full" 1` {
		t.Errorf("rejections %s", s)
	}
	if w, ok := trace.Winner(); !ok || w.Node != "n2" || len(trace.Refused) != 1 || trace.Refused[0].Node != "n1" {
		t.Errorf("trace %+v", trace)
	}
}

func TestFailureOfAPluginIsAnErrorThatNamesIt(t *testing.T) {
	boom := fwk.AsStatus(errors.New("boom"))
	for _, tt := range []struct {
		name, message string
		plugin        fwk.Plugin
	}{
		{"Filter", `running "x" filter plugin: boom`, newFitter(&script{name: "x",
			filter: map[string]*fwk.Status{"n2": boom}})},
		{"Filter asking to wait", `running "x" filter plugin: `,
			newFitter(&script{name: "x", filter: map[string]*fwk.Status{"n1": fwk.NewStatus(fwk.Wait)}})},
		{"PreScore", `running PreScore plugin "x": boom`, newRater(&script{name: "x", preScore: boom})},
		{"PreScore refusing", `running PreScore plugin "x": no`,
			newRater(&script{name: "x", preScore: unschedulable("no")})},
		{"Score", `running Score plugin "x": boom`, newRater(&script{name: "x", scoreStatus: boom})},
		{"NormalizeScore", `running NormalizeScore plugin "x": boom`,
			newRater(&script{name: "x", normalize: func(fwk.NodeScoreList) *fwk.Status { return boom }})},
		{"score too high", `plugin "x" gives node "n1" the score 101, which after normalizing must lie in [0, 100]`,
			newRater(&script{name: "x", score: map[string]int64{"n1": 101}})},
		{"score too low", `plugin "x" gives node "n2" the score -1`,
			newRater(&script{name: "x", score: map[string]int64{"n2": -1}})},
		{"PreFilter pending", `running PreFilter plugin "x": later`,
			newFitter(&script{name: "x", preFilter: fwk.NewStatus(fwk.Pending, "later")})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := profileOf(t, World{Lister: nodesNamed("n1", "n2")}, tt.plugin, scoring{bare{&script{name: "s"}}})
			got := place(p, podNamed("p"), nil)
			if got.Node != "" || !got.Status.IsError() || !strings.Contains(got.Status.Message(), tt.message) {
				t.Errorf("node %q, status %v %q; want an error with %q", got.Node, got.Status.Code(),
					got.Status.Message(), tt.message)
			}
			if got.Plugins != nil || got.Statuses != nil {
				t.Errorf("an error blames %v", got.Plugins)
			}
			want := eventlog.Rejection{Plugin: "x", Code: "Error"}
			if !slices.Contains(got.Rejections, want) {
				t.Errorf("rejections %v lack %v", got.Rejections, want)
			}
		})
	}
}

func TestPodThatFitsNowhereTellsPostFilterWhy(t *testing.T) {
	lister := nodesNamed("n1", "n2", "n3", "n4")
	p := profileOf(t, World{Lister: lister},
		newFitter(&script{name: "a", preFilterResult: onlyNodes("n1", "n2", "n3"),
			filter: map[string]*fwk.Status{"n2": unresolvable("wrong")}}),
		newFitter(&script{name: "b", filter: map[string]*fwk.Status{"n1": unschedulable("full"),
			"n3": fwk.NewStatus(fwk.Pending, "soon")}}))
	got := place(p, podNamed("p"), nil)
	if got.Status.Code() != fwk.Unschedulable || got.Evaluated != 3 || got.Feasible != 0 {
		t.Errorf("%v, %d evaluated", got.Status.Code(), got.Evaluated)
	}
	if !slices.Equal(got.Plugins, []string{"a", "b"}) || !slices.Equal(got.PendingPlugins, []string{"b"}) {
		t.Errorf("to blame: %v, pending %v", got.Plugins, got.PendingPlugins)
	}
	for node, want := range map[string]fwk.Code{
		"n1": fwk.Unschedulable, "n2": fwk.UnschedulableAndUnresolvable, "n3": fwk.Pending,
		"n4": fwk.UnschedulableAndUnresolvable,
	} {
		if code := got.Statuses.Get(node).Code(); code != want {
			t.Errorf("%s: %v, want %v", node, code, want)
		}
	}
	for code, want := range map[fwk.Code]string{fwk.Unschedulable: "n1", fwk.UnschedulableAndUnresolvable: "n2 n4",
		fwk.Pending: "n3"} {
		nodes, err := got.Statuses.NodesForStatusCode(lister, code)
		var names []string
		for _, n := range nodes {
			names = append(names, n.Node().Name)
		}
		if s := strings.Join(names, " "); err != nil || s != want {
			t.Errorf("%v: %q, %v; want %q", code, s, err, want)
		}
	}
}

func TestNominatedNodeIsTriedFirstAndCountedOnce(t *testing.T) {
	pod := podNamed("p")
	pod.Status.NominatedNodeName = "n2"
	var log []string
	f := script{name: "f", log: &log}
	p := profileOf(t, World{Lister: nodesNamed("n1", "n2", "n3")}, newFitter(&f), scoring{bare{&script{name: "s"}}})

	got := place(p, pod, nil)
	if got.Node != "n2" || got.Evaluated != 1 || strings.Join(log, " ") != "f.PreFilter f.Filter n2" {
		t.Errorf("%s after %v", got.Node, log)
	}
	f.filter = map[string]*fwk.Status{"n2": unschedulable("full")}
	got = place(p, pod, nil)
	if got.Node != "n1" || got.Evaluated != 3 || show(got.Rejections) != `f Unschedulable "full" 1` {
		t.Errorf("%s of %d: %s", got.Node, got.Evaluated, show(got.Rejections))
	}
	f.preFilterResult = onlyNodes("n3") // leaves the nominated node out
	f.filter["n3"] = unschedulable("full")
	if got = place(p, pod, nil); got.Evaluated != 2 || got.Statuses.Len() != 2 {
		t.Errorf("%d evaluated, %d statuses", got.Evaluated, got.Statuses.Len())
	}
	f.preFilterResult, pod.Status.NominatedNodeName = nil, "gone"
	if got = place(p, pod, nil); got.Node != "n1" {
		t.Errorf("nominated to a node that is gone: %q", got.Node)
	}
}

func TestPodsNominatedToANodeCountAsThere(t *testing.T) {
	other := podNamed("other")
	info, err := upstream.NewPodInfo(other)
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	p := profileOf(t, World{Lister: nodesNamed("n1"), Nominator: nominator{"n1": {info}}},
		newFitter(&script{name: "f", log: &log}))
	if got := place(p, podNamed("p"), nil); got.Node != "n1" {
		t.Errorf("node %q", got.Node)
	}
	if s := strings.Join(log, " "); s != "f.PreFilter f.AddPod other f.Filter n1 f.Filter n1" {
		t.Errorf("calls %s", s)
	}
	log = nil
	more := podNamed("p")
	more.Spec.Priority = new(int32)
	*more.Spec.Priority = 1
	place(p, more, nil)
	if s := strings.Join(log, " "); s != "f.PreFilter f.Filter n1" {
		t.Errorf("a pod of higher priority yields: %s", s)
	}
}

func TestNoNodesIsARefusalByNobody(t *testing.T) {
	p := profileOf(t, World{Lister: nodesNamed()}, newFitter(&script{name: "f"}))
	got := place(p, podNamed("p"), nil)
	if got.Status.Code() != fwk.UnschedulableAndUnresolvable || got.Plugins != nil {
		t.Errorf("%v by %v", got.Status, got.Plugins)
	}
	if s := show(got.Rejections); s != ` UnschedulableAndUnresolvable "no nodes available to schedule pods" 0` {
		t.Errorf("rejections %s", s)
	}
}

func TestPlaceWorksOnAnyCycleState(t *testing.T) {
	plugins := []fwk.Plugin{
		newFitter(&script{name: "f", preFilter: fwk.NewStatus(fwk.Skip),
			filter: map[string]*fwk.Status{"n1": unschedulable()}}),
		newRater(&script{name: "a", preScore: fwk.NewStatus(fwk.Skip), score: map[string]int64{"n1": 90}}),
		newRater(&script{name: "b", score: map[string]int64{"n2": 1}}),
	}
	p := profileOf(t, World{Lister: nodesNamed("n1", "n2")}, plugins...)
	for _, state := range []fwk.CycleState{NewCycleState(), upstream.NewCycleState()} {
		got := p.Place(WithoutLogger(context.Background()), state, podNamed("p"), 0, nil)
		if got.Node != "n2" {
			t.Errorf("%T: node %q", state, got.Node)
		}
		if !state.GetSkipFilterPlugins().Equal(sets.New("f")) || !state.GetSkipScorePlugins().Equal(sets.New("a")) {
			t.Errorf("%T: skipped %v and %v", state, state.GetSkipFilterPlugins(), state.GetSkipScorePlugins())
		}
	}
}

func TestHandleRunsPluginsAsPlaceDoes(t *testing.T) {
	nodes := nodesNamed("n1", "n2")
	p := profileOf(t, World{Lister: nodes},
		newFitter(&script{name: "f", preFilter: fwk.NewStatus(fwk.Skip),
			filter: map[string]*fwk.Status{"n1": unschedulable("skipped")}}),
		newFitter(&script{name: "g", filter: map[string]*fwk.Status{"n2": unschedulable("full")}}),
		newRater(&script{name: "s", score: map[string]int64{"n1": 3, "n2": 4}}),
		newRater(&script{name: "skips", preScore: fwk.NewStatus(fwk.Skip)}))
	p.score[0].weight = 5
	ctx, state, pod := WithoutLogger(context.Background()), NewCycleState(), podNamed("p")
	p.Place(ctx, state, pod, 0, nil)
	h := p.Handle()
	if s := h.RunFilterPlugins(ctx, state, pod, nodes.nodes[0]); s != nil {
		t.Errorf("n1: %v", s)
	}
	if s := h.RunFilterPluginsWithNominatedPods(ctx, state, pod, nodes.nodes[1]); s.Plugin() != "g" {
		t.Errorf("n2: %v", s)
	}
	if s := h.RunPreScorePlugins(ctx, state, pod, nodes.nodes); s != nil {
		t.Error(s)
	}
	scores, status := h.RunScorePlugins(ctx, state, pod, nodes.nodes)
	if status != nil || len(scores) != 2 || scores[1].TotalScore != 20 || len(scores[1].Scores) != 1 ||
		scores[1].RawScores[0].Score != 4 {
		t.Errorf("%+v, %v", scores, status)
	}
}

// nominator has pods by the node to which they are nominated.
type nominator map[string][]fwk.PodInfo

func (n nominator) NominatedPodsForNode(node string) []fwk.PodInfo                { return n[node] }
func (n nominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n nominator) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (n nominator) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
