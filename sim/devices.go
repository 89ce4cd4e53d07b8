package sim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// claimController plays the resource claim controller: it makes claims from ResourceClaimTemplates for pods, and frees
// the devices of a claim that has no users left. It also plays drivers: devices with binding conditions are ready as
// soon as they are reserved for a pod.
type claimController struct {
	templates map[types.NamespacedName]*resourcev1.ResourceClaimTemplate
	claims    map[types.NamespacedName]*resourcev1.ResourceClaim
	groups    groups
	// made are the claims that binds have made for pods.
	made map[types.UID]types.NamespacedName
	// next are claims under the name of one that is being deleted and has users: they wait for its end.
	next map[types.NamespacedName]*resourcev1.ResourceClaim
}

func newClaimController(work *workload.Workload, opts Options) claimController {
	return claimController{
		templates: work.ClaimTemplates,
		claims:    map[types.NamespacedName]*resourcev1.ResourceClaim{},
		groups:    newGroups(opts.GroupClaims),
		made:      map[types.UID]types.NamespacedName{},
		next:      map[types.NamespacedName]*resourcev1.ResourceClaim{},
	}
}

// remember keeps a claim.
func (d *claimController) remember(o eventlog.Object) {
	if claim, ok := o.(*resourcev1.ResourceClaim); ok {
		d.claims[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = claim
	}
}

// isLeaving reports whether a claim is being deleted and has users.
func isLeaving(claim *resourcev1.ResourceClaim) bool {
	return claim != nil && claim.DeletionTimestamp != nil
}

// holdsUp reports whether an object has to wait for the end of another one of its name. If so, it keeps the object.
func (d *claimController) holdsUp(o eventlog.Object) bool {
	claim, ok := o.(*resourcev1.ResourceClaim)
	if !ok {
		return false
	}
	key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	if !isLeaving(d.claims[key]) {
		return false
	}
	d.next[key] = claim
	return true
}

// delete deletes a claim that the workload deletes. A claim with users stays until the last of them has ended, as its
// finalizer does in a cluster: then inputs say so, and handled is true.
func (d *claimController) delete(key types.NamespacedName, now time.Time) (inputs []eventlog.Payload, handled bool) {
	claim := d.claims[key]
	switch {
	case isLeaving(claim):
		delete(d.next, key) // it never comes
		return nil, true
	case claim == nil || len(claim.Status.ReservedFor) == 0:
		delete(d.claims, key)
		return nil, false
	}
	claim = claim.DeepCopy()
	claim.DeletionTimestamp = &metav1.Time{Time: now}
	d.remember(claim)
	return []eventlog.Payload{upserted(eventlog.ResourceClaims, claim)}, true
}

// goes deletes a claim, and creates the one that has waited for its name.
func (d *claimController) goes(claim *resourcev1.ResourceClaim) []eventlog.Payload {
	key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	delete(d.claims, key)
	inputs := []eventlog.Payload{&eventlog.Deleted{Resource: eventlog.ResourceClaims, Namespace: key.Namespace,
		Name: key.Name, UID: claim.UID}}
	if next := d.next[key]; next != nil {
		delete(d.next, key)
		d.remember(next)
		inputs = append(inputs, upserted(eventlog.ResourceClaims, next))
	}
	return inputs
}

// check returns an error if a pod names a template that does not exist.
func (d *claimController) check(namespace string, pod *corev1.Pod) error {
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil || generated(pod, c.Name) != nil {
			continue
		}
		key := types.NamespacedName{Namespace: namespace, Name: *c.ResourceClaimTemplateName}
		if d.templates[key] == nil {
			return fmt.Errorf("spec.resourceClaims: the ResourceClaimTemplate %s is not in the workload", key)
		}
	}
	return nil
}

// generated returns the part of the pod's status about a claim that is made from a template, nil if there is none.
func generated(pod *corev1.Pod, claim string) *corev1.PodResourceClaimStatus {
	for i := range pod.Status.ResourceClaimStatuses {
		if s := &pod.Status.ResourceClaimStatuses[i]; s.Name == claim {
			return s
		}
	}
	return nil
}

// makeClaims makes the claims of the pod that come from templates, and names them in its status. The pod is as build
// made it: its fields below the first level are shared.
func (d *claimController) makeClaims(pod *corev1.Pod) (inputs []eventlog.Payload, err error) {
	group, waits := d.groupOf(pod)
	if waits {
		return nil, nil
	}
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil || generated(pod, c.Name) != nil || isOfGroup(pod, group, &c) {
			continue
		}
		template := d.templates[types.NamespacedName{Namespace: pod.Namespace, Name: *c.ResourceClaimTemplateName}]
		if template == nil {
			continue // of a planned change; the pod waits for its claim
		}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name + "-" + c.Name}
		if there := d.claims[key]; there != nil {
			if metav1.IsControlledBy(there, pod) {
				continue // the pod has only changed
			}
			return nil, fmt.Errorf("ResourceClaim %s is there: pod %s/%s needs that name for its claim %q", key,
				pod.Namespace, pod.Name, c.Name)
		}
		claim := &resourcev1.ResourceClaim{ObjectMeta: *template.Spec.ObjectMeta.DeepCopy()}
		claim.Spec = *template.Spec.Spec.DeepCopy()
		claim.Namespace, claim.Name = key.Namespace, key.Name
		claim.UID = workload.UID(eventlog.ResourceClaims, pod.Namespace, key.Name+"/"+string(pod.UID))
		claim.CreationTimestamp = pod.CreationTimestamp
		claim.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod")),
		}
		d.claims[key] = claim
		inputs = append(inputs, upserted(eventlog.ResourceClaims, claim))
	}
	d.nameClaims(pod)
	return inputs, nil
}

// nameClaims names the claims of the pod that come from templates in its status.
func (d *claimController) nameClaims(pod *corev1.Pod) {
	group, waits := d.groupOf(pod)
	if waits {
		return
	}
	var statuses []corev1.PodResourceClaimStatus
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName != nil && generated(pod, c.Name) == nil {
			name := pod.Name + "-" + c.Name
			if isOfGroup(pod, group, &c) {
				name = group.Name + "-" + c.Name
			}
			statuses = append(statuses, corev1.PodResourceClaimStatus{Name: c.Name, ResourceClaimName: &name})
		}
	}
	if len(statuses) > 0 {
		pod.Status.ResourceClaimStatuses = slices.Concat(pod.Status.ResourceClaimStatuses, statuses)
	}
}

// claimsOf returns the claims that a pod names.
func (d *claimController) claimsOf(pod *corev1.Pod) (keys []types.NamespacedName) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		if key := (types.NamespacedName{Namespace: pod.Namespace, Name: *name}); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// bind allocates devices to the claims of a pod and reserves the claims for it, all or none, as a scheduler does
// before it binds the pod. It returns the resulting inputs.
func (d *claimController) bind(pod *corev1.Pod, wanted []eventlog.DeviceClaim) ([]eventlog.Payload, error) {
	var claims []*resourcev1.ResourceClaim
	groups := d.consumers(pod)
	for _, key := range d.claimsOf(pod) {
		claim := d.claims[key]
		if claim == nil {
			return nil, fmt.Errorf("ResourceClaim %s is gone", key)
		}
		if isLeaving(claim) {
			return nil, fmt.Errorf("ResourceClaim %s is being deleted", key)
		}
		claim, err := allocated(claim, wanted)
		if err != nil {
			return nil, err
		}
		consumer, ofGroup := groups[key.Name]
		if !ofGroup {
			consumer = resourcev1.ResourceClaimConsumerReference{
				Resource: string(eventlog.Pods), Name: pod.Name, UID: pod.UID,
			}
		}
		if !slices.Contains(claim.Status.ReservedFor, consumer) {
			if len(claim.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize {
				return nil, fmt.Errorf("ResourceClaim %s is reserved for %d pods: it can be for no more", key,
					len(claim.Status.ReservedFor))
			}
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer)
		}
		makeReady(claim)
		claims = append(claims, claim)
	}
	for i := range wanted {
		made, err := d.make(pod, &wanted[i])
		if err != nil {
			return nil, err
		}
		if made != nil {
			claims = append(claims, made)
		}
	}
	var inputs []eventlog.Payload
	for _, claim := range claims {
		d.remember(claim)
		inputs = append(inputs, upserted(eventlog.ResourceClaims, claim))
	}
	return inputs, nil
}

// make makes the claim for the devices that the pod requests by the names of extended resources; nil if the placement
// gives the devices to another claim.
func (d *claimController) make(pod *corev1.Pod, wanted *eventlog.DeviceClaim) (*resourcev1.ResourceClaim, error) {
	requests, err := wanted.Requests()
	if err != nil || len(requests) == 0 {
		return nil, err
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: wanted.Claim}
	if d.claims[key] != nil {
		return nil, fmt.Errorf("ResourceClaim %s is there: it cannot be made for the pod", key)
	}
	claim := devices.ClaimToMake(pod, wanted.Claim, requests)
	claim.UID = workload.UID(eventlog.ResourceClaims, pod.Namespace, wanted.Claim+"/"+string(pod.UID))
	claim.CreationTimestamp = pod.CreationTimestamp
	if claim.Status.Allocation, err = wanted.Result(); err != nil {
		return nil, fmt.Errorf("ResourceClaim %s: %w", key, err)
	}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
		{Resource: string(eventlog.Pods), Name: pod.Name, UID: pod.UID},
	}
	makeReady(claim)
	d.made[pod.UID] = key
	return claim, nil
}

// allocated returns a copy of the claim with the devices that the placement gives it.
func allocated(claim *resourcev1.ResourceClaim, wanted []eventlog.DeviceClaim) (*resourcev1.ResourceClaim, error) {
	out := claim.DeepCopy()
	i := slices.IndexFunc(wanted, func(c eventlog.DeviceClaim) bool { return c.Claim == claim.Name })
	if i < 0 {
		if claim.Status.Allocation == nil {
			return nil, fmt.Errorf("ResourceClaim %s/%s has no devices any more", claim.Namespace, claim.Name)
		}
		return out, nil
	}
	if claim.UID != wanted[i].UID {
		return nil, fmt.Errorf("ResourceClaim %s/%s is another one (UID %s)", claim.Namespace, claim.Name, claim.UID)
	}
	if claim.Status.Allocation != nil {
		if has, err := eventlog.NewDeviceClaim(claim); err != nil || has.Allocation != wanted[i].Allocation {
			return nil, fmt.Errorf("ResourceClaim %s/%s has other devices", claim.Namespace, claim.Name)
		}
		return out, nil
	}
	result, err := wanted[i].Result()
	if err != nil {
		return nil, fmt.Errorf("ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	out.Status.Allocation = result
	return out, nil
}

// makeReady makes the binding conditions of the claim's devices true. It changes the claim.
func makeReady(claim *resourcev1.ResourceClaim) {
	for _, r := range claim.Status.Allocation.Devices.Results {
		if len(r.BindingConditions) == 0 {
			continue
		}
		at := slices.IndexFunc(claim.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
			return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device
		})
		if at < 0 {
			at = len(claim.Status.Devices)
			claim.Status.Devices = append(claim.Status.Devices,
				resourcev1.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device})
		}
		for _, name := range r.BindingConditions {
			apimeta.SetStatusCondition(&claim.Status.Devices[at].Conditions, metav1.Condition{
				Type: name, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(workload.Start),
			})
		}
	}
}

// release removes a pod that has ended, or was not bound, from its claims. With gone, it also deletes the claims that
// were made for the pod. A claim without users frees its devices.
func (d *claimController) release(pod *corev1.Pod, gone bool) (inputs []eventlog.Payload) {
	if key, ok := d.made[pod.UID]; ok {
		delete(d.made, pod.UID)
		if claim := d.claims[key]; claim != nil {
			inputs = append(inputs, d.goes(claim)...)
		}
	}
	for _, key := range d.claimsOf(pod) {
		claim := d.claims[key]
		if claim == nil {
			continue
		}
		if gone && metav1.IsControlledBy(claim, pod) {
			inputs = append(inputs, d.goes(claim)...)
			continue
		}
		inputs = append(inputs, d.unreserve(claim, pod.UID)...)
	}
	return inputs
}
