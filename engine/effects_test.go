package engine_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// When a bind is carried out, the devices that a PodGroup has reserved in a pod's place are known, and so are the
// claims to give back.
func TestWhatAPodGroupHasReservedIsSaidWithTheEffect(t *testing.T) {
	cfg, err := framework.LoadConfig([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
featureGates: {GenericWorkload: true, DRAWorkloadResourceClaims: true}
`), "config")
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	eng, err := engine.Open(context.Background(), eventlog.NewMemory(), now,
		engine.Options{Registry: plugins.NewRegistry(), Config: config, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "g", UID: "group"}}
	group.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	ours, own := "ours", "own"
	group.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "a", ResourceClaimName: &ours}}
	ofGroup := resourcev1.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups",
		Name: "g", UID: "group"}
	claim := func(name string) eventlog.Payload {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: "claim"}}
		c.Status.Allocation = &resourcev1.AllocationResult{}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{ofGroup}
		return &eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: c}
	}
	member := pod("member", "5", "").(*eventlog.Upserted)
	spec := &member.Object.(*corev1.Pod).Spec
	spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group.Name}
	spec.ResourceClaims = []corev1.PodResourceClaim{
		{Name: "a", ResourceClaimName: &ours}, {Name: "b", ResourceClaimName: &own},
	}
	step := func(inputs ...eventlog.Payload) engine.Effect {
		t.Helper()
		now = now.Add(time.Minute)
		ready, err := eng.Step(context.Background(), now, inputs)
		if err != nil || len(ready.Effects) != 1 {
			t.Fatalf("%v, the effects are %+v", err, ready.Effects)
		}
		return ready.Effects[0]
	}
	back := step(node("small", "4"), claim(ours), claim(own),
		&eventlog.Upserted{Resource: eventlog.PodGroups, Object: group}, member)
	if back.Kind != scheduler.GiveBack || !reflect.DeepEqual(back.Devices,
		[]eventlog.DeviceClaim{{Claim: ours, UID: "claim"}}) || len(back.Claims) > 0 {
		t.Errorf("what is to be given back is %+v", back)
	}
	bind := step(node("large", "9"))
	if bind.Kind != scheduler.Bind || !reflect.DeepEqual(bind.Claims, []string{ours, own}) ||
		!reflect.DeepEqual(bind.GroupClaims, map[string]resourcev1.ResourceClaimConsumerReference{ours: ofGroup}) ||
		!reflect.DeepEqual(bind.ClaimUIDs, map[string]types.UID{ours: "claim", own: "claim"}) {
		t.Errorf("the bind is %+v", bind)
	}
}

func TestClaimsOfAPodAreNamedOnce(t *testing.T) {
	made, direct := "made", "direct"
	pod := &corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{
		{Name: "a", ResourceClaimName: &direct},
		{Name: "b", ResourceClaimTemplateName: &direct},
		{Name: "c", ResourceClaimName: &direct},
		{Name: "d", ResourceClaimTemplateName: &direct},
	}}, Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{
		{Name: "b", ResourceClaimName: &made}, {Name: "d"}, // d needs none
	}}}
	if got := engine.ClaimsOf(pod); !slices.Equal(got, []string{"direct", "made"}) {
		t.Errorf("the claims are %v", got)
	}
}
