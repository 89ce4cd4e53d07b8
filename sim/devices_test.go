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
