package framework_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/plugins"
)

// TestACountIsWhatPlacingOneAfterTheOtherComesTo removes pods from some nodes. It compares the counts, of each node and
// of all together, with a profile without memos that places one pod after the other: first on each node alone, and then
// wherever there is room.
func TestACountIsWhatPlacingOneAfterTheOtherComesTo(t *testing.T) {
	const worlds, podsPerWorld, most = 8, 14, 4
	kinds := map[string]int{}
	for seed := range uint64(worlds) {
		w := newCountWorld(t, seed)
		for step := range podsPerWorld {
			pod := w.podOfFewShapes(step)
			if w.g.oneIn(3) {
				pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints = &v1.Affinity{}, nil
			}
			w.reserving = reservingNone
			if step%7 == 6 {
				w.reserving = reservingThird
			}
			w.countsAsPlaced(fmt.Sprintf("world %d, step %d", seed, step), pod, most, kinds)
			w.nominate(step + 19)
		}
		w.besideAffinity()
	}
	for _, kind := range []string{"not counted", "of affinity", "of spread", "reserved", "some more without the gone",
		"full", "room for all", "refused node"} {
		if kinds[kind] == 0 {
			t.Errorf("nothing that was counted is of the kind %q: %v", kind, kinds)
		}
	}
	t.Logf("%v", kinds)
}

// newCountWorld returns a memoWorld whose nodes have pods without affinity.
func newCountWorld(t *testing.T, seed uint64) *memoWorld {
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(seed, 11))})
	for i := range 2 * w.nodes {
		pod := w.g.pod(fmt.Sprintf("old-%d", i))
		pod.Spec.Affinity.PodAffinity, pod.Spec.Affinity.PodAntiAffinity = nil, nil
		w.assume(pod, fmt.Sprintf("node-%02d", w.g.IntN(w.nodes)))
	}
	return w
}

// besideAffinity counts beside a pod with affinity to pods of its zone.
func (w *memoWorld) besideAffinity() {
	w.t.Helper()
	apart := alikePod(1)
	apart.Name, apart.UID = "apart", "apart"
	apart.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: "zone"}}}}
	w.assume(apart, "node-00")
	r := w.with.Handle().Rehearse("", nil)
	defer r.End()
	if r.Count(w.ctx, alikePod(1)) != nil {
		w.t.Fatal("it is counted beside a pod with affinity")
	}
}

// leaving draws the pods to remove, by node.
func (w *memoWorld) leaving() map[string][]fwk.PodInfo {
	gone := map[string][]fwk.PodInfo{}
	for _, uid := range w.placed {
		if p := w.state.Pods().Get(uid); w.g.oneIn(6) {
			gone[p.Node] = append(gone[p.Node], p.Info())
		}
	}
	return gone
}

// countsAsPlaced compares the counts for the pod with the results of placing. It adds the cases that occurred to kinds.
func (w *memoWorld) countsAsPlaced(at string, pod *v1.Pod, most int, kinds map[string]int) {
	w.t.Helper()
	gone := w.leaving()
	r := w.with.Handle().Rehearse("", nil)
	c := r.Count(w.ctx, pod)
	if a := pod.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		kinds["of affinity"]++
		if c != nil {
			w.t.Fatalf("%s: it is counted for a pod with affinity", at)
		}
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		kinds["of spread"]++
	}
	if w.reserving != reservingNone {
		kinds["reserved"]++
		if c != nil {
			w.t.Fatalf("%s: it is counted though nodes are reserved", at)
		}
	}
	if c == nil {
		kinds["not counted"]++
		r.End()
		return
	}
	takes, sum, capped := map[string]int{}, 0, false
	for i := range w.nodes {
		node := fmt.Sprintf("node-%02d", i)
		without := c.On(node, gone[node], most, func(i int) fwk.PodInfo { return w.infoOn(pod, node, i) })
		takes[node], sum = without, sum+without
		before := c.On(node, nil, most, func(i int) fwk.PodInfo { return w.infoOn(pod, node, i) })
		kinds["some more without the gone"] += min(1, max(0, without-before))
		switch without {
		case 0:
			kinds["refused node"]++
		case most:
			kinds["room for all"]++
			capped = true
		default:
			kinds["full"]++
		}
	}
	if n := c.On("node-nowhere", nil, most, nil); n != 0 || c.Failed {
		w.t.Fatalf("%s: a node that is not there takes %d, failed: %v", at, n, c.Failed)
	}
	r.End()
	for node, n := range takes {
		if tried := w.fill(pod, gone, most, []string{node}); tried != n {
			w.t.Fatalf("%s: node %s without %d pods takes %d by the count, %d were placed", at, node,
				len(gone[node]), n, tried)
		}
	}
	// Wherever the pods are placed, as many fit as all nodes together take. A node may take more than most.
	want := min(sum, 12)
	if tried := w.fill(pod, gone, want, nil); tried != want {
		w.t.Fatalf("%s: all nodes take %d, only %d were placed", at, sum, tried)
	}
	if !capped && sum <= 12 && w.fill(pod, gone, sum+1, nil) > sum {
		w.t.Fatalf("%s: all nodes take %d, and one more was placed", at, sum)
	}
}

// fill places pods like the given one until there are that many, or until none of the named nodes (nil: all) takes
// another one. It returns the number of placed pods.
func (w *memoWorld) fill(pod *v1.Pod, gone map[string][]fwk.PodInfo, most int, nodes []string) (n int) {
	w.t.Helper()
	r := w.without.Handle().Rehearse("", nil)
	defer r.End()
	r.Limit(nodes)
	for _, pods := range gone {
		for _, info := range pods {
			if err := r.RemovePod(info); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for ; n < most; n++ {
		next := w.infoOn(pod, "", n).GetPod()
		next.Spec.NodeName = pod.Spec.NodeName
		placed := r.Place(w.ctx, next)
		if placed.Node == "" {
			return n
		}
		if err := r.AddPod(w.infoOn(pod, placed.Node, n)); err != nil {
			w.t.Fatal(err)
		}
	}
	return n
}

// infoOn returns the i-th pod like the given one, on a node.
func (w *memoWorld) infoOn(pod *v1.Pod, node string, i int) fwk.PodInfo {
	p := pod.DeepCopy()
	p.Name = fmt.Sprintf("%s-%d", pod.Name, i)
	p.UID, p.Spec.NodeName = types.UID(p.Name), node
	info, err := upstream.NewPodInfo(p)
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

// stranger is a plugin that was not examined, at one extension point. It signs, so that signing does not decide.
type stranger struct{}

func (stranger) Name() string { return "Stranger" }

func (stranger) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return nil, nil }

// strangers has the plugins by extension point.
var strangers = map[string]fwk.Plugin{
	"preFilter": strangerBefore{}, "filter": strangerFilter{}, "score": strangerScore{},
	"postFilter": strangerAfter{},
}

type strangerBefore struct{ stranger }

func (strangerBefore) PreFilter(context.Context, fwk.CycleState, *v1.Pod,
	[]fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}
func (strangerBefore) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

type strangerFilter struct{ stranger }

func (strangerFilter) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

type strangerScore struct{ stranger }

func (strangerScore) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}
func (strangerScore) ScoreExtensions() fwk.ScoreExtensions { return nil }

type strangerAfter struct{ stranger }

func (strangerAfter) PostFilter(context.Context, fwk.CycleState, *v1.Pod,
	fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// TestNothingIsCountedWhereAnUnknownPluginMayMindOtherPods has a plugin that was not examined at a point where it may
// refuse the pod or a node because of pods elsewhere, such as a quota. Plugins after the search do not matter.
func TestNothingIsCountedWhereAnUnknownPluginMayMindOtherPods(t *testing.T) {
	for point, counted := range map[string]bool{
		"": true, "preFilter": false, "filter": false, "score": false, "postFilter": true,
	} {
		t.Run(point, func(t *testing.T) {
			w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(1, 1))})
			registry := plugins.NewRegistry()
			registry.Factories["Stranger"] = frameworkruntime.PluginFactory(
				func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
					return strangers[point], nil
				})
			if point != "" {
				w.config = fmt.Sprintf("profiles: [{plugins: {multiPoint: {disabled: [{name: Coscheduling}, "+
					"{name: DefaultPreemption}]}, %s: {enabled: [{name: Stranger}]}}}]", point)
			}
			p := w.profile("stranger", registry, w.inputs)
			r := p.Handle().Rehearse("", nil)
			defer r.End()
			pod := alikePod(1)
			pod.Name, pod.UID = "p", "p"
			if c := r.Count(w.ctx, pod); c != nil != counted {
				t.Errorf("it is counted: %v, want %v", c != nil, counted)
			}
		})
	}
}

// TestACountSeesWhatASearchWouldSee has few feasible nodes among many, in a profile that visits a part of them, and in
// one that visits all.
func TestACountSeesWhatASearchWouldSee(t *testing.T) {
	const nodes = 300
	for _, percentage := range []int32{50, 100} {
		w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(1, 1))})
		w.config = fmt.Sprintf("profiles: [{percentageOfNodesToScore: %d, plugins: {multiPoint: "+
			"{disabled: [{name: Coscheduling}, {name: DefaultPreemption}]}}}]", percentage)
		p := w.profile("sees", plugins.NewRegistry(), w.inputs)
		for i := range nodes {
			w.wantNode(i)
		}
		pod := alikePod(1)
		pod.Name, pod.UID = "p", "p"
		r := p.Handle().Rehearse("", nil)
		c := r.Count(w.ctx, pod)
		if c == nil {
			t.Fatal("it is not counted")
		}
		seen := map[bool]int{}
		for feasible := 1; feasible <= nodes; feasible += 7 {
			var names []string
			for i := range feasible {
				names = append(names, fmt.Sprintf("node-%02d", i))
			}
			sees := c.Sees(feasible)
			seen[sees]++
			r.Limit(names)
			among := r.Place(w.ctx, pod).Feasible
			r.Limit(nil)
			all := r.Place(w.ctx, below(pod, feasible)).Feasible
			if sees != (int(among) == feasible && int(all) == feasible) {
				t.Fatalf("%d%%: of %d nodes that do a search among them finds %d, and one among all %d; it is said "+
					"that both find all: %v", percentage, feasible, among, all, sees)
			}
		}
		r.End()
		if seen[true] == 0 || seen[false] == 0 != (percentage == 100) {
			t.Errorf("%d%%: seen and not: %v", percentage, seen)
		}
	}
}

// below returns the pod changed so that only the first nodes take it.
func below(pod *v1.Pod, nodes int) *v1.Pod {
	p := pod.DeepCopy()
	return withRequiredNodes(p, &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: "at", Operator: v1.NodeSelectorOpLt, Values: []string{fmt.Sprint(nodes)}}}}}})
}

// wantNode makes node i take any pod.
func (w *memoWorld) wantNode(i int) {
	node := w.g.node(fmt.Sprintf("node-%02d", i))
	node.Spec, node.Labels["at"] = v1.NodeSpec{}, fmt.Sprint(i)
	if _, err := w.state.UpsertNode(node); err != nil {
		w.t.Fatal(err)
	}
}
