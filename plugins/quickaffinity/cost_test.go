package quickaffinity_test

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/internal/plugintest"
	"github.com/rollcall-sched/rollcall/plugins/quickaffinity"
)

// appPod is a pod that is to be apart from others of its app by node, and rather together with them by zone. Every pod
// has a label of its own that nobody asks for.
func appPod(name, app string) *v1.Pod {
	term := v1.PodAffinityTerm{TopologyKey: v1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
	zone := term
	zone.TopologyKey = v1.LabelTopologyZone
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name),
			Labels: map[string]string{"app": app, "index": name}},
		Spec: v1.PodSpec{Affinity: &v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}},
			PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
				{Weight: 10, PodAffinityTerm: zone}}},
		}},
	}
}

// apartPod is a pod that is to be apart, by node, from the pods that have the label.
func apartPod(name string, labels map[string]string, key, value string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), Labels: labels},
		Spec: v1.PodSpec{Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}}}}},
	}
}

// zonedWorld has nodes in ten zones, without pods.
func zonedWorld(tb testing.TB, nodes int) *world {
	w := newWorld(tb, 0, 0)
	for i := range nodes {
		w.Nodes = append(w.Nodes, zonedNode(fmt.Sprintf("node-%05d", i), i%10))
	}
	return w
}

func zonedNode(name string, zone int) *upstream.NodeInfo {
	info := upstream.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprint("zone-", zone)}}})
	return info
}

// prepare runs PreFilter and PreScore of the plugin, and returns the state.
func (w *world) prepare(p *plugintest.Pair, pod *v1.Pod) fwk.CycleState {
	w.TB.Helper()
	w.Shown = w.Nodes
	state := framework.NewCycleState()
	_, status := p.Ours.PreFilter(plugintest.Context(), state, pod, w.Shown)
	if !status.IsSuccess() && !status.IsSkip() {
		w.TB.Fatal(status)
	}
	if status := p.Ours.PreScore(plugintest.Context(), state, pod, w.Shown); !status.IsSuccess() && !status.IsSkip() {
		w.TB.Fatal(status)
	}
	return state
}

// The plugin lists all namespaces once, and later reads only the changed ones. It drops counts if the namespaces that
// their pod selects, or the labels of its own namespace, have changed.
func TestOnlyCountsThatANamespaceChangesAreDropped(t *testing.T) {
	w := zonedWorld(t, 10)
	p := newPair(w, config.InterPodAffinityArgs{})
	namespace := func(name, team string) {
		w.putNamespace(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{"team": team}}})
	}
	selects, everywhere, of := appPod("selects", "web"), appPod("everywhere", "web"), appPod("b", "web")
	of.Namespace = "b"
	selects.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector =
		&metav1.LabelSelector{MatchLabels: map[string]string{"team": "green"}}
	everywhere.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector =
		&metav1.LabelSelector{}
	pods, other := []*v1.Pod{appPod("plain", "web"), selects, everywhere, of}, appPod("other", "db")
	w.Place(0, appPod("there", "web"))
	for _, c := range []struct {
		what   string
		do     func()
		again  [4]bool // for which pods all pods are counted again
		listed int
	}{
		{"nothing has happened", func() {}, [4]bool{true, true, true, true}, 1},
		{"nothing again", func() {}, [4]bool{}, 0},
		{"a namespace that nobody selects", func() { namespace("new", "yellow") }, [4]bool{}, 0},
		{"its end", func() { w.deleteNamespace("new") }, [4]bool{}, 0},
		{"a namespace that one selects", func() { namespace("new", "green") }, [4]bool{false, true}, 0},
		{"the same again", func() { namespace("new", "green") }, [4]bool{}, 0},
		{"its end", func() { w.deleteNamespace("new") }, [4]bool{false, true}, 0},
		{"one pod's own", func() { namespace("b", "yellow") }, [4]bool{false, false, false, true}, 0},
		{"one pod's own, which another selects", func() { namespace("b", "green") },
			[4]bool{false, true, false, true}, 0},
		{"more than are named", func() {
			for i := range quickaffinity.MaxNews + 1 {
				namespace(fmt.Sprint("many-", i), "yellow")
			}
		}, [4]bool{}, 1},
	} {
		c.do()
		listed := quick(p).Listed()
		w.prepare(p, other) // it takes note of the namespaces
		var again [4]bool
		for i, pod := range pods {
			again[i] = !quick(p).Kept(pod)
			w.prepare(p, pod)
		}
		if again != c.again || quick(p).Listed()-listed != c.listed {
			t.Errorf("%s: all pods were counted again: %v, not %v; namespaces listed %d times, not %d", c.what, again,
				c.again, quick(p).Listed()-listed, c.listed)
		}
	}
}

// When a new configuration replaces the plugins, the informer no longer calls the old ones.
func TestItIsToldOfNamespacesWhileItIsInUse(t *testing.T) {
	w := zonedWorld(t, 1)
	ctx, end := context.WithCancel(w.ctx)
	w.ctx = ctx
	newPair(w, config.InterPodAffinityArgs{})
	w.setNamespace("a")
	if len(w.handlers) != 1 {
		t.Fatalf("there are %d handlers while it is in use", len(w.handlers))
	}
	end()
	w.setNamespace("a")
	if len(w.handlers) != 0 {
		t.Errorf("there are %d handlers after its end", len(w.handlers))
	}
}

// Filter and Score allocate nothing, whatever they say.
func TestFilterAndScoreAllocateNothing(t *testing.T) {
	w := zonedWorld(t, 20)
	p := newPair(w, config.InterPodAffinityArgs{})
	w.Place(0, appPod("1", "web"))
	w.Nodes[5].Node().Labels = nil
	pod := appPod("p", "web")
	state := w.prepare(p, pod)
	ctx, refused, sum := plugintest.Context(), 0, int64(0)
	if n := testing.AllocsPerRun(10, func() {
		for _, node := range w.Nodes {
			if !p.Ours.Filter(ctx, state, pod, node).IsSuccess() {
				refused++
			}
			score, _ := p.Ours.Score(ctx, state, pod, node)
			sum += score
		}
	}); n != 0 {
		t.Errorf("Filter and Score of 20 nodes allocate %v times", n)
	}
	if refused == 0 || sum == 0 {
		t.Errorf("%d nodes are refused, and the scores add up to %d", refused, sum)
	}
}
