package coscheduling

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// EventsToRegister implements fwk.EnqueueExtensions: what may end a refusal of this plugin. Members that come,
// go or are ungated are not among it: the queue looks at their own gang again, and at no other.
func (c *Coscheduling) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	on := func(r fwk.EventResource, a fwk.ActionType, hint fwk.QueueingHintFn) fwk.ClusterEventWithHint {
		return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: r, ActionType: a}, QueueingHintFn: hint}
	}
	return []fwk.ClusterEventWithHint{
		on(fwk.PodGroup, fwk.Add|fwk.Update, c.groupChanged),
		on(fwk.AssignedPod, fwk.Delete|fwk.UpdatePodScaleDown, c.roomMade),
		on(fwk.TargetPod, fwk.UpdatePodScaleDown, c.roomMade),
		on(fwk.Node, fwk.Add|fwk.UpdateNodeAllocatable|fwk.UpdateNodeLabel|fwk.UpdateNodeTaint, c.roomMade),
	}, nil
}

// groupChanged: the pod's own PodGroup came or changed.
func (c *Coscheduling) groupChanged(_ klog.Logger, pod *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	obj, ok := newObj.(metav1.Object)
	if !ok {
		return fwk.Queue, nil
	}
	g := c.groups.GroupOf(pod)
	if g != nil && g.Namespace == obj.GetNamespace() && g.Name == obj.GetName() {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// roomMade: capacity came free. Whether it is enough for the gang is checked when the gang comes to the head of the
// queue, and not at every event: see Room in package queue.
func (c *Coscheduling) roomMade(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	if c.groups.GroupOf(pod) == nil && c.args.QueuePolicy != Backfill {
		return fwk.QueueSkip, nil // only a reservation is a matter of this plugin to a pod of no gang
	}
	return fwk.Queue, nil
}
