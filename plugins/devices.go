package plugins

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// maxAllocationSteps is how many steps the search for a pod's devices on one node may take: many times what a claim of
// 32 devices takes that finds them. What claims ask for can make the search exponential. The time that CEL selectors
// take within a step is not counted: only Kubernetes' cost limit for each expression bounds it.
const maxAllocationSteps = 1 << 14

// boundedDevices is DynamicResources with a search that ends after so many steps. kube-scheduler ends it after a time
// on the wall clock (filterTimeout), which would make the decision depend on the machine.
type boundedDevices struct {
	*dynamicresources.DynamicResources
}

// newBoundedDevices returns the factory of DynamicResources with that bound; filterTimeout is off, whatever it is set
// to.
func newBoundedDevices(factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if a, ok := args.(*config.DynamicResourcesArgs); ok && a.FilterTimeout != nil {
			a = a.DeepCopy()
			a.FilterTimeout = &metav1.Duration{}
			args = a
		}
		made, err := factory(ctx, args, h)
		if err != nil {
			return nil, err
		}
		devices, ok := made.(*dynamicresources.DynamicResources)
		if !ok {
			return nil, fmt.Errorf("it is a %T: this binary was built with a Kubernetes version it does not know", made)
		}
		return &boundedDevices{devices}, nil
	}
}

// Filter implements fwk.FilterPlugin.
func (p *boundedDevices) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) *fwk.Status {
	if len(pod.Spec.ResourceClaims) == 0 {
		return p.DynamicResources.Filter(ctx, state, pod, node)
	}
	// The cause of a context is that of the one which it was made from: this one is made from none that can end.
	log := klog.NewContext(context.Background(), klog.FromContext(ctx))
	steps := &countedSteps{Context: log, left: maxAllocationSteps}
	return p.DynamicResources.Filter(steps, state, pod, node)
}

// countedSteps is a context that ends when it was asked so often whether it has: the allocator asks at each step. It is
// for one node, and so for one goroutine.
type countedSteps struct {
	context.Context
	left int
}

// Err implements context.Context.
func (c *countedSteps) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}
