package scheduler_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A selector whose answer may differ from run to run is refused with that reason, in the class and in the claim. A pod
// that was refused is tried again when the class is another one.
func TestASelectorThatMayNotReplayIsRefused(t *testing.T) {
	class := func(expression string) *eventlog.Upserted {
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "gpu"}}
		class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
		return &eventlog.Upserted{Resource: eventlog.DeviceClasses, Object: class}
	}
	const why = `resourceclaim "a": device class gpu: selector #0 builds a list from a map, whose order CEL leaves open`
	s := newOneDevice(t)
	s.apply(class(`device.attributes["d"].map(k, k) == []`))
	s.pod("a")
	if d := s.decide("a"); d == nil || len(d.Rejections) != 1 || !strings.HasPrefix(d.Rejections[0].Reason, why) {
		t.Fatalf("%+v", d)
	}
	s.apply(class(`device.attributes["d"].map(k, k).size() == 0`))
	if d := s.decide("a"); d == nil || d.Outcome != eventlog.Scheduled {
		t.Fatalf("with another selector: %+v", d)
	}
}

// Under the feature gate, claims are allocated to pods of PodGroups as to others, also if they are not the PodGroup's.
func TestClaimsOfPodsOfPodGroupsAreAllocated(t *testing.T) {
	s := newOneDevice(t)
	s.apply(&eventlog.EpochStarted{ID: "f", Version: "v", Format: eventlog.FormatVersion,
		Behaviour: scheduler.Behaviour, Config: encodedConfig(t, groupClaimsOn)})
	for _, grouped := range []bool{true, false} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}}
		pod.Spec = v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c"}}}
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &pod.Name}}
		if grouped {
			group := "g"
			pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
			basic := &schedulingv1beta1.PodGroup{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: group, UID: "g"}}
			basic.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
			s.apply(&eventlog.Upserted{Resource: eventlog.PodGroups, Object: basic})
		}
		s.claim("a", nil)
		s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
		if d := s.decide("a"); d == nil || d.Outcome != eventlog.Scheduled {
			t.Errorf("in a PodGroup %v: %+v", grouped, d)
		}
		s.apply(&eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindFailed,
			Decision: s.m.AskedBy("a", scheduler.Bind)})
		s.gone("a")
	}
}
