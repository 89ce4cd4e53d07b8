package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Rate filters and scores every node for a pod, to say how good each one is. Unlike Profile.Place, it
// tries all nodes, whatever percentage the profile asks for. It does not prefer the node that the pod is nominated to.
// Reservations and HTTP extenders have no say, and neither has PreFilter of the plugin without.
//
// The trace has the result. It must not be nil. state must be empty; afterwards it belongs to the pod's cycle.
func Rate(
	ctx context.Context, p *Profile, state fwk.CycleState, pod *v1.Pod, without string, trace *Trace,
) Placement {
	if pod.Status.NominatedNodeName != "" {
		other := *pod
		other.Status.NominatedNodeName = ""
		pod = &other
	}
	c := &p.search
	c.setPod(ctx, state, pod, trace)
	c.reserved, c.exempt = nil, exempt{plugin: without, sample: true}
	defer func() { c.exempt = exempt{} }()
	trace.begin()
	return c.place(0)
}
