package quickaffinity_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
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

// apartPod is a pod that is to be apart, by node, from those that have the label.
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
		w.nodes = append(w.nodes, zonedNode(fmt.Sprintf("node-%05d", i), i%10))
	}
	return w
}

func zonedNode(name string, zone int) *upstream.NodeInfo {
	info := upstream.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprint("zone-", zone)}}})
	return info
}

func (w *world) place(at int, pod *v1.Pod) {
	w.nodes[at].AddPodInfo(w.info(pod))
	w.changed = append(w.changed, int32(at))
}

// prepare runs PreFilter and PreScore.
func (w *world) prepare(b both, pod *v1.Pod) {
	w.tb.Helper()
	w.shown = w.nodes
	state := framework.NewCycleState()
	_, status := b.ours.PreFilter(quiet(), state, pod, w.shown)
	if !status.IsSuccess() && !status.IsSkip() {
		w.tb.Fatal(status)
	}
	if status := b.ours.PreScore(quiet(), state, pod, w.shown); !status.IsSuccess() && !status.IsSkip() {
		w.tb.Fatal(status)
	}
}

// Only nodes that have changed are looked at, only kinds of pods that are new are compared with a pod's terms, and all
// pods are counted only for terms that were not asked for before.
func TestOnlyWhatHasChangedIsLookedAt(t *testing.T) {
	w := zonedWorld(t, 1000)
	b := newBoth(t, w, config.InterPodAffinityArgs{HardPodAffinityWeight: 1})
	app, number := "web", 0
	next := func() *v1.Pod {
		number++
		return appPod(fmt.Sprint("p", number), app)
	}
	for _, c := range []struct {
		what                      string
		do                        func()
		looked, compared, counted int
	}{
		// The ledger is made again when the first pod's selectors are known.
		{"the first pod", func() {}, 2000, 0, 1},
		{"a pod like it", func() {}, 0, 0, 0},
		{"a placement", func() { w.place(7, next()) }, 1, 1, 0},
		{"two placements on one node", func() { w.place(8, next()); w.place(8, next()) }, 1, 0, 0},
		{"the end of a pod", func() {
			if err := w.nodes[7].RemovePod(klog.FromContext(quiet()), w.nodes[7].GetPods()[0].GetPod()); err != nil {
				t.Fatal(err)
			}
			w.changed = append(w.changed, 7)
		}, 1, 0, 0},
		{"another app", func() { app = "db" }, 0, 1, 1},
		{"a placement of it", func() { w.place(9, next()) }, 1, 1, 0},
		{"the first again", func() { app = "web" }, 0, 1, 0},
		{"a node that comes first", func() {
			w.nodes = slices.Insert(w.nodes, 0, fwk.NodeInfo(zonedNode("a", 1)))
			w.version++
		}, 1, 0, 0},
		{"a node that goes", func() { w.nodes = slices.Delete(w.nodes, 0, 1); w.version++ }, 0, 0, 0},
		{"copies of all nodes", func() {
			for i := range w.nodes {
				w.nodes[i] = w.nodes[i].Snapshot()
			}
			w.version++
		}, 0, 0, 0},
		{"another namespace", func() { w.setNamespace("b"); w.setNamespace("new") }, 0, 0, 0},
		{"its own namespace's labels", func() {
			w.putNamespace(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a",
				Labels: map[string]string{"team": "green"}}})
		}, 0, 2, 1},
	} {
		c.do()
		looked, compared, counted := b.ours.Costs()
		w.prepare(b, next())
		l, m, n := b.ours.Costs()
		got, want := [3]int{l - looked, m - compared, n - counted}, [3]int{c.looked, c.compared, c.counted}
		if got != want {
			t.Errorf("%s: looked, compared and counted %v times, not %v", c.what, got, want)
		}
	}
}

// What 500 apps ask is remembered at a time, and what more of them ask is bounded in bytes.
func TestMemosAreBoundedInBytes(t *testing.T) {
	for _, c := range []struct{ nodes, apps, remembered, most int }{
		{1000, 500, 500, quickaffinity.MaxMemory},
		{20000, 350, 350, quickaffinity.MaxMemory},
		{50000, 150, 150, quickaffinity.MaxMemory},
		{500, 200, 100, 2 << 20},
	} {
		w := zonedWorld(t, c.nodes)
		b := newBoth(t, w, config.InterPodAffinityArgs{})
		b.ours.SetMaxMemory(c.most)
		for i := range c.apps {
			w.place(i, appPod(fmt.Sprint("p", i), fmt.Sprint("app-", i)))
		}
		for i := range c.apps {
			w.prepare(b, appPod("p", fmt.Sprint("app-", i)))
		}
		n, bytes := b.ours.Memos()
		_, more := b.ours.Topologies()
		if bytes+more > c.most || n < c.remembered || c.remembered < c.apps && n == c.apps {
			t.Errorf("%d nodes: %d memos of %d apps take %d bytes, and topologies %d", c.nodes, n, c.apps, bytes, more)
		}
		_, _, before := b.ours.Costs()
		for i := c.apps - c.remembered; i < c.apps; i++ {
			w.prepare(b, appPod("p", fmt.Sprint("app-", i)))
		}
		if _, _, after := b.ours.Costs(); after != before {
			t.Errorf("%d nodes: of %d apps %d had all pods counted again", c.nodes, c.remembered, after-before)
		}
	}
}

// The memo that was not used for longest goes first, and one that was used just now stays.
func TestTheMemoThatWasNotUsedForLongestGoes(t *testing.T) {
	w := zonedWorld(t, 10)
	b := newBoth(t, w, config.InterPodAffinityArgs{})
	b.ours.SetMaxMemory(1) // the fewest there may be
	ask := func(app int) (counted int) {
		_, _, before := b.ours.Costs()
		w.prepare(b, appPod("p", fmt.Sprint("app-", app)))
		_, _, after := b.ours.Costs()
		return after - before
	}
	for i := range quickaffinity.LeastMemos {
		ask(i)
	}
	if n := ask(0); n != 0 {
		t.Fatalf("the first app had all pods counted %d times again", n)
	}
	ask(quickaffinity.LeastMemos) // one too many
	for _, c := range []struct{ app, counted int }{{0, 0}, {2, 0}, {quickaffinity.LeastMemos, 0}, {1, 1}, {3, 1}} {
		if n := ask(c.app); n != c.counted {
			t.Errorf("app %d had all pods counted %d times, not %d", c.app, n, c.counted)
		}
	}
}

// Topologies that no memo counts by are gone, and there are never many, whatever pods ask for.
func TestTopologiesAreBounded(t *testing.T) {
	w := zonedWorld(t, 50)
	b := newBoth(t, w, config.InterPodAffinityArgs{})
	for i := range 1000 {
		pod := appPod(fmt.Sprint("p", i), "web")
		pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []v1.PodAffinityTerm{{
			TopologyKey:   fmt.Sprint("job-", i),
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}}}
		w.prepare(b, pod)
		if n, _ := b.ours.Topologies(); n > quickaffinity.MaxTopologies {
			t.Fatalf("after %d pods there are %d topologies", i+1, n)
		}
	}
	b.ours.SetMaxMemory(1)
	for i := range quickaffinity.LeastMemos {
		w.prepare(b, appPod("p", fmt.Sprint("app-", i)))
	}
	w.place(0, appPod("q", "app-0"))
	w.prepare(b, appPod("p", "app-0"))
	if n, _ := b.ours.Topologies(); n != 2 {
		t.Errorf("there are %d topologies, not those of host names and zones", n)
	}
}

// All namespaces are listed once, and later only what has changed is looked at. A memo is forgotten if its pod selects
// namespaces and others are meant now, or if its own namespace's labels are others.
func TestOnlyMemosThatANamespaceChangesAreForgotten(t *testing.T) {
	w := zonedWorld(t, 10)
	b := newBoth(t, w, config.InterPodAffinityArgs{})
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
	pods := []*v1.Pod{appPod("plain", "web"), selects, everywhere, of}
	w.place(0, appPod("there", "web"))
	for _, c := range []struct {
		what   string
		do     func()
		again  [4]int // how often all pods are counted for each of the pods
		listed int
	}{
		{"nothing has happened", func() {}, [4]int{1, 1, 1, 1}, 1},
		{"nothing again", func() {}, [4]int{}, 0},
		{"a namespace that nobody selects", func() { namespace("new", "yellow") }, [4]int{}, 0},
		{"its end", func() { w.deleteNamespace("new") }, [4]int{}, 0},
		{"a namespace that one selects", func() { namespace("new", "green") }, [4]int{0, 1}, 0},
		{"the same again", func() { namespace("new", "green") }, [4]int{}, 0},
		{"its end", func() { w.deleteNamespace("new") }, [4]int{0, 1}, 0},
		{"one pod's own", func() { namespace("b", "yellow") }, [4]int{0, 0, 0, 1}, 0},
		{"one pod's own, which another selects", func() { namespace("b", "green") }, [4]int{0, 1, 0, 1}, 0},
		{"more than are named", func() {
			for i := range quickaffinity.MaxNews + 1 {
				namespace(fmt.Sprint("many-", i), "yellow")
			}
		}, [4]int{}, 1},
	} {
		c.do()
		listed := b.ours.Listed()
		var again [4]int
		for i, pod := range pods {
			_, _, before := b.ours.Costs()
			w.prepare(b, pod)
			_, _, after := b.ours.Costs()
			again[i] = after - before
		}
		if again != c.again || b.ours.Listed()-listed != c.listed {
			t.Errorf("%s: all pods were counted %v times, not %v; namespaces listed %d times, not %d", c.what, again,
				c.again, b.ours.Listed()-listed, c.listed)
		}
	}
}

// When a configuration comes that has other plugins made, those that were are told nothing more.
func TestItIsToldOfNamespacesWhileItIsInUse(t *testing.T) {
	w := zonedWorld(t, 1)
	ctx, end := context.WithCancel(w.ctx)
	w.ctx = ctx
	newBoth(t, w, config.InterPodAffinityArgs{})
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

// Kinds of pods, and values of labels, that are gone do not stay for ever.
func TestKindsAndDomainsThatAreGoneAreForgotten(t *testing.T) {
	w := zonedWorld(t, 0)
	b := newBoth(t, w, config.InterPodAffinityArgs{})
	const each = 100
	for round := range 40 {
		w.nodes = nil
		w.version++
		for i := range each {
			name := fmt.Sprint(round, "-", i)
			w.nodes = append(w.nodes, zonedNode(name, 0))
			w.place(i, appPod(name, name))
		}
		w.prepare(b, appPod("p", "web"))
		const most = 3*each + quickaffinity.Slack
		if kinds, values := b.ours.Kinds(); kinds > most || values > most+1 {
			t.Fatalf("round %d: there are %d kinds and %d values", round, kinds, values)
		}
	}
}

// Filter and Score allocate nothing, whatever they say.
func TestFilterAndScoreAllocateNothing(t *testing.T) {
	w := zonedWorld(t, 20)
	b := newBoth(t, w, config.InterPodAffinityArgs{})
	w.place(0, appPod("1", "web"))
	w.nodes[5].Node().Labels = nil
	w.shown = w.nodes
	state, pod := framework.NewCycleState(), appPod("p", "web")
	b.ours.PreFilter(quiet(), state, pod, w.nodes)
	if status := b.ours.PreScore(quiet(), state, pod, w.nodes); !status.IsSuccess() {
		t.Fatal(status)
	}
	ctx, refused, sum := quiet(), 0, int64(0)
	if n := testing.AllocsPerRun(10, func() {
		for _, node := range w.nodes {
			if !b.ours.Filter(ctx, state, pod, node).IsSuccess() {
				refused++
			}
			score, _ := b.ours.Score(ctx, state, pod, node)
			sum += score
		}
	}); n != 0 {
		t.Errorf("Filter and Score of 20 nodes allocate %v times", n)
	}
	if refused == 0 || sum == 0 {
		t.Errorf("%d nodes are refused, and the scores add up to %d", refused, sum)
	}
}
