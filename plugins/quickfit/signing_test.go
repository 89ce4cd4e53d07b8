package quickfit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/quickfit"
)

// gpuHandle has a DeviceClass for nvidia.com/gpu.
type gpuHandle struct{ fwk.Handle }

func (gpuHandle) SharedDRAManager() fwk.SharedDRAManager { return gpuManager{} }

type gpuManager struct{ fwk.SharedDRAManager }

func (gpuManager) DeviceClassResolver() fwk.DeviceClassResolver { return gpuResolver{} }

type gpuResolver struct{}

func (gpuResolver) GetDeviceClass(name v1.ResourceName) *resourcev1.DeviceClass {
	if name == "nvidia.com/gpu" {
		return &resourcev1.DeviceClass{}
	}
	return nil
}

// If WouldSign returns true, upstream's plugin signs the pod. It does return true for a pod without resources of a
// DeviceClass.
func TestWhoWouldSignDoes(t *testing.T) {
	h, err := frameworkruntime.NewFramework(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	features := feature.Features{EnablePodLevelResources: true, EnableDRAExtendedResource: true}
	for _, args := range []runtime.Object{
		fitArgs(config.LeastAllocated, "cpu", "memory"), balancedArgs("cpu", "memory"),
	} {
		var factory frameworkruntime.PluginFactory = func(ctx context.Context, a runtime.Object,
			h fwk.Handle) (fwk.Plugin, error) {
			return noderesources.NewFit(ctx, a, h, features)
		}
		quick := quickfit.New
		if _, ok := args.(*config.NodeResourcesBalancedAllocationArgs); ok {
			quick = quickfit.NewBalanced
			factory = func(ctx context.Context, a runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				return noderesources.NewBalancedAllocation(ctx, a, h, features)
			}
		}
		theirs, err := factory(t.Context(), args, gpuHandle{h})
		if err != nil {
			t.Fatal(err)
		}
		ours, err := quick(factory)(t.Context(), args, gpuHandle{h})
		if err != nil {
			t.Fatal(err)
		}
		g, signed, refused := rand.New(rand.NewPCG(1, 3)), 0, 0
		for i := range 500 {
			p := pod(g, fmt.Sprint("p", i), 4)
			switch g.IntN(4) {
			case 0: // only as a whole
				p.Spec.Resources = &v1.ResourceRequirements{Requests: p.Spec.Containers[0].Resources.Requests}
			case 1: // only for the start
				p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, []v1.Container{{Name: "main"}}
			}
			_, status := theirs.(fwk.SignPlugin).SignPod(t.Context(), p)
			switch would := ours.(framework.QuickSigner).WouldSign(p); {
			case would && !status.IsSuccess():
				t.Fatalf("pod %+v is said to be signed, and upstream says %s", p.Spec, status.Message())
			case would:
				signed++
			case !status.IsSuccess():
				refused++
			}
		}
		if signed < 50 || refused < 50 {
			t.Errorf("%T: %d pods were signed, %d refused", args, signed, refused)
		}
	}
}
