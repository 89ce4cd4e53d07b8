package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// sharing drives a Machine with a node and an allocated claim that pods share.
type sharing struct {
	t *testing.T
	m *scheduler.Machine
	// later is the time that has passed.
	later time.Duration
}

func newSharing(t *testing.T) *sharing {
	s := &sharing{t: t, m: scheduler.New(plugins.NewRegistry())}
	s.apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion,
		Config: defaultConfig(t), Behaviour: scheduler.Behaviour})
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("9"), v1.ResourcePods: resource.MustParse("999")}
	s.apply(&eventlog.Upserted{Resource: eventlog.Nodes, Object: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"},
		Status:     v1.NodeStatus{Allocatable: list, Capacity: list}}})
	s.claim()
	return s
}

// claim logs the claim as reserved for the pods.
func (s *sharing) claim(pods ...string) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "shared", UID: "c"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{
		{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}},
	}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "gpu"}}}}
	for _, name := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID(name)})
	}
	s.apply(&eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: claim})
}

func (s *sharing) apply(p eventlog.Payload) {
	s.t.Helper()
	epoch := s.m.Epoch()
	if _, ok := p.(*eventlog.EpochStarted); ok {
		epoch++
	}
	if err := s.m.Apply(eventlog.Entry{Seq: s.m.Seq() + 1, Epoch: epoch,
		Time: eventlog.TimeOf(time.Unix(1_700_000_000, 0).Add(s.later)), Payload: p}); err != nil {
		s.t.Fatal(err)
	}
}

// decide has a new pod share the claim, and returns the decision on it.
func (s *sharing) decide(name string) eventlog.Decision {
	s.t.Helper()
	claim := "shared"
	s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "i"}},
			ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}}}})
	for {
		d, ok := s.m.Decide(nil)
		if !ok {
			s.t.Fatalf("nothing is decided on pod %s", name)
		}
		s.apply(&d)
		if d.Name == name {
			return d
		}
	}
}

// The API server takes no more than 256 pods that a claim is reserved for. A pod with a node counts, whether the claim
// is logged as reserved for it or not, and counts once.
func TestAClaimIsSharedByAsManyPodsAsItTakes(t *testing.T) {
	s := newSharing(t)
	pods := make([]string, resourcev1.ResourceClaimReservedForMaxSize)
	for i := range pods {
		pods[i] = fmt.Sprintf("p%d", i)
		if d := s.decide(pods[i]); d.Outcome != eventlog.Scheduled {
			t.Fatalf("pod %s: %v %+v", pods[i], d.Outcome, d.Rejections)
		}
		if i == 100 {
			s.claim(pods[:100]...)
		}
	}
	refused := func(name string) {
		t.Helper()
		const why = `resourceclaim "shared" has 256 users, and can have no more than 256`
		d := s.decide(name)
		if d.Outcome != eventlog.Unschedulable || len(d.Rejections) != 1 || d.Rejections[0].Reason != why {
			t.Fatalf("pod %s: %v %+v", name, d.Outcome, d.Rejections)
		}
	}
	refused("more")
	state, err := s.m.AppendState(nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.m, err = scheduler.Restore(plugins.NewRegistry(), state); err != nil {
		t.Fatal(err)
	}
	refused("restored")
	for _, name := range []string{"more", "restored", "p200"} {
		s.apply(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ns", Name: name, UID: types.UID(name)})
	}
	if d := s.decide("next"); d.Outcome != eventlog.Scheduled {
		t.Fatalf("when one of them is gone: %v %+v", d.Outcome, d.Rejections)
	}
}
