package quickfit_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"

	"github.com/rollcall-sched/rollcall/plugins/quickfit"
)

// standing is a handle whose device manager maps every resource to a class. It has nothing else, so a request for
// claims or slices panics.
type standing struct{ fwk.Handle }

func (standing) SharedDRAManager() fwk.SharedDRAManager { return manager{} }

type manager struct{ fwk.SharedDRAManager }

func (manager) DeviceClassResolver() fwk.DeviceClassResolver { return resolver{} }

type resolver struct{}

func (resolver) GetDeviceClass(v1.ResourceName) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{}
}

// The scorer sees no resource that maps to devices and reads none, although its arguments name one. Filter does see it:
// a node without the resource has it as devices.
func TestDevicesAreFilteredAndNotScored(t *testing.T) {
	const gpu = "example.com/gpu"
	scored := []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: gpu, Weight: 1}}
	features := feature.Features{EnableDRAExtendedResource: true}
	made, err := quickfit.New(func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return noderesources.NewFit(ctx, args, h, features)
	})(t.Context(), &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{
		Type: config.LeastAllocated, Resources: scored}}, standing{})
	if err != nil {
		t.Fatal(err)
	}
	fit := made.(*quickfit.Fit)
	made, err = quickfit.NewBalanced(func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return noderesources.NewBalancedAllocation(ctx, args, h, features)
	})(t.Context(), &config.NodeResourcesBalancedAllocationArgs{Resources: scored}, standing{})
	if err != nil {
		t.Fatal(err)
	}
	balanced := made.(*quickfit.Balanced)
	pod := &v1.Pod{}
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), gpu: resource.MustParse("1")}}}}
	node, state := upstream.NewNodeInfo(), upstream.NewCycleState()
	node.SetNode(&v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("9")}}})
	if _, status := fit.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := fit.Filter(t.Context(), state, pod, node); !status.IsSuccess() {
		t.Errorf("a node that may have devices is refused: %v", status)
	}
	for _, status := range []*fwk.Status{fit.PreScore(t.Context(), state, pod, nil),
		balanced.PreScore(t.Context(), state, pod, nil)} {
		if !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	if score, status := fit.Score(t.Context(), state, pod, node); score != 75 || !status.IsSuccess() {
		t.Errorf("the score is %d, %v, want what is left of the cpu", score, status)
	}
	if _, status := balanced.Score(t.Context(), state, pod, node); !status.IsSuccess() {
		t.Error(status)
	}
}
