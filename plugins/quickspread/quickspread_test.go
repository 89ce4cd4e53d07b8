package quickspread_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/rollcall-sched/rollcall/framework"
)

const (
	sequences = 150
	steps     = 40 // 6,000 pods
)

// tallied is what a run of the comparison has seen: without some of everything it would show nothing.
type tallied struct {
	pods, errors, skips, passed, skewed, unlabeled, trials int
	surveys, scored, scores, unscored                      int
}

// What the plugin says of a pod, of every node for it, and of every node when pods of one node are thought away or
// added, is what upstream's says, through the life of one plugin in a world that changes.
func TestItAnswersAsUpstreamDoes(t *testing.T) {
	seen := compareLives(t, sequences)
	for what, n := range map[string]int{"errors": seen.errors * 20, "skips": seen.skips * 20, "pods": seen.pods,
		"passed": seen.passed, "skewed": seen.skewed, "unlabeled": seen.unlabeled, "trials": seen.trials,
		"surveys": seen.surveys * 3, "scored": seen.scored * 4, "scores": seen.scores, "unscored": seen.unscored} {
		if n < sequences*steps {
			t.Errorf("too few %s: %+v", what, seen)
		}
	}
}

// So it is under feature gates that are not as they are by default.
func TestItHeedsFeatureGatesAsUpstreamDoes(t *testing.T) {
	for gate, value := range map[featuregate.Feature]bool{
		features.MatchLabelKeysInPodTopologySpread:            false,
		features.TaintTolerationComparisonOperators:           true,
		features.InPlacePodVerticalScalingSchedulerPreemption: true,
	} {
		t.Run(string(gate), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, gate, value)
			compareLives(t, sequences/3)
		})
	}
}

func compareLives(t *testing.T, lives int) (seen tallied) {
	hard := v1.TopologySpreadConstraint{
		MaxSkew:           1,
		TopologyKey:       v1.LabelTopologyZone,
		WhenUnsatisfiable: v1.DoNotSchedule,
	}
	soft := v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway}
	for seed := range uint64(lives) {
		b := newBoth(t)
		switch seed % 6 {
		case 0, 3:
			b = newBoth(t, hard, soft)
		case 1:
			b = newBothWith(t, config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting})
		}
		w := newWorld(t, seed, 3+int(seed%40))
		var questions []*v1.Pod
		for range 4 {
			pod := w.question()
			questions = append(questions, pod, w.almost(pod))
		}
		for step := range steps {
			for range w.IntN(4) {
				w.change()
			}
			pod := questions[w.IntN(len(questions))]
			if w.chance(30) { // the same but for its labels
				pod = pod.DeepCopy()
				pod.Labels = w.podLabels()
			}
			w.compare(fmt.Sprintf("sequence %d, step %d", seed, step), b, pod, questions, &seen)
		}
	}
	t.Logf("%+v", seen)
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
func (a asked) filter(tb testing.TB, where string, node fwk.NodeInfo, seen *tallied) {
	tb.Helper()
	ours := a.both.ours.Filter(quiet(), a.ours, a.pod, node)
	theirs := a.both.theirs.Filter(quiet(), a.theirs, a.pod, node)
	if say(ours) != say(theirs) {
		tb.Fatalf(
			"%s: node %s: %s, and upstream %s\npod %+v\nconstraints %+v\nlabels %v",
			where,
			node.Node().Name,
			say(ours),
			say(theirs),
			a.pod.Labels,
			a.pod.Spec.TopologySpreadConstraints,
			node.Node().Labels,
		)
	}
	switch ours.Code() {
	case fwk.Success:
		seen.passed++
	case fwk.Unschedulable:
		seen.skewed++
	default:
		seen.unlabeled++
	}
}

// ask runs PreFilter in both plugins; ok is false if the pod's cycle ends with it.
func (w *world) ask(where string, b both, pod *v1.Pod, nodes []fwk.NodeInfo, seen *tallied) (a asked, ok bool) {
	w.tb.Helper()
	a = asked{b, pod, framework.NewCycleState(), framework.NewCycleState()}
	ourResult, ours := b.ours.PreFilter(quiet(), a.ours, pod, nodes)
	theirResult, theirs := b.theirs.PreFilter(quiet(), a.theirs, pod, nodes)
	if say(ours) != say(theirs) || (ourResult == nil) != (theirResult == nil) {
		w.tb.Fatalf("%s: PreFilter: %s, and upstream %s", where, say(ours), say(theirs))
	}
	seen.pods++
	if ours.IsSkip() {
		seen.skips++
	} else if !ours.IsSuccess() {
		seen.errors++
	}
	return a, ours.IsSuccess()
}

func (w *world) compare(where string, b both, pod *v1.Pod, questions []*v1.Pod, seen *tallied) {
	w.tb.Helper()
	nodes := w.listed()
	b.list.nodes = nodes
	a, ok := w.ask(where, b, pod, nodes, seen)
	var feasible []fwk.NodeInfo
	pass := make([]bool, len(nodes))
	surveyed := ok && b.ours.SurveyFilter(a.ours, nodes, pass)
	for i, node := range nodes {
		theirs := ok && !b.theirs.Filter(quiet(), a.theirs, pod, node).IsSuccess()
		// A survey may leave open whether a node fits that does not count.
		if surveyed && pass[i] && theirs {
			w.tb.Fatalf("%s: node %s passes a survey", where, node.Node().Name)
		}
		if !theirs && w.chance(95) {
			feasible = append(feasible, node)
		}
	}
	seen.surveys += map[bool]int{true: 1}[surveyed]
	w.score(where, a, feasible, seen)
	if !ok {
		return
	}
	if w.chance(
		30,
	) { // a rehearsal: other pods' PreFilter in a world that is a little different, while this pod's cycle goes on
		for range 2 {
			w.ask(where+", in between", b, questions[w.IntN(len(questions))], w.rehearsed(), seen)
		}
		w.ask(where+", in between", b, pod, w.rehearsed(), seen)
	}
	for _, node := range w.nodes {
		a.filter(w.tb, where, node, seen)
	}
	if len(w.nodes) == 0 {
		return
	}
	for range 3 {
		node := w.nodes[w.IntN(len(w.nodes))].Snapshot()
		if w.chance(10) { // it has come to another zone since
			moved := w.node(node.Node().Name)
			moved.Labels[v1.LabelTopologyZone] = "z-new"
			node.SetNode(moved)
		}
		w.try(where, a, node, seen)
	}
	for _, node := range w.nodes {
		a.filter(w.tb, where+", after trials", node, seen)
	}
}

// score compares PreScore, every score, and what is made of them, node by node and in a survey.
func (w *world) score(where string, a asked, feasible []fwk.NodeInfo, seen *tallied) {
	w.tb.Helper()
	nodes := a.list.nodes
	ours := a.both.ours.PreScore(quiet(), a.ours, a.pod, feasible)
	same(w.tb, where+": PreScore", ours, a.both.theirs.PreScore(quiet(), a.theirs, a.pod, feasible))
	if !ours.IsSuccess() || len(feasible) == 0 {
		return
	}
	seen.scored++
	all := make([]int64, len(nodes))
	surveyed := a.both.ours.SurveyScore(a.ours, nodes, all)
	var column []int64
	var at []int
	ourList, theirList := fwk.NodeScoreList{}, fwk.NodeScoreList{}
	for _, node := range feasible {
		mine, status := a.both.ours.Score(quiet(), a.ours, a.pod, node)
		same(w.tb, where, status, nil)
		raw, status := a.both.theirs.Score(quiet(), a.theirs, a.pod, node)
		same(w.tb, where, status, nil)
		place := slices.Index(nodes, node)
		if mine != raw || surveyed && all[place] != raw {
			w.tb.Fatalf("%s: node %s has the score %d, surveyed (%t) %d, and upstream %d", where, node.Node().Name,
				mine, surveyed, all[place], raw)
		}
		ourList = append(ourList, fwk.NodeScore{Name: node.Node().Name, Score: mine})
		theirList = append(theirList, fwk.NodeScore{Name: node.Node().Name, Score: raw})
		column, at = append(column, raw), append(at, place)
	}
	same(w.tb, where, a.both.ours.NormalizeScore(quiet(), a.ours, a.pod, ourList),
		a.both.theirs.NormalizeScore(quiet(), a.theirs, a.pod, theirList))
	if surveyed && !a.both.ours.NormalizeColumn(a.ours, at, column) {
		w.tb.Fatalf("%s: the column is not normalized", where)
	}
	for i := range theirList {
		if ourList[i] != theirList[i] || surveyed && column[i] != theirList[i].Score {
			w.tb.Fatalf("%s: normalized %v, in a survey (%t) %d, and upstream %v", where, ourList[i], surveyed,
				column[i], theirList[i])
		}
		if theirList[i].Score > 0 {
			seen.scores++
		} else {
			seen.unscored++
		}
	}
}

// listed is the list that PreFilter gets: all nodes, or, at times, copies of them, or only some.
func (w *world) listed() []fwk.NodeInfo {
	nodes := slices.Clone(w.nodes)
	if w.chance(10) {
		return slices.DeleteFunc(nodes, func(fwk.NodeInfo) bool { return w.chance(30) })
	}
	if w.chance(10) {
		for i := range nodes {
			nodes[i] = nodes[i].Snapshot()
		}
	}
	return nodes
}

// rehearsed is the list with some nodes changed, in copies of them.
func (w *world) rehearsed() []fwk.NodeInfo {
	nodes := w.listed()
	for i := range nodes {
		if w.chance(10) {
			nodes[i] = nodes[i].Snapshot()
			nodes[i].AddPodInfo(w.info(w.pod()))
			if w.chance(30) {
				name := nodes[i].Node().Name
				other := w.node(name)
				other.Labels[v1.LabelTopologyZone] = "z-rehearsed"
				nodes[i].SetNode(other)
			}
		}
	}
	return nodes
}

// try does to a copy of a node what preemption does.
func (w *world) try(where string, a asked, node fwk.NodeInfo, seen *tallied) {
	w.tb.Helper()
	seen.trials++
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
			same(
				w.tb,
				where,
				a.both.ours.RemovePod(quiet(), a.ours, a.pod, pod, node),
				a.both.theirs.RemovePod(quiet(), a.theirs, a.pod, pod, node),
			)
		default:
			pod := w.info(w.pod())
			if len(gone) > 0 && w.chance(70) {
				pod, gone = gone[0], gone[1:]
			}
			node.AddPodInfo(pod)
			same(
				w.tb,
				where,
				a.both.ours.AddPod(quiet(), a.ours, a.pod, pod, node),
				a.both.theirs.AddPod(quiet(), a.theirs, a.pod, pod, node),
			)
		}
		a.filter(w.tb, where+", in a trial", node, seen)
	}
	for _, other := range w.nodes {
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

// Without PreFilter the plugin has nothing to go by, and says so in upstream's words.
func TestWithoutPreFilterItFailsAsUpstreamDoes(t *testing.T) {
	b, w := newBoth(t), newWorld(t, 1, 1)
	pod, info, state := w.question(), w.info(w.pod()), framework.NewCycleState()
	same(t, "Filter", b.ours.Filter(quiet(), state, pod, w.nodes[0]), b.theirs.Filter(quiet(), state, pod, w.nodes[0]))
	same(
		t,
		"AddPod",
		b.ours.AddPod(quiet(), state, pod, info, w.nodes[0]),
		b.theirs.AddPod(quiet(), state, pod, info, w.nodes[0]),
	)
	same(
		t,
		"RemovePod",
		b.ours.RemovePod(quiet(), state, pod, info, w.nodes[0]),
		b.theirs.RemovePod(quiet(), state, pod, info, w.nodes[0]),
	)
	if b.ours.Filter(quiet(), state, pod, w.nodes[0]).Code() != fwk.Error {
		t.Error("Filter without PreFilter did not fail")
	}
}

// Pods thought away, or added, on several nodes leave what a count from the start finds without them, or with them.
// This is not compared with upstream's RemovePod: that keeps two domains in mind and goes wrong here.
func TestPodsThoughtAwayOnSeveralNodesAreAllRemembered(t *testing.T) {
	var seen tallied
	for seed := range uint64(300) {
		b, w := newBoth(t), newWorld(t, seed, 12)
		pod := w.question()
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{w.constraint(), w.constraint()}
		for i := range pod.Spec.TopologySpreadConstraints {
			c := &pod.Spec.TopologySpreadConstraints[i]
			c.WhenUnsatisfiable = v1.DoNotSchedule
			c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		}
		a, ok := w.ask("before", b, pod, w.nodes, &seen)
		if !ok {
			t.Fatal("not asked")
		}
		after := slices.Clone(w.nodes)
		for i := range after {
			after[i] = after[i].Snapshot()
			for _, info := range slices.Clone(after[i].GetPods()) {
				if info.GetPod().DeletionTimestamp == nil && w.chance(50) {
					_ = after[i].RemovePod(klog.FromContext(quiet()), info.GetPod())
					b.ours.RemovePod(quiet(), a.ours, pod, info, after[i])
				}
			}
			if info := w.info(w.pod()); info.GetPod().DeletionTimestamp == nil && w.chance(30) {
				after[i].AddPodInfo(info)
				b.ours.AddPod(quiet(), a.ours, pod, info, after[i])
			}
		}
		a.theirs = framework.NewCycleState()
		if _, status := b.theirs.PreFilter(quiet(), a.theirs, pod, after); !status.IsSuccess() {
			t.Fatal(status)
		}
		for _, node := range after {
			a.filter(t, fmt.Sprint("world ", seed), node, &seen)
		}
	}
	if seen.passed < 300 || seen.skewed < 300 {
		t.Errorf("%+v", seen)
	}
}
