package devices

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// HasBindingConditions reports whether the claim is allocated a device that a pod has to wait for before it is bound.
func HasBindingConditions(claim *resourcev1.ResourceClaim) bool {
	return claim.Status.Allocation != nil && slices.ContainsFunc(claim.Status.Allocation.Devices.Results,
		func(r resourcev1.DeviceRequestAllocationResult) bool { return len(r.BindingConditions) > 0 })
}

// Ready reports whether all binding conditions of the devices of an allocated claim are true, as isClaimReadyForBinding
// in the DynamicResources plugin of kube-scheduler 1.37. failed is the first failure condition that is true: such a
// claim will not become ready. The search for it ends with the first device that is not ready.
func Ready(claim *resourcev1.ResourceClaim) (ready bool, failed *metav1.Condition) {
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		if len(r.BindingConditions) == 0 {
			continue
		}
		at := slices.IndexFunc(claim.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
			return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device
		})
		if at < 0 {
			return false, nil
		}
		conditions := claim.Status.Devices[at].Conditions
		for _, name := range r.BindingFailureConditions {
			if apimeta.IsStatusConditionTrue(conditions, name) {
				return false, apimeta.FindStatusCondition(conditions, name)
			}
		}
		for _, name := range r.BindingConditions {
			if !apimeta.IsStatusConditionTrue(conditions, name) {
				return false, nil
			}
		}
	}
	return true, nil
}

// AllocatedAt returns when devices were allocated to the claim, by the log; nil if it does not say.
func AllocatedAt(m fwk.SharedDRAManager, namespace, name string) *metav1.Time {
	d := StateOf(m)
	if d == nil {
		return nil
	}
	claim := d.claim(types.NamespacedName{Namespace: namespace, Name: name})
	if claim == nil || claim.Status.Allocation == nil {
		return nil
	}
	return claim.Status.Allocation.AllocationTimestamp
}
