package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// ClaimFor returns the claim that the bind of a pod on the node would create for its containers' extended resources,
// with a UID that no other claim has. It is nil if the bind would create none. It is for plugins. It has the requests
// that createRequestsAndMappings of kube-scheduler 1.37 finds (extendeddynamicresources.go of dynamicresources).
func ClaimFor(m fwk.SharedDRAManager, pod *v1.Pod, node fwk.NodeInfo) *resourcev1.ResourceClaim {
	d := StateOf(m)
	if d == nil {
		return nil
	}
	containers, inits := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), len(pod.Spec.InitContainers)
	byResource := map[v1.ResourceName][]ownRequest{}
	d.classes.eachOf(pod, func(at int, resource v1.ResourceName, amount int64) {
		if node.GetAllocatable().GetScalarResources()[resource] > 0 {
			return // a device plugin has it
		}
		names := slices.Sorted(maps.Keys(containers[at].Resources.Requests))
		byResource[resource] = append(byResource[resource], ownRequest{
			container: at, count: amount, ends: endsEarly(containers, at, inits),
			name: fmt.Sprintf("container-%d-request-%d", at, slices.Index(names, resource)),
		})
	})
	var requests []resourcev1.DeviceRequest
	for _, resource := range slices.Sorted(maps.Keys(byResource)) {
		class := d.classes.GetDeviceClass(resource).Name
		for _, own := range needed(byResource[resource]) {
			exactly := &resourcev1.ExactDeviceRequest{DeviceClassName: class, Count: own.count,
				AllocationMode: resourcev1.DeviceAllocationModeExactCount}
			requests = append(requests, resourcev1.DeviceRequest{Name: own.name, Exactly: exactly})
		}
	}
	if len(requests) == 0 {
		return nil
	}
	slices.SortFunc(requests, func(a, b resourcev1.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	claim := ClaimToMake(pod, "made", requests)
	claim.UID = types.UID("would be made/" + string(pod.UID))
	return claim
}

// needed returns the requests that a claim needs for a resource. It includes the requests of the containers that stay.
// From the containers that end early, it includes the one that needs most beside the devices of later containers.
func needed(wants []ownRequest) (requests []ownRequest) {
	var most *ownRequest
	for i, want := range wants {
		if !want.ends {
			requests = append(requests, want)
			continue
		}
		for _, later := range wants[i+1:] {
			if !later.ends && want.count > 0 {
				want.count -= later.count
			}
		}
		if want.count > 0 && (most == nil || most.count < want.count) {
			most = &want
		}
	}
	if most != nil {
		requests = append(requests, *most)
	}
	return requests
}

// RequestMappings returns which requests of the claim that is made for a pod each of its containers may use, as
// createRequestsAndMappings of kube-scheduler 1.37 does (extendeddynamicresources.go of dynamicresources). An init
// container that ends before the others start uses their devices, and a request of its own if it needs more. The claim
// has the greatest of these requests.
//
// It fails if the requests do not match the pod's containers: the pod was changed since.
func RequestMappings(pod *v1.Pod,
	requests []resourcev1.DeviceRequest) (mappings []v1.ContainerExtendedResourceRequest, err error) {
	containers, inits := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), len(pod.Spec.InitContainers)
	byResource := map[v1.ResourceName][]ownRequest{}
	for i := range requests {
		own, resource, err := ownRequestOf(containers, &requests[i])
		if err != nil {
			return nil, err
		}
		own.ends = endsEarly(containers, own.container, inits)
		byResource[resource] = append(byResource[resource], own)
	}
	for _, resource := range slices.Sorted(maps.Keys(byResource)) {
		mappings = append(mappings, mappingsOf(containers, inits, resource, byResource[resource])...)
	}
	return mappings, nil
}

// ownRequest is a request of a made claim: a container's request for a resource.
type ownRequest struct {
	container int
	name      string
	count     int64
	// ends says that the container ends before others start.
	ends bool
}

// ownRequestOf returns for which container and resource a request is, by its name:
// container-CONTAINER-request-RESOURCE, both counted, the resources of the container by name.
func ownRequestOf(containers []v1.Container, r *resourcev1.DeviceRequest) (ownRequest, v1.ResourceName, error) {
	var container, at int
	if n, err := fmt.Sscanf(r.Name, "container-%d-request-%d", &container, &at); err != nil || n != 2 ||
		r.Exactly == nil || container < 0 || container >= len(containers) {
		return ownRequest{}, "", fmt.Errorf("request %s is of no container", r.Name)
	}
	wants := containers[container].Resources.Requests
	names := slices.Sorted(maps.Keys(wants))
	if at < 0 || at >= len(names) || !schedutil.IsDRAExtendedResourceName(names[at]) {
		return ownRequest{}, "", fmt.Errorf("request %s is of no extended resource of container %q", r.Name,
			containers[container].Name)
	}
	if amount := wants[names[at]]; amount.Value() < r.Exactly.Count {
		return ownRequest{}, "", fmt.Errorf("request %s is for %d devices, and container %q requests %s of %s", r.Name,
			r.Exactly.Count, containers[container].Name, amount.String(), names[at])
	}
	return ownRequest{container: container, name: r.Name, count: r.Exactly.Count}, names[at], nil
}

// endsEarly reports whether a container is an init container that ends before the next one starts.
func endsEarly(containers []v1.Container, at, inits int) bool {
	policy := containers[at].RestartPolicy
	return at < inits && (policy == nil || *policy != v1.ContainerRestartPolicyAlways)
}

// mappingsOf returns the mappings for a resource: first for the containers that stay, then for the ones that end early.
func mappingsOf(containers []v1.Container, inits int, resource v1.ResourceName,
	requests []ownRequest) (mappings []v1.ContainerExtendedResourceRequest) {
	var stay []ownRequest
	early := "" // the request for the containers that end early
	for _, r := range requests {
		if r.ends {
			early = r.name
		} else {
			stay = append(stay, r)
		}
	}
	slices.SortFunc(stay, func(a, b ownRequest) int { return cmp.Compare(a.container, b.container) })
	uses := func(at int, request string) {
		mappings = append(mappings, v1.ContainerExtendedResourceRequest{
			ContainerName: containers[at].Name, ResourceName: string(resource), RequestName: request,
		})
	}
	for _, r := range stay {
		uses(r.container, r.name)
	}
	for at := range containers {
		needs := containers[at].Resources.Requests[resource]
		left, ok := needs.AsInt64()
		if !endsEarly(containers, at, inits) || !ok || left <= 0 {
			continue
		}
		for _, r := range stay {
			if r.container >= at && left > 0 {
				uses(at, r.name)
				left -= r.count
			}
		}
		if left > 0 {
			uses(at, early)
		}
	}
	return mappings
}
