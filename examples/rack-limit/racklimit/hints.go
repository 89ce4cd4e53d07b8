package racklimit

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// EventsToRegister returns the events that may make a pod schedulable that the plugin refused. Without it the
// scheduler would retry the pod after every event.
func (p *RackLimit) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete | fwk.UpdatePodLabel},
			QueueingHintFn: p.afterPod,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel},
			QueueingHintFn: p.afterNode,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}},
	}, nil
}

// afterPod says whether a pod on a node, which is gone or has other labels now, left room for one of its app.
func (p *RackLimit) afterPod(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	was, ok := before.(*v1.Pod)
	if !ok {
		return fwk.Queue, fmt.Errorf("%T is no pod", before)
	}
	is, _ := after.(*v1.Pod)
	if p.sameApp(pod, was) && (is == nil || !p.sameApp(pod, is)) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// afterNode says whether a node that is new, or has other labels now, is in a rack that it was not in.
func (p *RackLimit) afterNode(_ klog.Logger, _ *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	is, ok := after.(*v1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("%T is no node", after)
	}
	rack := is.Labels[p.args.RackLabel]
	if was, _ := before.(*v1.Node); rack == "" || was != nil && was.Labels[p.args.RackLabel] == rack {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
