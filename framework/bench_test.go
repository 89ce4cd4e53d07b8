package framework_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/rollcall-sched/rollcall/framework"
)

// BenchmarkPlace places a pod on empty nodes of 96 CPU and 8 GPU under the default profile, which scores all of them.
// The pod of "full" fits no node.
func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		p := newPair(b, comparedConfigs["default"])
		var nodes []*v1.Node
		for i := range n {
			name := fmt.Sprintf("node-%05d", i)
			nodes = append(nodes, &v1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
				Status: v1.NodeStatus{Allocatable: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("96"), v1.ResourceMemory: resource.MustParse("768Gi"),
					v1.ResourcePods: resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8"),
				}},
			})
		}
		p.world.SharedLister = cache.NewSnapshot(nil, nodes)
		for name, requests := range map[string]v1.ResourceList{
			"cpu":  {v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: resource.MustParse("64Gi")},
			"gpu":  {v1.ResourceCPU: resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("1")},
			"full": {v1.ResourceCPU: resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("9")},
		} {
			pod := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"},
				Spec: v1.PodSpec{
					Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests}}},
				},
			}
			b.Run(fmt.Sprintf("%s/nodes=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				ctx, state := framework.WithoutLogger(context.Background()), framework.NewCycleState()
				for b.Loop() {
					state.Reset()
					if got := p.ours.Place(ctx, state, pod, 0, nil); got.Status.IsError() ||
						(got.Node != "") != (name != "full") {
						b.Fatal(got)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
			})
		}
	}
}

// BenchmarkPlaceLikeNoOther places pods with distinct requests on 5,000 nodes of 96 CPU. The cases: all nodes have
// room, one in fifty has, and none has.
func BenchmarkPlaceLikeNoOther(b *testing.B) {
	const full = 0
	for name, roomy := range map[string]int{"room": 1, "nearly full": 50, "full": full} {
		b.Run(name, func(b *testing.B) {
			g := &generator{rand.New(rand.NewPCG(1, 2))}
			w := &memoWorld{t: b, g: g, config: comparedConfigs["default"], nodes: 5000}
			w.node = func(name string) *v1.Node {
				return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{
					Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("96"),
						v1.ResourceMemory: resource.MustParse("768Gi"), v1.ResourcePods: resource.MustParse("110")}}}
			}
			pod := func(i int, cpu int64) *v1.Pod {
				p := &v1.Pod{}
				p.Namespace, p.Name, p.UID = "ns", fmt.Sprint("p", i), types.UID(fmt.Sprint(i))
				p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
					v1.ResourceMemory: *resource.NewQuantity(1<<30+int64(i), resource.BinarySI)}}}}
				return p
			}
			w.begin()
			for at := range w.nodes {
				if roomy == full || at%roomy != 0 {
					w.assume(pod(1_000_000+at, 95_500), fmt.Sprintf("node-%02d", at))
				}
			}
			found, i := 0, 0
			for b.Loop() {
				i++
				p := pod(i, 1000+int64(i%4000))
				if placed := w.with.Place(w.ctx, framework.NewCycleState(), p, 0, nil); placed.Node != "" {
					found++
					w.assume(p, placed.Node)
				}
			}
			if roomy == full && found > 0 || roomy != full && found < i/2 {
				b.Fatalf("of %d pods %d were placed", i, found)
			}
			b.ReportMetric(float64(w.with.Ranked())/float64(i), "nodes/op")
		})
	}
}
