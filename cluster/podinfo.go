package cluster

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// recentPlain is the number of different requests that are compared with the requests of a new pod.
const recentPlain = 32

// plainPods are pods of which one requests what a pod that comes may well request too: the last ones that requested
// something else than those before them. A memo.
type plainPods struct {
	infos [recentPlain]*framework.PodInfo
	next  int // where the next one goes, over the oldest
	last  int // where the one was found that was found last
}

// isPlain reports whether NewPodInfo's results for the pod depend on its containers' requests alone. Such a pod has no
// affinity, no init containers, no overhead, and no resources or claims as a whole or in its status.
func isPlain(pod *v1.Pod) bool {
	spec, status := &pod.Spec, &pod.Status
	return spec.Affinity == nil && len(spec.InitContainers) == 0 && len(spec.Overhead) == 0 && spec.Resources == nil &&
		len(spec.ResourceClaims) == 0 &&
		len(status.ContainerStatuses) == 0 && len(status.InitContainerStatuses) == 0 && len(status.Conditions) == 0 &&
		status.Resize == "" && status.Resources == nil && len(status.AllocatedResources) == 0 &&
		status.ExtendedResourceClaimStatus == nil &&
		len(status.NodeAllocatableResourceClaimStatuses) == 0
}

// sameRequests compares plain pods, container by container.
func sameRequests(a, b *v1.Pod) bool {
	if len(a.Spec.Containers) != len(b.Spec.Containers) {
		return false
	}
	for i := range a.Spec.Containers {
		ra, rb := a.Spec.Containers[i].Resources.Requests, b.Spec.Containers[i].Resources.Requests
		if len(ra) != len(rb) {
			return false
		}
		// any order: all must be equal
		for name, amount := range ra {
			if other, ok := rb[name]; !ok || amount.Cmp(other) != 0 {
				return false
			}
		}
	}
	return true
}
