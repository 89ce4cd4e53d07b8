package rackports

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// The binding cycle begins when the decision is durable. It runs beside the scheduling cycles of other pods: it may
// wait, and the handle's client works in it. It may begin again after a restart, so what it does is done so that twice
// is as good as once.

func (p *RackPorts) portOf(pod *v1.Pod) (port, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	has, ok := p.ports[pod.UID]
	return has, ok
}

// PreBindPreFlight leaves out pods without a port.
func (p *RackPorts) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (
	*fwk.PreBindPreFlightResult, *fwk.Status) {
	if !asks(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind would configure the switch. After an error here the scheduler unreserves the pod, and tries it again.
func (p *RackPorts) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if _, ok := p.portOf(pod); !ok {
		return fwk.AsStatus(errors.New("the pod's port was given back before it was bound"))
	}
	return nil
}

// PostBind is called for pods that are bound.
func (p *RackPorts) PostBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) {
	if has, ok := p.portOf(pod); ok {
		klog.FromContext(ctx).V(2).Info("The pod has its port", "pod", klog.KObj(pod), "node", nodeName,
			"rack", has.Rack, "port", has.Number)
	}
}
