package sim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Planned changes of pods.

// podChanges carries out a planned change of a pod. A pod that runs is resized in place if its node has room for that,
// and keeps all else.
func (c *Cluster) podChanges(i, k int32) ([]eventlog.Payload, error) {
	p, changed, name := &c.pods[i], c.work.Pods[i].Updates[k].Pod, c.name(i).Name
	if p.phase != running {
		p.template = changed
		return c.tellPod(i, name)
	}
	if equality.Semantic.DeepEqual(requestsOf(p.template), requestsOf(changed)) || !hasRoom(c, p.node, i, changed) {
		return nil, nil
	}
	c.account.Resized(p.template, changed)
	p.template = changed
	pod := c.build(i, name)
	pod.Spec.NodeName, pod.Status.Phase = p.node.object.Name, corev1.PodRunning
	c.devices.nameClaims(pod)
	return []eventlog.Payload{upserted(eventlog.Pods, pod)}, nil
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// hasRoom reports whether a node has room for a pod's new requests beside the other pods on it.
func hasRoom(c *Cluster, node *liveNode, i int32, changed *corev1.Pod) bool {
	free := node.object.Status.Allocatable.DeepCopy()
	take := func(requests corev1.ResourceList) {
		for name, amount := range requests {
			left := free[name]
			left.Sub(amount)
			free[name] = left
		}
	}
	take(requestsOf(changed))
	// any order: sums
	for other := range node.pods {
		if other != i {
			take(requestsOf(c.pods[other].template))
		}
	}
	for _, left := range free { // any order: one is enough
		if left.Sign() < 0 {
			return false
		}
	}
	return true
}
