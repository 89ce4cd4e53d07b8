package sim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// conditional is a claim that is allocated a device with binding conditions, and one without.
func conditional() *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpu", UID: "c"}}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	claim.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{
		{Request: "r", Driver: "d", Pool: "p", Device: "far", BindingConditions: []string{"attached", "powered"}},
		{Request: "r", Driver: "d", Pool: "p", Device: "near"},
	}
	return claim
}

func TestDevicesAreReadyWhenTheyAreReserved(t *testing.T) {
	devices := newDevices(&workload.Workload{}, Options{})
	open := conditional()
	open.Status = resourcev1.ResourceClaimStatus{}
	devices.remember(open)
	wanted, err := eventlog.NewDeviceClaim(conditional())
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &open.Name}}
	inputs, err := devices.bind(pod, []eventlog.DeviceClaim{wanted})
	if err != nil || len(inputs) != 1 {
		t.Fatalf("%d inputs, %v", len(inputs), err)
	}
	claim := inputs[0].(*eventlog.Upserted).Object.(*resourcev1.ResourceClaim)
	if ready, failed := cluster.DevicesReady(claim); !ready || failed != nil || len(claim.Status.Devices) != 1 ||
		len(claim.Status.Devices[0].Conditions) != 2 {
		t.Errorf("the claim's devices are %+v", claim.Status.Devices)
	}
	inputs = devices.release(pod, false)
	released := inputs[0].(*eventlog.Upserted).Object.(*resourcev1.ResourceClaim)
	if released.Status.Allocation != nil || len(released.Status.Devices) > 0 {
		t.Errorf("the claim's status is %+v", released.Status)
	}
}

// A claim for extended resources is made when its pod is bound, and deleted when the pod is not bound or ends.
func TestAClaimIsMadeAndDeletedWithItsPod(t *testing.T) {
	devices := newDevices(&workload.Workload{}, Options{})
	claim := conditional()
	claim.Name, claim.Spec.Devices.Requests = "made", []resourcev1.DeviceRequest{{Name: "r",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", Count: 2}}}
	wanted, err := eventlog.NewMadeClaim(claim)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
	for range 2 {
		inputs, err := devices.bind(pod, []eventlog.DeviceClaim{wanted})
		if err != nil || len(inputs) != 1 {
			t.Fatalf("%d inputs, %v", len(inputs), err)
		}
		made := inputs[0].(*eventlog.Upserted).Object.(*resourcev1.ResourceClaim)
		if ready, _ := cluster.DevicesReady(made); !ready || !cluster.MadeFor(made, "u") || made.UID == "" ||
			len(made.Status.ReservedFor) != 1 || !wanted.SameDevices(made) {
			t.Errorf("the claim is %+v", made)
		}
		if _, err := devices.bind(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "v"}},
			[]eventlog.DeviceClaim{wanted}); err == nil {
			t.Error("two pods have the claim made")
		}
		inputs = devices.release(pod, false)
		if len(inputs) != 1 || inputs[0].(*eventlog.Deleted).UID != made.UID ||
			len(devices.claims)+len(devices.made) > 0 {
			t.Errorf("released: %+v, left %v", inputs, devices.claims)
		}
	}
	if inputs := devices.release(pod, true); len(inputs) > 0 {
		t.Errorf("released again: %+v", inputs)
	}
}
