package quickfit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/plugins/quickfit"
)

var resources = []v1.ResourceName{
	v1.ResourceCPU,
	v1.ResourceMemory,
	v1.ResourceEphemeralStorage,
	"nvidia.com/gpu",
	"example.com/fpga",
	"hugepages-2Mi",
}

func amounts(g *rand.Rand, most int64) v1.ResourceList {
	list := v1.ResourceList{}
	for _, name := range resources {
		if g.IntN(3) > 0 {
			list[name] = *resource.NewQuantity(g.Int64N(most), resource.DecimalSI)
		}
	}
	return list
}

func pod(g *rand.Rand, name string, most int64) *v1.Pod {
	p := &v1.Pod{}
	p.Namespace, p.Name, p.UID = "ns", name, types.UID(name)
	for i := range 1 + g.IntN(2) {
		p.Spec.Containers = append(
			p.Spec.Containers,
			v1.Container{Name: fmt.Sprint(i), Resources: v1.ResourceRequirements{Requests: amounts(g, most)}},
		)
	}
	if g.IntN(4) == 0 {
		p.Spec.Overhead = amounts(g, 3)
	}
	return p
}

// The plugin gives the same answers about a node as upstream's.
func TestItAnswersAsUpstreamDoes(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	args := &config.NodeResourcesFitArgs{
		IgnoredResources: []string{"example.com/fpga"},
		ScoringStrategy: &config.ScoringStrategy{
			Type:      config.LeastAllocated,
			Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}},
		},
	}
	fit := func(ctx context.Context, a runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return noderesources.NewFit(ctx, a, h, feature.Features{EnablePodLevelResources: true})
	}
	var factory frameworkruntime.PluginFactory = fit
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := factory(t.Context(), args, handle)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := quickfit.New(factory)(t.Context(), args, handle)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	const tries = 5000
	for try := range tries {
		node := &v1.Node{}
		node.Name = "n"
		node.Status.Allocatable = amounts(g, 30)
		node.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(g.Int64N(5), resource.DecimalSI)
		info := upstream.NewNodeInfo()
		info.SetNode(node)
		for i := range g.IntN(3) {
			other, err := upstream.NewPodInfo(pod(g, fmt.Sprint("other-", i), 6))
			if err != nil {
				t.Fatal(err)
			}
			info.AddPodInfo(other)
		}
		p := pod(g, "p", 1+g.Int64N(8))
		answers := make([][]string, 2)
		for i, plugin := range []fwk.Plugin{ours, theirs} {
			state := upstream.NewCycleState()
			plugin.(fwk.PreFilterPlugin).PreFilter(t.Context(), state, p, nil)
			status := plugin.(fwk.FilterPlugin).Filter(t.Context(), state, p, info)
			if !status.IsSuccess() {
				answers[i] = slices.Sorted(slices.Values(status.Reasons()))
			}
			answers[i] = append(answers[i], status.Code().String())
		}
		if !reflect.DeepEqual(answers[0], answers[1]) {
			t.Fatalf("try %d: %v, and upstream %v; pod %+v, node %+v", try, answers[0], answers[1], p.Spec, node.Status)
		}
		if answers[0][len(answers[0])-1] != "Success" {
			refused++
		}
	}
	if refused < tries/10 || refused > tries*9/10 {
		t.Errorf("of %d nodes %d were refused", tries, refused)
	}
}
