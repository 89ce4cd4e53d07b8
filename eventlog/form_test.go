package eventlog_test

import (
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// quantitiesInAnyForm are quantities as programs make them: some have another form than their text.
func quantitiesInAnyForm() (list []resource.Quantity) {
	for _, form := range []resource.Format{"", resource.DecimalSI, resource.BinarySI, resource.DecimalExponent} {
		for _, n := range []int64{0, 1, 1000, 1024, 1500, 2000, 1_000_000, 3 << 29, 1<<63 - 1} {
			for _, scale := range []resource.Scale{resource.Nano, resource.Milli, 0, resource.Kilo, resource.Tera} {
				q := resource.NewScaledQuantity(n, scale)
				if q.CmpInt64(math.MaxInt64) > 0 {
					continue // more than a quantity holds: it is cut down when it is read
				}
				q.Format = form
				list = append(list, *q)
			}
		}
	}
	return list
}

// Whatever form a quantity has, an object with it is logged, and read back as it was logged.
func TestQuantitiesInAnyFormAreLogged(t *testing.T) {
	var c eventlog.Encoder
	for _, q := range quantitiesInAnyForm() {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{Overhead: v1.ResourceList{"cpu": q}}}
		logged, _, err := c.Logged(&eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
		if err != nil {
			t.Fatalf("%v in the form %q: %v", &q, q.Format, err)
		}
		if got := logged.Object.(*v1.Pod).Spec.Overhead["cpu"]; got.Cmp(q) != 0 {
			t.Fatalf("%v in the form %q is logged as %v", &q, q.Format, &got)
		}
	}
}

// The allocator computes how much of a device is consumed, such as 2000 in the form of 2Ki (roundUpRange).
func TestAllocationsWithQuantitiesInAnyFormAreRead(t *testing.T) {
	for _, q := range quantitiesInAnyForm() {
		claim := &resourcev1.ResourceClaim{}
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "gpu",
				ConsumedCapacity: map[resourcev1.QualifiedName]resource.Quantity{"memory": q}}}}}
		c, err := eventlog.NewDeviceClaim(claim)
		if err != nil {
			t.Fatal(err)
		}
		read, err := c.Result()
		if err != nil {
			t.Fatalf("%v in the form %q: %v", &q, q.Format, err)
		}
		if got := read.Devices.Results[0].ConsumedCapacity["memory"]; got.Cmp(q) != 0 {
			t.Fatalf("%v in the form %q is read as %v", &q, q.Format, &got)
		}
	}
}
