package quickspread_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/quickspread"
)

// spreadPod is a pod that is to be spread over zones with the others of its app.
func spreadPod(name, app string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a",
			Name:      name,
			UID:       types.UID(name),
			Labels:    map[string]string{"app": app},
		},
		Spec: v1.PodSpec{TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}}},
	}
}

// zonedNodes are nodes in ten zones.
func zonedNodes(n int) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, n)
	for i := range nodes {
		nodes[i] = zonedNode(fmt.Sprintf("node-%05d", i), i%10)
	}
	return nodes
}

func zonedNode(name string, zone int) *upstream.NodeInfo {
	info := upstream.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		v1.LabelHostname:           name,
		v1.LabelTopologyZone:       fmt.Sprint("zone-", zone),
		v1.LabelTopologyRegion:     "here",
		v1.LabelInstanceTypeStable: "large",
		v1.LabelOSStable:           "linux",
		v1.LabelArchStable:         "amd64",
	}}})
	return info
}

func put(tb testing.TB, node fwk.NodeInfo, pod *v1.Pod) {
	info, err := upstream.NewPodInfo(pod)
	if err != nil {
		tb.Fatal(err)
	}
	node.AddPodInfo(info)
}

// Only nodes that have changed are counted again, whatever becomes of the list of nodes.
func TestOnlyNodesThatChangedAreCountedAgain(t *testing.T) {
	ours, nodes := newBoth(t).ours, zonedNodes(1000)
	remove := func(at int) {
		if err := nodes[at].RemovePod(klog.FromContext(quiet()), nodes[at].GetPods()[0].GetPod()); err != nil {
			t.Fatal(err)
		}
	}
	app := "web"
	for _, c := range []struct {
		what   string
		do     func()
		counts int
	}{
		{"the first pod", func() {}, 1000},
		{"a pod like it", func() {}, 0},
		{"a placement", func() { put(t, nodes[7], spreadPod("1", app)) }, 1},
		{"two placements on one node", func() {
			put(t, nodes[8], spreadPod("2", app))
			put(t, nodes[8], spreadPod("3",
				app))
		}, 1},
		{"the end of a pod", func() { remove(7) }, 1},
		{"placements on three nodes", func() {
			for at := 500; at < 503; at++ {
				put(t, nodes[at], spreadPod("4", app))
			}
		}, 3},
		{"a node that comes first", func() { nodes = slices.Insert(nodes, 0, fwk.NodeInfo(zonedNode("a", 1))) }, 1},
		{"a node that goes", func() { nodes = slices.Delete(nodes, 0, 1) }, 0},
		{"the last node goes", func() { nodes = nodes[:999] }, 0},
		{"one comes and another goes", func() { nodes = append(nodes[1:], zonedNode("z", 1)) }, 1},
		{"copies of all nodes", func() {
			for i := range nodes {
				nodes[i] = nodes[i].Snapshot()
			}
		}, 0},
		{"another app", func() { app = "db" }, 999},
		{"the first again, after a placement", func() { app = "web"; put(t, nodes[0], spreadPod("5", app)) }, 1},
		{"the other again", func() { app = "db" }, 1},
	} {
		c.do()
		before := ours.Counted()
		if _, status := ours.PreFilter(
			quiet(),
			framework.NewCycleState(),
			spreadPod("p", app),
			nodes,
		); !status.IsSuccess() {
			t.Fatalf("%s: %v", c.what, status)
		}
		if n := ours.Counted() - before; n != c.counts {
			t.Errorf("%s: %d nodes were counted, not %d", c.what, n, c.counts)
		}
	}
}

// Filter allocates nothing, whatever it says.
func TestFilterAllocatesNothing(t *testing.T) {
	ours, nodes := newBoth(t).ours, zonedNodes(20)
	put(t, nodes[0], spreadPod("1", "web"))
	nodes[5].Node().Labels = nil
	state, pod := framework.NewCycleState(), spreadPod("p", "web")
	ours.PreFilter(quiet(), state, pod, nodes)
	ctx, said := quiet(), map[fwk.Code]int{}
	for _, node := range nodes {
		said[ours.Filter(ctx, state, pod, node).Code()]++
	}
	if said[fwk.Success] != 17 || said[fwk.Unschedulable] != 2 || said[fwk.UnschedulableAndUnresolvable] != 1 {
		t.Errorf("of the nodes was said: %v", said)
	}
	if n := testing.AllocsPerRun(10, func() {
		for _, node := range nodes {
			ours.Filter(ctx, state, pod, node)
		}
	}); n != 0 {
		t.Errorf("Filter of 20 nodes allocates %v times", n)
	}
}

// The memos are bounded: the one that was not used for longest goes.
func TestTheLeastRecentlyUsedMemoGoes(t *testing.T) {
	ours := newBoth(t).ours
	nodes := zonedNodes(10)
	ask := func(app string) (counted int) {
		before := ours.Counted()
		ours.PreFilter(quiet(), framework.NewCycleState(), spreadPod("p", app), nodes)
		return ours.Counted() - before
	}
	ask("always")
	const many = 1 << 20 // nodes, as the bound sees it
	for i := range 5 * quickspread.LeastMemos {
		if err := ours.Touch(spreadPod("p", fmt.Sprint("app-", i)), many); err != nil {
			t.Fatal(err)
		}
		if n := ask("always"); n != 0 {
			t.Fatalf("after %d others the memo in use was gone", i)
		}
	}
	if n := ours.Memos(); n != quickspread.LeastMemos {
		t.Errorf("there are %d memos", n)
	}
	if n := ask("app-0"); n == 0 {
		t.Error("the oldest memo is still there")
	}
}

// Domains that are gone do not stay for ever.
func TestDomainsThatAreGoneAreForgotten(t *testing.T) {
	ours := newBoth(t).ours
	pod := spreadPod("p", "web")
	pod.Spec.TopologySpreadConstraints[0].TopologyKey = v1.LabelHostname
	const each, rounds = 100, 50
	for round := range rounds {
		var nodes []fwk.NodeInfo
		for i := range each {
			nodes = append(nodes, zonedNode(fmt.Sprintf("node-%d-%d", round, i), 0))
		}
		ours.PreFilter(quiet(), framework.NewCycleState(), pod, nodes)
		if n := ours.Numbered(); n > 3*each+1024 {
			t.Fatalf("round %d: %d domains have numbers", round, n)
		}
	}
	if ours.Memos() != 1 {
		t.Errorf("there are %d memos", ours.Memos())
	}
}

// BenchmarkPod is PreFilter and Filter of all of 5,000 nodes with 10,000 pods on them, and the placement of the pod for
// which another one goes.
func BenchmarkPod(b *testing.B) {
	plugins := newBoth(b)
	for _, c := range []struct {
		name   string
		plugin interface {
			fwk.PreFilterPlugin
			fwk.FilterPlugin
		}
		key string
	}{
		{"zone/quick", plugins.ours, v1.LabelTopologyZone},
		{"zone/upstream", plugins.theirs, v1.LabelTopologyZone},
		{"hostname/quick", plugins.ours, v1.LabelHostname},
		{"hostname/upstream", plugins.theirs, v1.LabelHostname},
	} {
		b.Run(c.name, func(b *testing.B) {
			nodes := zonedNodes(5000)
			for i := range 10_000 {
				put(b, nodes[i%len(nodes)], spreadPod(fmt.Sprint(i), "web"))
			}
			ctx, pod := quiet(), spreadPod("p", "web")
			pod.Spec.TopologySpreadConstraints[0].TopologyKey = c.key
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				state := framework.NewCycleState()
				c.plugin.PreFilter(ctx, state, pod, nodes)
				for _, node := range nodes {
					c.plugin.Filter(ctx, state, pod, node)
				}
				node := nodes[i*7%len(nodes)]
				if err := node.RemovePod(klog.FromContext(ctx), node.GetPods()[0].GetPod()); err != nil {
					b.Fatal(err)
				}
				put(b, node, spreadPod(fmt.Sprint("new-", i), "web"))
			}
		})
	}
}
