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
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
)

const (
	sequences = 120
	steps     = 30 // 3,600 pods
)

// The plugin and upstream's give the same answers about a pod, about every node, while pods are added and removed for a
// trial too, and the same scores. The world changes while the plugins live.
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

func compareLives(t *testing.T, lives int) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(lives) {
		w := newWorld(t, seed, 3+int(seed%40))
		p := newPair(w, config.InterPodAffinityArgs{HardPodAffinityWeight: pick(w, int32(1), 0, 37),
			IgnorePreferredTermsOfExistingPods: w.Chance(30)})
		p.Seen = seen
		var questions []*v1.Pod
		for range 6 {
			questions = append(questions, w.question())
		}
		for step := range steps {
			for range w.IntN(4) {
				w.Step()
			}
			pod := questions[w.IntN(len(questions))]
			if w.Chance(40) { // the same with other labels, or another namespace
				pod = pod.DeepCopy()
				pod.Labels = w.podLabels()
				pod.Namespace = pick(w, "a", "b", pod.Namespace)
			}
			where := fmt.Sprintf("sequence %d, step %d", seed, step)
			p.Compare(where, pod, questions)
			if pod.Labels["app"] == "first" && !slices.ContainsFunc(w.Shown, hasFirst) {
				if c, status := p.Ask(where+", again", pod); status.IsSuccess() && c.Survey() > 0 {
					seen["starts alone"]++
				}
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%8d %s", seen[what], what)
	}
	return seen
}

// hasFirst reports whether a pod of the app "first" is on the node.
func hasFirst(n fwk.NodeInfo) bool {
	return slices.ContainsFunc(n.GetPods(), func(p fwk.PodInfo) bool { return p.GetPod().Labels["app"] == "first" })
}

// The terms of a pod that is added for a trial may tell pods apart that share counts. It makes no difference which pod
// was asked about first, and whether the added pod was ever asked about itself.
func TestAddedPodsRepelByLabelsThatNobodyElseAsksFor(t *testing.T) {
	for _, asked := range []bool{false, true} {
		w := newWorld(t, 0, 0)
		w.Nodes = []fwk.NodeInfo{zonedNode("n1", 0), zonedNode("n2", 0)}
		p := newPair(w, config.InterPodAffinityArgs{HardPodAffinityWeight: 1})
		nominated := apartPod("nominated", nil, "tier", "red")
		w.Place(1, apartPod("other", nil, "app", "else"))
		if asked {
			w.prepare(p, nominated)
		}
		refused := 0
		for _, tier := range []string{"blue", "red", "blue"} {
			w.Shown = w.Nodes
			c, status := p.Ask(tier, apartPod("p-"+tier, map[string]string{"app": "web", "tier": tier}, "app", "db"))
			if !status.IsSuccess() {
				t.Fatal("PreFilter does not pass")
			}
			c, node := c.Clone(), w.Nodes[0].Snapshot()
			c.AddPod(w.Info(nominated), node)
			if !c.Filter("", node) {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("asked %t: %d pods are refused, not the red one alone", asked, refused)
		}
	}
}

// A pod's cycle may continue after its counts are dropped, and the topologies with them.
func TestACycleOutlivesItsCounts(t *testing.T) {
	w := zonedWorld(t, 20)
	p := newPair(w, config.InterPodAffinityArgs{})
	for _, node := range w.Nodes[:10] {
		node.Node().Labels["rack"] = "r"
	}
	w.Place(3, apartPod("there", map[string]string{"app": "web"}, "app", "else"))
	w.Shown = w.Nodes
	pod := apartPod("p", nil, "app", "web")
	pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = "rack"
	c, status := p.Ask("before", pod)
	if !status.IsSuccess() {
		t.Fatal("PreFilter does not pass")
	}
	w.prepare(p, apartPod("q", nil, "tier", "new"))
	if quick(p).Kept(pod) || c.Survey() != -1 {
		t.Fatal("the counts are still there")
	}
	for _, node := range w.Nodes {
		c.Filter(", after", node)
	}
	if p.Seen["passes"] != 10 {
		t.Errorf("%d nodes pass, not 10", p.Seen["passes"])
	}
}

// A column without scores, as of a pod that no node is left for, is normalized to nothing.
func TestAnEmptyColumnIsNormalized(t *testing.T) {
	w := zonedWorld(t, 2)
	p := newPair(w, config.InterPodAffinityArgs{})
	w.Place(0, appPod("1", "web"))
	state := w.prepare(p, appPod("p", "web"))
	if !p.Ours.NormalizeColumn(state, nil, nil) {
		t.Error("it is not")
	}
}

// Without PreFilter and PreScore the plugin has nothing to go by, and says so in upstream's words.
func TestWithoutPreFilterItFailsAsUpstreamDoes(t *testing.T) {
	w := newWorld(t, 1, 1)
	newPair(w, config.InterPodAffinityArgs{HardPodAffinityWeight: 1}).WithoutPreFilter(w.question())
}
