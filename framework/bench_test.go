package framework_test

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/rollcall-sched/rollcall/framework"
)

// BenchmarkPlace places a pod on empty nodes of 96 CPU and 8 GPU under the default profile, scoring all of
// them; "full" is a pod that no node has room for.
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
				ctx, state := framework.Quiet(context.Background()), framework.NewCycleState()
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
