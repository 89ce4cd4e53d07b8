package quickspread_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/internal/plugintest"
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

// Filter allocates nothing, whatever it says.
func TestFilterAllocatesNothing(t *testing.T) {
	ours, nodes := newPair(newWorld(t, 0, 0)).Ours, zonedNodes(20)
	put(t, nodes[0], spreadPod("1", "web"))
	nodes[5].Node().Labels = nil
	state, pod := framework.NewCycleState(), spreadPod("p", "web")
	ours.PreFilter(plugintest.Context(), state, pod, nodes)
	ctx, said := plugintest.Context(), map[fwk.Code]int{}
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

// BenchmarkPod is PreFilter and Filter of all of 5,000 nodes with 10,000 pods on them, and the placement of the pod for
// which another one goes.
func BenchmarkPod(b *testing.B) {
	plugins := newPair(newWorld(b, 0, 0))
	for _, c := range []struct {
		name   string
		plugin interface {
			fwk.PreFilterPlugin
			fwk.FilterPlugin
		}
		key string
	}{
		{"zone/quick", plugins.Ours, v1.LabelTopologyZone},
		{"zone/upstream", plugins.Theirs, v1.LabelTopologyZone},
		{"hostname/quick", plugins.Ours, v1.LabelHostname},
		{"hostname/upstream", plugins.Theirs, v1.LabelHostname},
	} {
		b.Run(c.name, func(b *testing.B) {
			nodes := zonedNodes(5000)
			for i := range 10_000 {
				put(b, nodes[i%len(nodes)], spreadPod(fmt.Sprint(i), "web"))
			}
			ctx, pod := plugintest.Context(), spreadPod("p", "web")
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
