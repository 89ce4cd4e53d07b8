package sim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster/devices"
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
	controller := newClaimController(&workload.Workload{}, Options{})
	open := conditional()
	open.Status = resourcev1.ResourceClaimStatus{}
	controller.remember(open)
	wanted, err := eventlog.NewDeviceClaim(conditional())
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &open.Name}}
	inputs, err := controller.bind(pod, []eventlog.DeviceClaim{wanted})
	if err != nil || len(inputs) != 1 {
		t.Fatalf("%d inputs, %v", len(inputs), err)
	}
	claim := inputs[0].(*eventlog.Upserted).Object.(*resourcev1.ResourceClaim)
	if ready, failed := devices.Ready(claim); !ready || failed != nil || len(claim.Status.Devices) != 1 ||
		len(claim.Status.Devices[0].Conditions) != 2 {
		t.Errorf("the claim's devices are %+v", claim.Status.Devices)
	}
	inputs = controller.release(pod, false)
	released := inputs[0].(*eventlog.Upserted).Object.(*resourcev1.ResourceClaim)
	if released.Status.Allocation != nil || len(released.Status.Devices) > 0 {
		t.Errorf("the claim's status is %+v", released.Status)
	}
}

// A claim for extended resources is made when its pod is bound, and deleted when the pod is not bound or ends.
func TestAClaimIsMadeAndDeletedWithItsPod(t *testing.T) {
	controller := newClaimController(&workload.Workload{}, Options{})
	claim := conditional()
	claim.Name, claim.Spec.Devices.Requests = "made", []resourcev1.DeviceRequest{{Name: "r",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", Count: 2}}}
	wanted, err := eventlog.NewMadeClaim(claim)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
	for range 2 {
		inputs, err := controller.bind(pod, []eventlog.DeviceClaim{wanted})
		if err != nil || len(inputs) != 1 {
			t.Fatalf("%d inputs, %v", len(inputs), err)
		}
		made := inputs[0].(*eventlog.Upserted).Object.(*resourcev1.ResourceClaim)
		if ready, _ := devices.Ready(made); !ready || !devices.MadeFor(made, "u") || made.UID == "" ||
			len(made.Status.ReservedFor) != 1 || !wanted.SameDevices(made) {
			t.Errorf("the claim is %+v", made)
		}
		if _, err := controller.bind(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "v"}},
			[]eventlog.DeviceClaim{wanted}); err == nil {
			t.Error("two pods have the claim made")
		}
		inputs = controller.release(pod, false)
		if len(inputs) != 1 || inputs[0].(*eventlog.Deleted).UID != made.UID ||
			len(controller.claims)+len(controller.made) > 0 {
			t.Errorf("released: %+v, left %v", inputs, controller.claims)
		}
	}
	if inputs := controller.release(pod, true); len(inputs) > 0 {
		t.Errorf("released again: %+v", inputs)
	}
}

// A claim that the workload deletes stays as long as a pod uses it, as its finalizer does in a cluster. No other pod
// gets it. Another claim of its name comes after its end, unless that one is deleted before.
func TestAClaimWithUsersStaysUntilTheyAreGone(t *testing.T) {
	for _, comes := range []bool{true, false} {
		controller := newClaimController(&workload.Workload{}, Options{})
		claim, key := conditional(), types.NamespacedName{Namespace: "ns", Name: "gpu"}
		controller.remember(claim)
		user := func(name string) *corev1.Pod {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}
			return pod
		}
		for _, name := range []string{"a", "b"} {
			if _, err := controller.bind(user(name), nil); err != nil {
				t.Fatal(err)
			}
		}
		object := func(input eventlog.Payload) *resourcev1.ResourceClaim {
			return input.(*eventlog.Upserted).Object.(*resourcev1.ResourceClaim)
		}
		inputs, handled := controller.delete(key, workload.Start)
		if !handled || len(inputs) != 1 || object(inputs[0]).DeletionTimestamp == nil ||
			object(inputs[0]).Status.Allocation == nil {
			t.Fatalf("deleted, it is told %+v", inputs)
		}
		_, err := controller.bind(user("c"), nil)
		if err == nil || err.Error() != "ResourceClaim ns/gpu is being deleted" {
			t.Errorf("another pod is bound with it: %v", err)
		}
		next := conditional()
		next.UID, next.Status = "next", resourcev1.ResourceClaimStatus{}
		if !controller.holdsUp(next) {
			t.Error("another one of its name does not wait")
		}
		if !comes {
			if inputs, handled := controller.delete(key, workload.Start); !handled || len(inputs) > 0 {
				t.Errorf("deleted again, it is told %+v", inputs)
			}
		}
		inputs = controller.release(user("a"), true)
		if len(inputs) != 1 || len(object(inputs[0]).Status.ReservedFor) != 1 {
			t.Errorf("with a user left, it is told %+v", inputs)
		}
		inputs = controller.release(user("b"), true)
		if len(inputs) == 0 || inputs[0].(*eventlog.Deleted).UID != claim.UID {
			t.Fatalf("without users, it is told %+v", inputs)
		}
		came := len(inputs) == 2 && object(inputs[1]) == next
		if came != comes || (controller.claims[key] == next) != comes {
			t.Errorf("the other one came: %v, want %v: %+v", came, comes, inputs)
		}
		if controller.holdsUp(next) {
			t.Error("it goes on waiting")
		}
		if inputs, handled := controller.delete(key, workload.Start); handled || len(inputs) > 0 {
			t.Errorf("without users it is not deleted at once: %+v", inputs)
		}
	}
}
