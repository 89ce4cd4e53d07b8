package sim

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// grouped plays the claims of a PodGroup g with a claim of a template, and two pods of it that are bound.
func grouped(t *testing.T) (d claimController, claim *resourcev1.ResourceClaim, a, b *corev1.Pod) {
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpus"}}
	work := &workload.Workload{ClaimTemplates: map[types.NamespacedName]*resourcev1.ResourceClaimTemplate{
		{Namespace: "ns", Name: "gpus"}: template}}
	d = newClaimController(work, Options{GroupClaims: true})
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "group"}}
	group.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{
		{Name: "gpu", ResourceClaimTemplateName: &template.Name},
	}
	inputs, object, err := d.groupComes(group)
	if err != nil || len(inputs) != 1 || len(object.(*schedulingv1beta1.PodGroup).Status.ResourceClaimStatuses) != 1 {
		t.Fatalf("%d inputs, %v: %+v", len(inputs), err, object)
	}
	claim = inputs[0].(*eventlog.Upserted).Object.(*resourcev1.ResourceClaim)
	wanted := conditional()
	wanted.Name, wanted.UID = claim.Name, claim.UID
	allocation, err := eventlog.NewDeviceClaim(wanted)
	if err != nil {
		t.Fatal(err)
	}
	pods := [2]*corev1.Pod{}
	for i, name := range []string{"a", "b"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group.Name}
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template.Name}}
		if made, err := d.makeClaims(pod); err != nil || len(made) > 0 {
			t.Fatalf("pod %s: %d claims are made, %v", name, len(made), err)
		}
		told, err := d.bind(pod, []eventlog.DeviceClaim{allocation})
		if err != nil || len(told) != 1 {
			t.Fatalf("pod %s: %d inputs, %v", name, len(told), err)
		}
		claim, pods[i] = told[0].(*eventlog.Upserted).Object.(*resourcev1.ResourceClaim), pod
	}
	return d, claim, pods[0], pods[1]
}

// A PodGroup has its claims reserved once, and its pods leave them as they are. One that is deleted stays until its
// last pod is gone, and the claim that was made for it goes with it.
func TestClaimsOfAPodGroupStayUntilItsPodsAreGone(t *testing.T) {
	d, claim, a, b := grouped(t)
	want := []resourcev1.ResourceClaimConsumerReference{
		{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "group"},
	}
	if !reflect.DeepEqual(claim.Status.ReservedFor, want) {
		t.Fatalf("it is reserved for %+v", claim.Status.ReservedFor)
	}
	key := types.NamespacedName{Namespace: "ns", Name: "g"}
	for name, inputs := range map[string][]eventlog.Payload{
		"a pod that ends":        d.release(a, true),
		"a PodGroup with a pod":  d.groupGoes(key, 1),
		"a pod before the last":  d.podGone(key, 1),
		"another PodGroup":       d.groupGoes(types.NamespacedName{Namespace: "ns", Name: "h"}, 0),
		"the last pod's release": d.release(b, true),
	} {
		if len(inputs) > 0 {
			t.Errorf("%s: %+v", name, inputs[0])
		}
	}
	inputs := d.podGone(key, 0)
	if len(inputs) != 1 || inputs[0].(*eventlog.Deleted).UID != claim.UID || len(d.podGone(key, 0)) > 0 {
		t.Errorf("when the last pod is gone: %+v", inputs)
	}
}

// The claims that the scheduler asks to free are freed, unless a pod runs by now, or the claim is another one.
func TestClaimsAreGivenBackAsTheSchedulerAsks(t *testing.T) {
	d, claim, _, _ := grouped(t)
	c := &Cluster{devices: d, groupIndex: map[types.NamespacedName]int32{{Namespace: "ns", Name: "g"}: 0},
		groups: []groupState{{running: 1}}}
	effect := engine.Effect{Effect: scheduler.Effect{Kind: scheduler.GiveBack, Namespace: "ns", Name: "g", UID: "group",
		Devices: []eventlog.DeviceClaim{{Claim: claim.Name, UID: claim.UID}}}}
	if inputs := c.giveBack(&effect); len(inputs) > 0 {
		t.Errorf("while a pod runs: %+v", inputs[0])
	}
	c.groups[0].running = 0
	other := effect
	other.Devices = []eventlog.DeviceClaim{{Claim: claim.Name, UID: "other"}}
	if inputs := c.giveBack(&other); len(inputs) > 0 {
		t.Errorf("another claim: %+v", inputs[0])
	}
	inputs := c.giveBack(&effect)
	if len(inputs) != 1 || !reflect.DeepEqual(inputs[0].(*eventlog.Upserted).Object.(*resourcev1.ResourceClaim).Status,
		resourcev1.ResourceClaimStatus{}) {
		t.Errorf("%+v", inputs)
	}
	if inputs := c.giveBack(&effect); len(inputs) > 0 {
		t.Errorf("once more: %+v", inputs[0])
	}
}
