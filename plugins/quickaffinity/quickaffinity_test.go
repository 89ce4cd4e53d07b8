package quickaffinity_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"

	"github.com/rollcall-sched/rollcall/framework"
)

const (
	sequences = 120
	steps     = 30 // 3,600 pods
)

// tallied is what a run of the comparison has seen, by name: without some of everything it would show nothing.
type tallied map[string]int

// What the plugin says of a pod, of every node for it, of every node when pods are thought away or added, and every
// score, is what upstream's says, through the life of one plugin in a world that changes.
func TestItAnswersAsUpstreamDoes(t *testing.T) {
	seen := compareLives(t, sequences)
	for what, least := range map[string]int{
		"pods": sequences * steps, "errors": 100, "skips": 100, "trials": sequences * steps,
		"passes": 10000, interpodaffinity.ErrReasonAffinityRulesNotMatch: 10000,
		interpodaffinity.ErrReasonAntiAffinityRulesNotMatch:         1000,
		interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch: 1000,
		"scored pods": 1000, "score skips": 100, "scores above 0": 1000, "scores below 0": 1000, "normalized": 10000,
		"surveyed filters": 1000, "surveyed scores": 1000, "starts alone": 50,
	} {
		if seen[what] < least {
			t.Errorf("%q was seen %d times, not %d", what, seen[what], least)
		}
	}
}

// So it is under feature gates that are not as they are by default.
func TestItHeedsFeatureGatesAsUpstreamDoes(t *testing.T) {
	for gate, value := range map[featuregate.Feature]bool{
		features.InterPodAffinityHostnameFastPath:             true,
		features.InPlacePodVerticalScalingSchedulerPreemption: true,
	} {
		t.Run(string(gate), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, gate, value)
			compareLives(t, sequences/6)
		})
	}
}

func compareLives(t *testing.T, lives int) tallied {
	seen := tallied{}
	for seed := range uint64(lives) {
		w := newWorld(t, seed, 3+int(seed%40))
		b := newBoth(t, w, config.InterPodAffinityArgs{HardPodAffinityWeight: pick(w, int32(1), 0, 37),
			IgnorePreferredTermsOfExistingPods: w.chance(30)})
		var questions []*v1.Pod
		for range 6 {
			questions = append(questions, w.question())
		}
		for step := range steps {
			for range w.IntN(4) {
				w.change()
			}
			pod := questions[w.IntN(len(questions))]
			if w.chance(40) { // the same but for its labels, or its namespace
				pod = pod.DeepCopy()
				pod.Labels = w.podLabels()
				pod.Namespace = pick(w, "a", "b", pod.Namespace)
			}
			w.compare(fmt.Sprintf("sequence %d, step %d", seed, step), b, pod, questions, seen)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%8d %s", seen[what], what)
	}
	return seen
}

// asked is one pod's cycle in both plugins.
type asked struct {
	both
	pod          *v1.Pod
	ours, theirs fwk.CycleState
}

func say(status *fwk.Status) string {
	if status == nil {
		return "passes"
	}
	return fmt.Sprintf("%s %q", status.Code(), slices.Sorted(slices.Values(status.Reasons())))
}

// filter compares what is said of a node.
func (a asked) filter(tb testing.TB, where string, node fwk.NodeInfo, seen tallied) (fits bool) {
	tb.Helper()
	ours := a.both.ours.Filter(quiet(), a.ours, a.pod, node)
	theirs := a.both.theirs.Filter(quiet(), a.theirs, a.pod, node)
	if say(ours) != say(theirs) {
		tb.Fatalf("%s: node %s: %s, and upstream %s\npod %+v\naffinity %v\nlabels %v", where, node.Node().Name,
			say(ours), say(theirs), a.pod.Labels, a.pod.Spec.Affinity, node.Node().Labels)
	}
	if ours.IsSuccess() {
		seen["passes"]++
	} else {
		seen[ours.Message()]++
	}
	return ours.IsSuccess()
}

// ask runs PreFilter in both plugins; ok is false if the pod's cycle ends with it, or Filter is skipped.
func (w *world) ask(where string, b both, pod *v1.Pod, seen tallied) (a asked, ok, skips bool) {
	w.tb.Helper()
	a = asked{b, pod, framework.NewCycleState(), framework.NewCycleState()}
	ourResult, ours := b.ours.PreFilter(quiet(), a.ours, pod, w.shown)
	theirResult, theirs := b.theirs.PreFilter(quiet(), a.theirs, pod, w.shown)
	if say(ours) != say(theirs) || (ourResult == nil) != (theirResult == nil) {
		w.tb.Fatalf("%s: PreFilter: %s, and upstream %s", where, say(ours), say(theirs))
	}
	seen["pods"]++
	if ours.IsSkip() {
		seen["skips"]++
	} else if !ours.IsSuccess() {
		seen["errors"]++
	}
	return a, ours.IsSuccess(), ours.IsSkip()
}

func (w *world) compare(where string, b both, pod *v1.Pod, questions []*v1.Pod, seen tallied) {
	w.tb.Helper()
	w.list, w.shown = nil, w.listed()
	a, ok, skips := w.ask(where, b, pod, seen)
	if !ok && !skips {
		return
	}
	feasible := w.shown
	if ok {
		w.surveyFilter(where, a, seen)
		if w.chance(30) {
			w.between(where, b, pod, questions, seen)
		}
		feasible = nil
		for _, node := range w.shown {
			if a.filter(w.tb, where, node, seen) {
				feasible = append(feasible, node)
			}
		}
	}
	w.score(where, a, feasible, seen)
	if !ok || len(w.shown) == 0 {
		return
	}
	for range 3 {
		node := w.shown[w.IntN(len(w.shown))].Snapshot()
		if w.chance(10) { // it has come to another zone since
			moved := w.node(node.Node().Name)
			if moved.Labels != nil {
				moved.Labels[v1.LabelTopologyZone] = "z-new"
			}
			node.SetNode(moved)
		}
		w.try(where, a, node, seen)
	}
	if w.chance(30) {
		w.between(where, b, pod, questions, seen)
	}
	for _, node := range w.shown {
		a.filter(w.tb, where+", after trials", node, seen)
	}
}

// between is a rehearsal: other pods' PreFilter in a world that is a little different, while this pod's cycle goes on.
func (w *world) between(where string, b both, pod *v1.Pod, questions []*v1.Pod, seen tallied) {
	w.tb.Helper()
	shown := w.shown
	for range 2 {
		w.shown = w.rehearsed()
		w.list = w.shown
		w.ask(where+", in between", b, questions[w.IntN(len(questions))], seen)
	}
	w.ask(where+", in between", b, pod, seen)
	w.list, w.shown = nil, shown
}

// listed is the list that PreFilter gets: all nodes, or, at times, copies of them.
func (w *world) listed() []fwk.NodeInfo {
	nodes := slices.Clone(w.nodes)
	if w.chance(10) {
		for i := range nodes {
			nodes[i] = nodes[i].Snapshot()
		}
	}
	return nodes
}

// rehearsed is the list with some nodes changed, in copies of them, or gone.
func (w *world) rehearsed() []fwk.NodeInfo {
	nodes := w.listed()
	if w.chance(10) {
		return slices.DeleteFunc(nodes, func(fwk.NodeInfo) bool { return w.chance(30) })
	}
	for i := range nodes {
		if w.chance(10) {
			nodes[i] = nodes[i].Snapshot()
			nodes[i].AddPodInfo(w.info(w.pod()))
			if w.chance(30) {
				other := w.node(nodes[i].Node().Name)
				if other.Labels != nil {
					other.Labels[v1.LabelTopologyZone] = "z-rehearsed"
				}
				nodes[i].SetNode(other)
			}
		}
	}
	return nodes
}

// surveyFilter compares what is said of all nodes at once.
func (w *world) surveyFilter(where string, a asked, seen tallied) {
	w.tb.Helper()
	pass := make([]bool, len(w.shown))
	if !a.both.ours.SurveyFilter(a.ours, w.shown, pass) {
		return
	}
	seen["surveyed filters"]++
	some := false
	for i, node := range w.shown {
		theirs := a.both.theirs.Filter(quiet(), a.theirs, a.pod, node)
		if pass[i] != theirs.IsSuccess() {
			w.tb.Fatalf("%s: node %s passes a survey: %t, and upstream %s", where, node.Node().Name, pass[i],
				say(theirs))
		}
		some = some || pass[i]
	}
	first := func(n fwk.NodeInfo) bool {
		return slices.ContainsFunc(n.GetPods(), func(p fwk.PodInfo) bool { return p.GetPod().Labels["app"] == "first" })
	}
	if some && a.pod.Labels["app"] == "first" && !slices.ContainsFunc(w.shown, first) {
		seen["starts alone"]++
	}
}

// score compares PreScore, every score, and what is made of them, node by node and in a survey.
func (w *world) score(where string, a asked, feasible []fwk.NodeInfo, seen tallied) {
	w.tb.Helper()
	ours := a.both.ours.PreScore(quiet(), a.ours, a.pod, feasible)
	theirs := a.both.theirs.PreScore(quiet(), a.theirs, a.pod, feasible)
	if say(ours) != say(theirs) {
		w.tb.Fatalf("%s: PreScore: %s, and upstream %s", where, say(ours), say(theirs))
	}
	if ours.IsSkip() {
		seen["score skips"]++
	}
	if !ours.IsSuccess() || len(feasible) == 0 {
		return
	}
	seen["scored pods"]++
	all := make([]int64, len(w.shown))
	surveyed := a.both.ours.SurveyScore(a.ours, w.shown, all)
	var column []int64
	var at []int
	ourList, theirList := fwk.NodeScoreList{}, fwk.NodeScoreList{}
	for _, node := range feasible {
		mine, status := a.both.ours.Score(quiet(), a.ours, a.pod, node)
		same(w.tb, where, status, nil)
		raw, status := a.both.theirs.Score(quiet(), a.theirs, a.pod, node)
		same(w.tb, where, status, nil)
		place := slices.Index(w.shown, node)
		if mine != raw || surveyed && all[place] != raw {
			w.tb.Fatalf("%s: node %s has the score %d, and upstream %d; surveyed %t", where, node.Node().Name, mine,
				raw, surveyed)
		}
		seen["scores above 0"] += map[bool]int{true: 1}[raw > 0]
		seen["scores below 0"] += map[bool]int{true: 1}[raw < 0]
		ourList = append(ourList, fwk.NodeScore{Name: node.Node().Name, Score: mine})
		theirList = append(theirList, fwk.NodeScore{Name: node.Node().Name, Score: raw})
		column, at = append(column, raw), append(at, place)
	}
	same(w.tb, where, a.both.ours.NormalizeScore(quiet(), a.ours, a.pod, ourList),
		a.both.theirs.NormalizeScore(quiet(), a.theirs, a.pod, theirList))
	if surveyed {
		seen["surveyed scores"]++
		if !a.both.ours.NormalizeColumn(a.ours, at, column) {
			w.tb.Fatalf("%s: the column is not normalized", where)
		}
	}
	for i := range theirList {
		seen["normalized"]++
		if ourList[i] != theirList[i] || surveyed && column[i] != theirList[i].Score {
			w.tb.Fatalf("%s: normalized %v, and upstream %v; surveyed %t", where, ourList[i], theirList[i], surveyed)
		}
	}
}

// try does to a copy of a node what preemption does.
func (w *world) try(where string, a asked, node fwk.NodeInfo, seen tallied) {
	w.tb.Helper()
	seen["trials"]++
	a.ours, a.theirs = a.ours.Clone(), a.theirs.Clone()
	var gone []fwk.PodInfo
	for range 1 + w.IntN(5) {
		switch pods := node.GetPods(); {
		case len(pods) > 0 && w.chance(60):
			pod := pods[w.IntN(len(pods))]
			if err := node.RemovePod(klog.FromContext(quiet()), pod.GetPod()); err != nil {
				w.tb.Fatal(err)
			}
			gone = append(gone, pod)
			same(w.tb, where, a.both.ours.RemovePod(quiet(), a.ours, a.pod, pod, node),
				a.both.theirs.RemovePod(quiet(), a.theirs, a.pod, pod, node))
		default:
			pod := w.info(w.nominated())
			if len(gone) > 0 && w.chance(70) {
				pod, gone = gone[0], gone[1:]
			}
			node.AddPodInfo(pod)
			same(w.tb, where, a.both.ours.AddPod(quiet(), a.ours, a.pod, pod, node),
				a.both.theirs.AddPod(quiet(), a.theirs, a.pod, pod, node))
		}
		a.filter(w.tb, where+", in a trial", node, seen)
	}
	for _, other := range w.shown {
		a.filter(w.tb, where+", elsewhere in a trial", other, seen)
	}
	if w.chance(20) {
		w.try(where, a, node.Snapshot(), seen) // with a copy of the copy
		a.filter(w.tb, where+", after a trial in a trial", node, seen)
	}
}

func same(tb testing.TB, where string, ours, theirs *fwk.Status) {
	tb.Helper()
	if say(ours) != say(theirs) {
		tb.Fatalf("%s: %s, and upstream %s", where, say(ours), say(theirs))
	}
}

// Pods that share a memo are told apart by the terms of a pod that is thought of as added, whoever was asked about
// first and whether or not the added pod was ever asked about itself.
func TestAddedPodsRepelByLabelsThatNobodyElseAsksFor(t *testing.T) {
	for _, asked := range []bool{false, true} {
		w := newWorld(t, 0, 0)
		w.nodes = []fwk.NodeInfo{zonedNode("n1", 0), zonedNode("n2", 0)}
		b := newBoth(t, w, config.InterPodAffinityArgs{HardPodAffinityWeight: 1})
		nominated := apartPod("nominated", nil, "tier", "red")
		w.place(1, apartPod("other", nil, "app", "else"))
		if asked {
			w.prepare(b, nominated)
		}
		refused := 0
		for _, tier := range []string{"blue", "red", "blue"} {
			w.shown = w.nodes
			seen := tallied{}
			pod := apartPod("p-"+tier, map[string]string{"app": "web", "tier": tier}, "app", "db")
			a, ok, _ := w.ask(tier, b, pod, seen)
			if !ok {
				t.Fatal("PreFilter does not pass")
			}
			a.ours, a.theirs = a.ours.Clone(), a.theirs.Clone()
			node, info := w.nodes[0].Snapshot(), w.info(nominated)
			node.AddPodInfo(info)
			same(t, tier, b.ours.AddPod(quiet(), a.ours, a.pod, info, node),
				b.theirs.AddPod(quiet(), a.theirs, a.pod, info, node))
			if !a.filter(t, fmt.Sprintf("%s, asked %t", tier, asked), node, seen) {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("asked %t: %d pods are refused, not the red one alone", asked, refused)
		}
	}
}

// A pod's cycle may go on after its counts are dropped, and the topologies with them.
func TestACycleOutlivesItsCounts(t *testing.T) {
	w := zonedWorld(t, 20)
	b := newBoth(t, w, config.InterPodAffinityArgs{})
	for _, node := range w.nodes[:10] {
		node.Node().Labels["rack"] = "r"
	}
	w.place(3, apartPod("there", map[string]string{"app": "web"}, "app", "else"))
	w.shown = w.nodes
	pod := apartPod("p", nil, "app", "web")
	pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = "rack"
	seen := tallied{}
	a, ok, _ := w.ask("before", b, pod, seen)
	if !ok {
		t.Fatal("PreFilter does not pass")
	}
	w.prepare(b, apartPod("q", nil, "tier", "new"))
	if b.ours.Kept(pod) {
		t.Fatal("the counts are still there")
	}
	w.surveyFilter("after", a, seen)
	for _, node := range w.nodes {
		a.filter(t, "after", node, seen)
	}
	if seen["passes"] != 10 || seen["surveyed filters"] != 0 {
		t.Errorf("not 10 nodes pass, or all are surveyed: %v", seen)
	}
}

// A column without scores, as of a pod that no node is left for, is normalized to nothing.
func TestAnEmptyColumnIsNormalized(t *testing.T) {
	w := zonedWorld(t, 2)
	b := newBoth(t, w, config.InterPodAffinityArgs{})
	w.place(0, appPod("1", "web"))
	w.shown = w.nodes
	state, pod := framework.NewCycleState(), appPod("p", "web")
	if status := b.ours.PreScore(quiet(), state, pod, w.nodes); !status.IsSuccess() {
		t.Fatal(status)
	}
	if !b.ours.NormalizeColumn(state, nil, nil) {
		t.Error("it is not")
	}
}

// Without PreFilter and PreScore the plugin has nothing to go by, and says so in upstream's words.
func TestWithoutPreFilterItFailsAsUpstreamDoes(t *testing.T) {
	w := newWorld(t, 1, 1)
	b := newBoth(t, w, config.InterPodAffinityArgs{HardPodAffinityWeight: 1})
	pod, info, state := w.question(), w.info(w.pod()), framework.NewCycleState()
	ctx, node := quiet(), w.nodes[0]
	same(t, "Filter", b.ours.Filter(ctx, state, pod, node), b.theirs.Filter(ctx, state, pod, node))
	same(t, "AddPod", b.ours.AddPod(ctx, state, pod, info, node), b.theirs.AddPod(ctx, state, pod, info, node))
	same(t, "RemovePod", b.ours.RemovePod(ctx, state, pod, info, node),
		b.theirs.RemovePod(ctx, state, pod, info, node))
	_, ours := b.ours.Score(ctx, state, pod, node)
	_, theirs := b.theirs.Score(ctx, state, pod, node)
	same(t, "Score", ours, theirs)
	same(t, "NormalizeScore", b.ours.NormalizeScore(ctx, state, pod, nil),
		b.theirs.NormalizeScore(ctx, state, pod, nil))
	if ours.Code() != fwk.Error {
		t.Error("Score without PreScore did not fail")
	}
}
