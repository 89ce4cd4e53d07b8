package devices

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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

// Devices that a pod requests by an extended resource that is a name for a DeviceClass, on a node without that resource
// in its allocatable. The DynamicResources plugin allocates them to a claim that exists in memory only. The Decision
// has the claim's requests and devices, and the bind of the pod creates it.

// RequestsExtended reports whether the pod requests an extended resource that is a name for a DeviceClass; for plugins.
func RequestsExtended(m fwk.SharedDRAManager, pod *v1.Pod) bool {
	d := StateOf(m)
	return d != nil && d.RequestsExtended(pod)
}

// RequestsExtended reports whether the pod requests an extended resource that is a name for a DeviceClass.
func (d *State) RequestsExtended(pod *v1.Pod) bool {
	found := false
	d.classes.eachOf(pod, func(int, v1.ResourceName, int64) { found = true })
	return found
}

// ClassesOf returns the names of the DeviceClasses for which resources stand that the pod requests, sorted; for
// plugins.
func ClassesOf(m fwk.SharedDRAManager, pod *v1.Pod) (classes []string) {
	if d := StateOf(m); d != nil {
		d.classes.eachOf(pod, func(_ int, name v1.ResourceName, _ int64) {
			classes = append(classes, d.classes.GetDeviceClass(name).Name)
		})
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// Stands reports whether the resource is a name for a DeviceClass: a node that has none of it in its allocatable may
// have it as devices. A nil d knows no classes.
func (d *State) Stands(name v1.ResourceName) bool { return d != nil && d.classes.stands(name) }

// stands reports whether the resource is a name for a DeviceClass.
func (c *deviceClasses) stands(name v1.ResourceName) bool {
	if c.named[string(name)] == 0 && !strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
		return false
	}
	return schedutil.IsDRAExtendedResourceName(name) && c.GetDeviceClass(name) != nil
}

// eachOf calls f for the request of each container for each resource that is a name for a DeviceClass. The order is by
// containers, init containers first, and then by names.
func (c *deviceClasses) eachOf(pod *v1.Pod, f func(container int, resource v1.ResourceName, amount int64)) {
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

// LeftClaims returns the claims that were made for the extended resources of a pod without a node, by name. It leaves
// out claims that a bind of the pod may be about to use.
func (d *State) LeftClaims(pod types.UID) (left []*resourcev1.ResourceClaim) {
	if p, ok := d.cluster.Pod(pod); !ok || p.Waiting || p.Binding || p.Bound {
		return nil
	}
	found, err := d.claims.indexer.ByIndex(madeForIndex, string(pod))
	if err != nil {
		return nil
	}
	for _, obj := range found {
		if claim := obj.(*resourcev1.ResourceClaim); d.assumed[keyOf(claim)] == nil {
			left = append(left, claim)
		}
	}
	slices.SortFunc(left, func(a, b *resourcev1.ResourceClaim) int { return cmp.Compare(a.Name, b.Name) })
	return left
}

// DeleteAsRead returns options that delete a claim only as it was read. A bind may have changed it since, because the
// call may arrive late.
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

// madeClaim returns the claim that the bind of the pod is to create, with the devices that DynamicResources has
// reserved in the cycle of that number; nil if it needs none.
func (d *State) madeClaim(pod *v1.Pod, cycle uint64) *resourcev1.ResourceClaim {
	pending := d.claims.pendingFor(pod.UID)
	if pending == nil || len(pending.Spec.Devices.Requests) == 0 {
		return nil
	}
	claim := &resourcev1.ResourceClaim{Spec: pending.Spec}
	claim.Namespace, claim.Name = pod.Namespace, d.freeName(pod, cycle)
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
func (d *State) freeName(pod *v1.Pod, cycle uint64) string {
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
		if d.assumed[key] == nil && d.claim(key) == nil {
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

// assumeMade takes the devices of a claim that the bind of the pod makes. Plugins see no claim before it is logged.
func (d *State) assumeMade(uid types.UID, key types.NamespacedName, made *eventlog.DeviceClaim,
	requests []resourcev1.DeviceRequest, c *Changes) error {
	if d.assumed[key] != nil || d.claim(key) != nil {
		return fmt.Errorf("ResourceClaim %s is there already", key)
	}
	allocation, err := made.Result()
	if err != nil {
		return fmt.Errorf("ResourceClaim %s: %w", key, err)
	}
	devices, err := devicesIn(allocation)
	if err != nil {
		return fmt.Errorf("ResourceClaim %s: %w", key, err)
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	claim.Spec.Devices.Requests = requests
	assumed := &assumedClaim{logged: claim, allocation: allocation, text: made.Allocation, devices: devices, made: true}
	d.count(nil, assumed.seen(), c)
	d.assumed[key] = assumed
	d.hold(uid, key, assumed)
	return nil
}

// toBeMade is a claim that is not logged yet, with a UID that no claim has.
func (a *assumedClaim) toBeMade(key types.NamespacedName) *resourcev1.ResourceClaim {
	claim := a.seen()
	claim.UID = types.UID("to be made/" + key.String())
	return claim
}
