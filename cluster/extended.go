package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// Devices that a pod requests by the name of an extended resource which stands for a DeviceClass, on a node that has
// none of it in its allocatable. The DynamicResources plugin allocates them to a claim that exists in memory only. The
// Decision has its requests and its devices, and the bind of the pod makes it.

// StandsForDevices reports whether the pod requests an extended resource that stands for a DeviceClass. It is false
// before behaviour 8.
func (f *Informers) StandsForDevices(pod *v1.Pod) bool { return f.dra.classes.anyOf(pod) }

// StandsForDevices is the method of Informers, for plugins.
func StandsForDevices(m fwk.SharedDRAManager, pod *v1.Pod) bool {
	ours, ok := m.(*draManager)
	return ok && ours.classes.anyOf(pod)
}

// ClassesOf returns the names of the DeviceClasses for which resources stand that the pod requests, sorted; for
// plugins.
func ClassesOf(m fwk.SharedDRAManager, pod *v1.Pod) (classes []string) {
	if ours, ok := m.(*draManager); ok {
		ours.classes.eachOf(pod, func(_ int, name v1.ResourceName, _ int64) {
			classes = append(classes, ours.classes.GetDeviceClass(name).Name)
		})
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// StandsForDevices reports whether the resource stands for a DeviceClass: a node that has none of it in its allocatable
// may have it as devices. It is false before behaviour 8.
func (s *State) StandsForDevices(name v1.ResourceName) bool {
	return s.informers.dra.classes.stands(name)
}

// stands reports whether the resource stands for a DeviceClass. A nil c is of no state.
func (c *deviceClasses) stands(name v1.ResourceName) bool {
	if c == nil || !c.makesClaims || c.named[string(name)] == 0 &&
		!strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
		return false
	}
	return schedutil.IsDRAExtendedResourceName(name) && c.GetDeviceClass(name) != nil
}

func (c *deviceClasses) anyOf(pod *v1.Pod) bool {
	found := false
	c.eachOf(pod, func(int, v1.ResourceName, int64) { found = true })
	return found
}

// eachOf calls f for what each container of the pod requests of each resource that stands for a DeviceClass, in the
// order of the containers, init containers first, and of the names.
func (c *deviceClasses) eachOf(pod *v1.Pod, f func(container int, resource v1.ResourceName, amount int64)) {
	if !c.makesClaims {
		return
	}
	at := 0
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			var names []v1.ResourceName
			// any order: sorted right below
			for name, amount := range containers[i].Resources.Requests {
				if !amount.IsZero() && c.stands(name) {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			for _, name := range names {
				amount := containers[i].Resources.Requests[name]
				f(at, name, amount.Value())
			}
			at++
		}
	}
}

// plenty is more than pods request of anything.
const plenty = 1 << 61

// AmountOn is what a node has of a resource, and how much of it its pods request. Of a resource that stands for a
// DeviceClass, a node without it in its allocatable has more than anybody requests: how many devices are free there
// only the allocator can tell.
func (s *State) AmountOn(info fwk.NodeInfo, name v1.ResourceName) (allocatable, requested int64) {
	allocatable, requested = AmountOn(info, name)
	if allocatable == 0 && s.informers.dra.classes.stands(name) {
		return plenty, 0
	}
	return allocatable, requested
}

// isMade reports whether the claim was made for extended resources.
func isMade(claim *resourcev1.ResourceClaim) bool {
	return claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true"
}

// MadeFor reports whether the claim was made for the extended resources of the pod.
func MadeFor(claim *resourcev1.ResourceClaim, uid types.UID) bool {
	owner := metav1.GetControllerOfNoCopy(claim)
	return isMade(claim) && owner != nil && owner.UID == uid
}

// madeForIndex finds the claims that were made for extended resources by the UID of the pod.
const madeForIndex = "rollcall.dev/made-for"

func madeForWhom(obj any) ([]string, error) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok || !isMade(claim) {
		return nil, nil
	}
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

// LeftClaims returns the claims that were made for the extended resources of a pod that has no node, by name, but for
// those that a bind of the pod may be about to use. There are none before behaviour 8.
func (s *State) LeftClaims(pod types.UID) (left []*resourcev1.ResourceClaim) {
	if p := s.pods[pod]; p == nil || p.Stage != Pending || !s.informers.dra.classes.makesClaims {
		return nil
	}
	found, err := s.informers.factory.Resource().V1().ResourceClaims().Informer().GetIndexer().ByIndex(madeForIndex,
		string(pod))
	if err != nil {
		return nil
	}
	for _, obj := range found {
		if claim := obj.(*resourcev1.ResourceClaim); s.informers.devices[keyOf(claim)] == nil {
			left = append(left, claim)
		}
	}
	slices.SortFunc(left, func(a, b *resourcev1.ResourceClaim) int { return cmp.Compare(a.Name, b.Name) })
	return left
}

// DeleteAsRead are the options by which a claim that was made for a pod is deleted as it was read, and not as a bind
// has changed it since: the call may land late.
func DeleteAsRead(claim *resourcev1.ResourceClaim) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: &claim.UID, ResourceVersion: &claim.ResourceVersion,
	}}
}

// ClaimToMake returns the claim that the bind of a pod makes, without its allocation.
func ClaimToMake(pod *v1.Pod, name string, requests []resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	controller := true
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: name,
		Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &controller},
		},
	}}
	claim.Spec.Devices.Requests = requests
	return claim
}

// madeClaim returns what the claim is that the bind of the pod is to make, by what DynamicResources has reserved in the
// cycle of that number; nil if it needs none.
func (f *Informers) madeClaim(pod *v1.Pod, cycle uint64) *resourcev1.ResourceClaim {
	pending := f.dra.claims.pendingFor(pod.UID)
	if pending == nil || len(pending.Spec.Devices.Requests) == 0 {
		return nil
	}
	claim := &resourcev1.ResourceClaim{Spec: pending.Spec}
	claim.Namespace, claim.Name = pod.Namespace, f.freeName(pod, cycle)
	claim.Status.Allocation = pending.Status.Allocation.DeepCopy()
	nameShares(types.UID(claim.Name+"/"+string(pod.UID)), claim.Status.Allocation)
	return claim
}

// pendingFor returns the claim for extended resources that is pending for the pod in this cycle, nil for none.
func (t *claimTracker) pendingFor(uid types.UID) *resourcev1.ResourceClaim {
	t.mu.Lock()
	defer t.mu.Unlock()
	// any order: a pod has one at the most
	for _, p := range t.pending {
		if p.claim != nil && p.claim.Status.Allocation != nil && MadeFor(p.claim, uid) {
			return p.claim
		}
	}
	return nil
}

// Names of made claims are such as the API server would generate for kube-scheduler's claims, but follow from the pod
// and the cycle: what an earlier process has made is found again.
const (
	suffixLetters = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength  = 5
	longestBase   = 63 - suffixLength
)

// freeName returns the name of a claim that is to be made, which no other claim has.
func (f *Informers) freeName(pod *v1.Pod, cycle uint64) string {
	base := pod.Name + "-extended-resources-"
	base = base[:min(len(base), longestBase)]
	for n := uint64(0); ; n++ {
		seed := canonical.AppendString(nil, string(pod.UID))
		sum := sha256.Sum256(binary.AppendUvarint(binary.AppendUvarint(seed, cycle), n))
		name := []byte(base)
		for _, b := range sum[:suffixLength] {
			name = append(name, suffixLetters[int(b)%len(suffixLetters)])
		}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: string(name)}
		if f.devices[key] == nil && f.Get(eventlog.ResourceClaims, key.Namespace, key.Name) == nil {
			return key.Name
		}
	}
}

// requestsToMake returns the requests of a claim that is to be made, nil for another one, which has a UID.
func requestsToMake(c *eventlog.DeviceClaim) ([]resourcev1.DeviceRequest, error) {
	if c.UID != "" {
		return nil, nil
	}
	return c.Requests()
}

// devicesIn is the encoding of an allocation alone.
func devicesIn(allocation *resourcev1.AllocationResult) (string, error) {
	claim := &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: allocation}}
	alone, err := eventlog.NewDeviceClaim(claim)
	return alone.Allocation, err
}

// assumeMade has the devices of a claim that the bind of the pod makes be in use. Plugins see no claim before it is
// logged.
func (f *Informers) assumeMade(uid types.UID, key types.NamespacedName, c *eventlog.DeviceClaim,
	requests []resourcev1.DeviceRequest) error {
	if f.devices[key] != nil || f.Get(eventlog.ResourceClaims, key.Namespace, key.Name) != nil {
		return fmt.Errorf("ResourceClaim %s is there already", key)
	}
	allocation, err := c.Result()
	if err != nil {
		return fmt.Errorf("ResourceClaim %s: %w", key, err)
	}
	devices, err := devicesIn(allocation)
	if err != nil {
		return fmt.Errorf("ResourceClaim %s: %w", key, err)
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	claim.Spec.Devices.Requests = requests
	assumed := &assumedDevices{logged: claim, allocation: allocation, text: c.Allocation, devices: devices, made: true}
	f.dra.claims.count(nil, assumed.seen())
	f.devices[key] = assumed
	f.holdDevices(uid, key, assumed)
	return nil
}

// toBeMade is a claim that is not logged yet, with a UID that no claim has.
func (a *assumedDevices) toBeMade(key types.NamespacedName) *resourcev1.ResourceClaim {
	claim := a.seen()
	claim.UID = types.UID("to be made/" + key.String())
	return claim
}

// ClaimFor returns the claim that the bind of a pod on the node would make for what its containers request as extended
// resources, with a UID that no other claim has; nil if it would make none; for plugins. It has the requests that
// createRequestsAndMappings of kube-scheduler 1.37 finds (extendeddynamicresources.go of dynamicresources).
func ClaimFor(m fwk.SharedDRAManager, pod *v1.Pod, node fwk.NodeInfo) *resourcev1.ResourceClaim {
	ours, ok := m.(*draManager)
	if !ok {
		return nil
	}
	containers, inits := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), len(pod.Spec.InitContainers)
	byResource := map[v1.ResourceName][]ownRequest{}
	ours.classes.eachOf(pod, func(at int, resource v1.ResourceName, amount int64) {
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
		class := ours.classes.GetDeviceClass(resource).Name
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

// needed returns the requests that a claim needs for a resource, of what the containers want of it: those of the
// containers that stay, and of those that end early the one that needs most beside what later containers have.
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

// RequestMappings says which requests of the claim that is made for a pod each of its containers may use, as
// createRequestsAndMappings of kube-scheduler 1.37 does (extendeddynamicresources.go of dynamicresources). An init
// container that ends before the others start uses what they have, and a request of its own for what it needs more;
// of those requests the claim has the greatest.
//
// It is an error if the requests are not for what the pod's containers request: the pod was changed since.
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

// ownRequest is a request of a made claim: that of a container for a resource.
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

// mappingsOf returns the mappings for a resource: of the containers that stay, then of those that end early.
func mappingsOf(containers []v1.Container, inits int, resource v1.ResourceName,
	requests []ownRequest) (mappings []v1.ContainerExtendedResourceRequest) {
	var stay []ownRequest
	early := "" // the request for those that end early
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
