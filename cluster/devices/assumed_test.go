package devices_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// While a bind may be about to write an allocation, the device is in use whatever is logged of the claim. It is free
// once the claim was logged with it, as reserved for the pod, and then without.
func TestADeviceIsInUseUntilItsPodIsBoundOrReleased(t *testing.T) {
	claim := func(allocated bool, reserved ...string) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"}}
		if allocated {
			c.Status.Allocation = &resourcev1.AllocationResult{}
			c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{
				{Request: "r", Driver: "d", Pool: "p", Device: "gpu"},
			}
		}
		for _, name := range reserved {
			c.Status.ReservedFor = append(c.Status.ReservedFor,
				resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: "uid-a"})
		}
		return c
	}
	f := cluster.New()
	log := func(c *resourcev1.ResourceClaim) {
		if _, err := f.Upsert(eventlog.ResourceClaims, c); err != nil {
			t.Fatal(err)
		}
	}
	inUse := func(what string, want bool) {
		t.Helper()
		all, err := f.Devices().ResourceClaims().ListAllAllocatedDevices()
		if got := all.Has(structured.MakeDeviceID("d", "p", "gpu")); err != nil || got != want {
			t.Errorf("%s: the device is in use: %v (%v), want %v", what, got, err, want)
		}
	}
	allocated, err := eventlog.NewDeviceClaim(claim(true))
	if err != nil {
		t.Fatal(err)
	}
	a := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid-a"}}
	b := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "uid-b"}}
	log(claim(false))
	inUse("before", false)
	for _, pod := range []*v1.Pod{a, b} {
		if _, err := f.UpsertPod(pod); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Devices().Assume(pod, []eventlog.DeviceClaim{allocated}); err != nil {
			t.Fatal(err)
		}
	}
	inUse("assumed", true)
	log(claim(false))
	inUse("logged again without it", true)
	bound := a.DeepCopy()
	bound.Spec.NodeName = "n"
	if _, err := f.UpsertPod(bound); err != nil {
		t.Fatal(err)
	}
	log(claim(true, "a"))
	log(claim(false))
	inUse("the first pod has ended, and the second is being bound", true)
	if freed := f.Devices().Forget(b.UID).Freed; len(freed) != 1 || freed[0].Before.Status.Allocation == nil {
		t.Errorf("freed %v", freed)
	}
	inUse("released", false)
	if left := f.Devices().Assumed(); left > 0 {
		t.Errorf("left: %d", left)
	}
}
