package quickspread_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/rollcall-sched/rollcall/plugins/internal/plugintest"
)

const (
	sequences = 150
	steps     = 40 // 6,000 pods
)

// The plugin and upstream's give the same answers about a pod, about every node, while pods are added and removed for a
// trial too, and the same scores. The world changes while the plugins live.
func TestItAnswersAsUpstreamDoes(t *testing.T) {
	seen := compareLives(t, sequences)
	const n = sequences * steps
	for what, least := range map[string]int{"pods": n, "errors": n / 20, "skips": n / 20, "trials": n, "passes": n,
		podtopologyspread.ErrReasonConstraintsNotMatch: n, podtopologyspread.ErrReasonNodeLabelNotMatch: n,
		"surveyed filters": n / 3, "scored pods": n / 4, "surveyed scores": n / 4, "normalized": n,
		"normalized to 0": n / 2} {
		if seen[what] < least {
			t.Errorf("%q was seen %d times, not %d", what, seen[what], least)
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

func compareLives(t *testing.T, lives int) map[string]int {
	seen := map[string]int{}
	hard := v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone,
		WhenUnsatisfiable: v1.DoNotSchedule}
	soft := v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway}
	for seed := range uint64(lives) {
		w := newWorld(t, seed, 3+int(seed%40))
		var p *plugintest.Pair
		switch seed % 6 {
		case 0, 3:
			p = newPair(w, hard, soft)
		case 1:
			p = newPairWith(w, config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting})
		default:
			p = newPair(w)
		}
		p.Seen = seen
		var questions []*v1.Pod
		for range 4 {
			pod := w.question()
			questions = append(questions, pod, w.almost(pod))
		}
		for step := range steps {
			for range w.IntN(4) {
				w.Step()
			}
			pod := questions[w.IntN(len(questions))]
			if w.Chance(30) { // the same with other labels
				pod = pod.DeepCopy()
				pod.Labels = w.podLabels()
			}
			p.Compare(fmt.Sprintf("sequence %d, step %d", seed, step), pod, questions)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%8d %s", seen[what], what)
	}
	return seen
}

// Without PreFilter and PreScore the plugin has nothing to go by, and says so in upstream's words.
func TestWithoutPreFilterItFailsAsUpstreamDoes(t *testing.T) {
	w := newWorld(t, 1, 1)
	newPair(w).WithoutPreFilter(w.question())
}

// Pods that are added and removed on several nodes leave what a count from the start finds with or without them. This
// is not compared with upstream's RemovePod: that remembers two domains and goes wrong here.
func TestPodsThatAreRemovedOnSeveralNodesAreAllRemembered(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(300) {
		w := newWorld(t, seed, 12)
		p := newPair(w)
		p.Seen = seen
		pod := w.question()
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{w.constraint(), w.constraint()}
		for i := range pod.Spec.TopologySpreadConstraints {
			c := &pod.Spec.TopologySpreadConstraints[i]
			c.WhenUnsatisfiable = v1.DoNotSchedule
			c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		}
		w.Shown = w.Nodes
		c, status := p.Ask(fmt.Sprint("world ", seed), pod)
		if !status.IsSuccess() {
			t.Fatal("not asked")
		}
		after := slices.Clone(w.Nodes)
		for i := range after {
			after[i] = after[i].Snapshot()
			for _, info := range slices.Clone(after[i].GetPods()) {
				if info.GetPod().DeletionTimestamp == nil && w.Chance(50) {
					c.RemovePod(info, after[i])
				}
			}
			if info := w.Info(w.pod()); info.GetPod().DeletionTimestamp == nil && w.Chance(30) {
				c.AddPod(info, after[i])
			}
		}
		c.AskTheirs(after)
		for _, node := range after {
			c.Filter("", node)
		}
	}
	if seen["passes"] < 300 || seen[podtopologyspread.ErrReasonConstraintsNotMatch] < 300 {
		t.Errorf("%v", seen)
	}
}
