package plugins

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// orderedLimits is NodeVolumeLimits with the same reasons in every run. If a node lacks several CSI drivers,
// kube-scheduler's plugin names any of them, because it iterates over a map. This one names the driver of the pod's
// first such volume.
type orderedLimits struct{ *nodevolumelimits.CSILimits }

// newOrderedLimits returns the factory of NodeVolumeLimits with such reasons.
func newOrderedLimits(factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		made, err := factory(ctx, args, h)
		if err != nil {
			return nil, err
		}
		limits, ok := made.(*nodevolumelimits.CSILimits)
		if !ok {
			return nil, fmt.Errorf("it is a %T: this binary was built with a Kubernetes version it does not know", made)
		}
		return &orderedLimits{limits}, nil
	}
}

// Filter implements fwk.FilterPlugin.
func (p *orderedLimits) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) *fwk.Status {
	status := p.CSILimits.Filter(ctx, state, pod, node)
	if len(pod.Spec.Volumes) < 2 || !isMissingDriver(status) {
		return status
	}
	// A pod with a single volume has one driver to name.
	alone := *pod
	for i := range pod.Spec.Volumes {
		alone.Spec.Volumes = pod.Spec.Volumes[i : i+1]
		if status := p.CSILimits.Filter(ctx, state, &alone, node); isMissingDriver(status) {
			return status
		}
	}
	return status
}

// isMissingDriver says whether a node is refused because it does not have a CSI driver.
func isMissingDriver(status *fwk.Status) bool {
	return status.Code() == fwk.Unschedulable &&
		strings.HasSuffix(status.Message(), " CSI driver is not installed on the node")
}
