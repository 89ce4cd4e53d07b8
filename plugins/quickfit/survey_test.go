package quickfit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/quickfit"
)

// The arguments under which the plugins are compared, with bounds on the percentage of pods that the fast path scores
// under them.
var scoredBy = []struct {
	name        string
	args        runtime.Object
	least, most int
}{
	{"least allocated", fitArgs(config.LeastAllocated, "cpu", "memory"), 100, 100},
	{
		"least allocated of all",
		fitArgs(config.LeastAllocated, "memory", "nvidia.com/gpu", "ephemeral-storage", "cpu"),
		10,
		90,
	},
	{"most allocated", fitArgs(config.MostAllocated, "cpu", "ephemeral-storage"), 100, 100},
	{"by a shape", fitArgs(config.RequestedToCapacityRatio, "cpu", "memory"), 0, 0},
	{"balanced", balancedArgs("cpu", "memory"), 60, 100},
	{"balanced by one", balancedArgs("ephemeral-storage"), 30, 100},
	{"balanced with extended", balancedArgs("cpu", "nvidia.com/gpu"), 10, 90},
	{"balanced by three", balancedArgs("cpu", "memory", "ephemeral-storage"), 0, 0},
}

func specs(names []string) (specs []config.ResourceSpec) {
	for i, name := range names {
		specs = append(specs, config.ResourceSpec{Name: name, Weight: int64(1 + 2*i)})
	}
	return specs
}

func fitArgs(strategy config.ScoringStrategyType, names ...string) runtime.Object {
	s := &config.ScoringStrategy{Type: strategy, Resources: specs(names)}
	if strategy == config.RequestedToCapacityRatio {
		s.RequestedToCapacityRatio = &config.RequestedToCapacityRatioParam{
			Shape: []config.UtilizationShapePoint{{Utilization: 0, Score: 2}, {Utilization: 80, Score: 10}},
		}
	}
	return &config.NodeResourcesFitArgs{ScoringStrategy: s}
}

func balancedArgs(names ...string) runtime.Object {
	list := specs(names)
	for i := range list {
		list[i].Weight = 1
	}
	return &config.NodeResourcesBalancedAllocationArgs{Resources: list}
}

// Score and the surveys of all nodes give the same answers about each node as upstream's plugins, while nodes and their
// pods change.
func TestScoresAndSurveysAreUpstreams(t *testing.T) {
	for _, test := range scoredBy {
		t.Run(test.name, func(t *testing.T) {
			ours, theirs := both(t, test.args)
			again, _ := both(t, test.args)
			w := &surveyed{t: t, g: rand.New(rand.NewPCG(3, 4)), ours: ours, theirs: theirs,
				placed: again.(framework.PlaceSurveyor)}
			for i := range 30 {
				w.nodes = append(w.nodes, w.node(i))
			}
			const pods = 300
			for i := range pods {
				w.change(i)
				w.compare(pod(w.g, fmt.Sprint("p", i), 1+w.g.Int64N(8)))
			}
			if share := 100 * w.scored / pods; share < test.least || share > test.most {
				t.Errorf("%d %% of the pods were scored in a survey, want %d to %d", share, test.least, test.most)
			}
			if ours.Name() == noderesources.Name && (w.passed < pods || w.passed > pods*len(w.nodes)*9/10) {
				t.Errorf("in %d surveys %d nodes passed", pods, w.passed)
			}
			if w.differ < pods/2 && test.name != "balanced by one" { // one resource is always in balance
				t.Errorf("only %d of %d pods have nodes that differ in score", w.differ, pods)
			}
		})
	}
}

func both(t *testing.T, args runtime.Object) (ours, theirs fwk.Plugin) {
	t.Helper()
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var factory frameworkruntime.PluginFactory = func(ctx context.Context, a runtime.Object,
		h fwk.Handle) (fwk.Plugin, error) {
		return noderesources.NewFit(ctx, a, h, feature.Features{EnablePodLevelResources: true})
	}
	quick := quickfit.New
	if _, ok := args.(*config.NodeResourcesBalancedAllocationArgs); ok {
		quick = quickfit.NewBalanced
		factory = func(ctx context.Context, a runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			return noderesources.NewBalancedAllocation(ctx, a, h, feature.Features{EnablePodLevelResources: true})
		}
	}
	if theirs, err = factory(t.Context(), args, handle); err != nil {
		t.Fatal(err)
	}
	if ours, err = quick(factory)(t.Context(), args, handle); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// surveyed is a world for questions to both plugins.
type surveyed struct {
	t            *testing.T
	g            *rand.Rand
	ours, theirs fwk.Plugin
	nodes        []fwk.NodeInfo
	placed       framework.PlaceSurveyor // the same as ours, but it learns only of the nodes that changed
	changed      []int32                 // since it was asked last
	others       bool                    // there are other nodes since

	passed, scored, differ int
}

func (w *surveyed) node(i int) fwk.NodeInfo {
	node := &v1.Node{}
	node.Name = fmt.Sprint("n", i)
	node.Status.Allocatable = amounts(w.g, 60)
	node.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(w.g.Int64N(8), resource.DecimalSI)
	info := upstream.NewNodeInfo()
	info.SetNode(node)
	return info
}

// change adds and removes pods, and changes, adds and removes nodes.
func (w *surveyed) change(step int) {
	changed := w.g.IntN(len(w.nodes))
	info := w.nodes[changed]
	if !slices.Contains(w.changed, int32(changed)) {
		w.changed = append(w.changed, int32(changed))
	}
	switch w.g.IntN(8) {
	case 0:
		at := w.g.IntN(len(w.nodes))
		w.nodes, w.others = append(w.nodes[:at], w.nodes[at+1:]...), true
	case 1, 2:
		w.nodes, w.others = append(w.nodes, w.node(step+100)), true
	case 3:
		if pods := info.GetPods(); len(pods) > 0 {
			if err := info.RemovePod(klog.Logger{}, pods[0].GetPod()); err != nil {
				w.t.Fatal(err)
			}
		}
	default:
		other, err := upstream.NewPodInfo(pod(w.g, fmt.Sprint("other-", step), 6))
		if err != nil {
			w.t.Fatal(err)
		}
		info.AddPodInfo(other)
	}
}

func (w *surveyed) compare(p *v1.Pod) {
	states := []fwk.CycleState{upstream.NewCycleState(), upstream.NewCycleState()}
	skip := false
	for i, plugin := range []fwk.Plugin{w.ours, w.theirs} {
		if filter, ok := plugin.(fwk.PreFilterPlugin); ok {
			filter.PreFilter(w.t.Context(), states[i], p, w.nodes)
		}
		skip = plugin.(fwk.PreScorePlugin).PreScore(w.t.Context(), states[i], p, w.nodes).IsSkip()
	}
	survey := w.ours.(framework.Surveyor)
	pass, scores := make([]bool, len(w.nodes)), make([]int64, len(w.nodes))
	if survey.SurveyFilter(states[0], w.nodes, pass) {
		for i, node := range w.nodes {
			if pass[i] {
				w.passed++
			}
			if fits := w.theirs.(fwk.FilterPlugin).Filter(
				w.t.Context(),
				states[1],
				p,
				node,
			).IsSuccess(); fits != pass[i] {
				w.t.Fatalf("the survey lets the pod pass on %s: %v; upstream: %v", node.Node().Name, pass[i], fits)
			}
		}
	}
	if w.placed != nil {
		w.comparePlaces(states[0], pass, scores, skip)
	}
	if skip {
		return
	}
	known := survey.SurveyScore(states[0], w.nodes, scores)
	if known {
		w.scored++
	}
	first, differ := int64(-1), false
	for i, node := range w.nodes {
		want, status := w.theirs.(fwk.ScorePlugin).Score(w.t.Context(), states[1], p, node)
		got, ours := w.ours.(fwk.ScorePlugin).Score(w.t.Context(), states[0], p, node)
		if !status.IsSuccess() || !ours.IsSuccess() || got != want || known && scores[i] != want {
			w.t.Fatalf(
				"node %s: score %d, surveyed %d (%v), upstream %d; pod %+v, node %+v",
				node.Node().Name,
				got,
				scores[i],
				known,
				want,
				p.Spec,
				node,
			)
		}
		differ = differ || i > 0 && want != first
		first = want
	}
	if differ {
		w.differ++
	}
}

// comparePlaces surveys some of the nodes, after ReadNodes for the nodes that have changed.
func (w *surveyed) comparePlaces(state fwk.CycleState, pass []bool, scores []int64, skip bool) {
	if w.others {
		w.changed = w.changed[:0]
		for at := range w.nodes {
			w.changed = append(w.changed, int32(at))
		}
	}
	w.placed.ReadNodes(w.nodes, w.changed)
	w.changed, w.others = w.changed[:0], false
	var places []int32
	for at := range w.nodes {
		if w.g.IntN(3) > 0 {
			places = append(places, int32(at))
		}
	}
	passAt, scoresAt := make([]bool, len(w.nodes)), make([]int64, len(w.nodes))
	w.g.Shuffle(len(places), func(i, k int) { places[i], places[k] = places[k], places[i] })
	filtered := w.placed.SurveyFilterAt(state, w.nodes, places, passAt)
	scored := !skip && w.placed.SurveyScoreAt(state, w.nodes, places, scoresAt)
	if !skip && scored != w.ours.(framework.Surveyor).SurveyScore(state, w.nodes, scores) {
		w.t.Fatalf("a survey of some nodes can score: %v; not so of all", scored)
	}
	for _, at := range places {
		if filtered && passAt[at] != pass[at] || scored && scoresAt[at] != scores[at] {
			w.t.Fatalf("node %d: some nodes surveyed: %v %d; all: %v %d", at, passAt[at], scoresAt[at], pass[at],
				scores[at])
		}
	}
}

// TestALedgerKeepsFewNames requests ever new resources, sometimes many at once.
func TestALedgerKeepsFewNames(t *testing.T) {
	ours, theirs := both(t, fitArgs(config.LeastAllocated, "cpu", "memory"))
	w := &surveyed{t: t, g: rand.New(rand.NewPCG(7, 8)), ours: ours, theirs: theirs}
	name := func(i int) v1.ResourceName { return v1.ResourceName(fmt.Sprintf("example.com/r%d", i)) }
	for i := range 20 {
		node := &v1.Node{}
		node.Name = fmt.Sprint("n", i)
		node.Status.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("10")}
		for r := range 60 {
			node.Status.Allocatable[name(r)] = *resource.NewQuantity(w.g.Int64N(4), resource.DecimalSI)
		}
		info := upstream.NewNodeInfo()
		info.SetNode(node)
		w.nodes = append(w.nodes, info)
	}
	surveys := 0
	for i := range 200 {
		p := pod(w.g, fmt.Sprint("p", i), 1)
		p.Spec.Overhead = nil
		requests := v1.ResourceList{}
		for range 1 + w.g.IntN(4)*w.g.IntN(10) {
			requests[name(w.g.IntN(60))] = resource.MustParse("1")
		}
		p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: requests}}}
		before := w.passed
		w.compare(p)
		if w.passed > before {
			surveys++
		}
		if n := ours.(*quickfit.Fit).Names(); n > quickfit.MaxNames {
			t.Fatalf("after %d pods the ledger keeps %d names", i, n)
		}
	}
	if surveys < 50 {
		t.Errorf("only %d surveys let a pod pass", surveys)
	}
}
