package scheduler_test

import (
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

// oneDevice drives a Machine with a node that has one device. Each pod has a claim of its own, of the same name.
type oneDevice struct {
	t   *testing.T
	m   *scheduler.Machine
	now time.Duration
}

func newOneDevice(t *testing.T) *oneDevice {
	s := &oneDevice{t: t, m: scheduler.New(plugins.NewRegistry())}
	s.apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion, Config: defaultConfig(t),
		Behaviour: scheduler.Behaviour})
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("9"), v1.ResourcePods: resource.MustParse("9")}
	s.apply(&eventlog.Upserted{Resource: eventlog.Nodes, Object: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"},
		Status:     v1.NodeStatus{Allocatable: list, Capacity: list}}})
	node := "n1"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s"}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node, Devices: []resourcev1.Device{{Name: "gpu"}},
		Pool: resourcev1.ResourcePool{Name: "n1", Generation: 1, ResourceSliceCount: 1}}
	s.apply(&eventlog.Upserted{Resource: eventlog.ResourceSlices, Object: slice})
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "gpu"}}
	s.apply(&eventlog.Upserted{Resource: eventlog.DeviceClasses, Object: class})
	return s
}

func (s *oneDevice) apply(p eventlog.Payload) {
	s.t.Helper()
	epoch := s.m.Epoch()
	if _, ok := p.(*eventlog.EpochStarted); ok {
		epoch++
	}
	if err := s.m.Apply(eventlog.Entry{Seq: s.m.Seq() + 1, Epoch: epoch,
		Time: eventlog.TimeOf(time.Unix(1_700_000_000, 0).Add(s.now)), Payload: p}); err != nil {
		s.t.Fatal(err)
	}
}

// claim logs a pod's claim. After a decision the claim has the decision's devices and is reserved for the pod.
func (s *oneDevice) claim(name string, given *eventlog.Decision) {
	s.t.Helper()
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("claim-" + name)}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
	if given != nil {
		result, err := given.Devices[0].Result()
		if err != nil {
			s.t.Fatal(err)
		}
		claim.Status.Allocation = result
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
			{Resource: "pods", Name: name, UID: types.UID(name)}}
	}
	s.apply(&eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: claim})
}

func (s *oneDevice) pod(name string) {
	s.t.Helper()
	s.claim(name, nil)
	s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "i"}},
			ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}}}})
}

func (s *oneDevice) gone(name string) {
	s.t.Helper()
	s.apply(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ns", Name: name, UID: types.UID(name)})
}

// decide applies all decisions that are due, and returns the last one on the pod; nil if there is none.
func (s *oneDevice) decide(name string) (last *eventlog.Decision) {
	s.t.Helper()
	s.now += time.Minute
	s.apply(&eventlog.Tick{})
	for {
		d, ok := s.m.Decide(nil)
		if !ok {
			return last
		}
		s.apply(&d)
		if d.Name == name {
			last = &d
		}
	}
}

func (s *oneDevice) restore() {
	s.t.Helper()
	state, err := s.m.AppendState(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	was := s.m.Hash()
	if s.m, err = scheduler.Restore(plugins.NewRegistry(), state); err != nil {
		s.t.Fatal(err)
	}
	if s.m.Hash() != was {
		s.t.Fatal("the restored state is another one")
	}
}

// The device stays taken until the result of the bind that may write it to a claim is logged, whatever is logged of the
// pod and of the claim before.
func TestADeviceStaysTakenUntilTheResultOfTheBind(t *testing.T) {
	given := func(s *oneDevice, d *eventlog.Decision) { s.claim("a", d) }
	back := func(s *oneDevice, _ *eventlog.Decision) { s.claim("a", nil) }
	gone := func(s *oneDevice, _ *eventlog.Decision) { s.gone("a") }
	for name, happens := range map[string][]func(*oneDevice, *eventlog.Decision){
		"gone before the claim is written":  {gone},
		"gone while the claim is written":   {gone, given, back},
		"gone when the claim is written":    {given, gone, back},
		"the claim is given back":           {given, back},
		"the claim is given back, and gone": {given, back, gone},
	} {
		for _, outcome := range []eventlog.BindOutcome{eventlog.BindConflict, eventlog.BindBound} {
			s := newOneDevice(t)
			s.pod("a")
			first := s.decide("a")
			if first == nil || first.Outcome != eventlog.Scheduled || len(first.Devices) != 1 {
				t.Fatalf("%s: the decision is %+v", name, first)
			}
			seq := s.m.AskedBy("a", scheduler.Bind)
			s.pod("b")
			for _, step := range happens {
				step(s, first)
			}
			s.restore()
			second := s.decide("b")
			if second.Outcome == eventlog.Scheduled {
				t.Fatalf("%s: pod b before the result: %+v", name, second)
			}
			effects := s.m.Effects()
			if len(effects) != 1 || effects[0].Seq != seq || len(effects[0].Devices) != 1 ||
				effects[0].Devices[0] != first.Devices[0] {
				t.Fatalf("%s: the effects are %+v", name, effects)
			}
			result := &eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindUnknown, Decision: seq}
			s.apply(result)
			if d := s.decide("b"); d != nil && d.Outcome == eventlog.Scheduled {
				t.Fatalf("%s: pod b when the outcome is unknown: %v", name, d.Outcome)
			}
			if s.m.Cluster().Pods().Get("a") != nil && outcome == eventlog.BindBound {
				continue // it has its device
			}
			s.apply(&eventlog.BindResult{UID: "a", Node: "n1", Outcome: outcome, Decision: seq})
			s.gone("a") // if it is still there, it would have the device again
			if d := s.decide("b"); d == nil || d.Outcome != eventlog.Scheduled {
				t.Fatalf("%s: pod b after %v: %+v", name, outcome, d)
			}
			s.restore()
		}
	}
}

// A pod that somebody else binds to another node does not get the device that its Decision gave it. The device is taken
// until the result of the bind, which fails, and free then, also if the pod stays.
func TestADeviceIsFreeWhenItsPodIsBoundElsewhere(t *testing.T) {
	s := newOneDevice(t)
	s.pod("a")
	s.pod("b")
	if d := s.decide("a"); d == nil || d.Outcome != eventlog.Scheduled || len(d.Devices) != 1 {
		t.Fatalf("the decision is %+v", d)
	}
	seq := s.m.AskedBy("a", scheduler.Bind)
	elsewhere := s.m.Cluster().Pods().Get("a").Object.DeepCopy()
	elsewhere.Spec.NodeName = "n2"
	s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: elsewhere})
	s.restore()
	if asked := s.m.AskedBy("a", scheduler.Bind); asked != seq {
		t.Fatalf("the bind of pod a is asked for by %d, not by %d", asked, seq)
	}
	if d := s.decide("b"); d != nil && d.Outcome == eventlog.Scheduled {
		t.Fatal("the device is given to pod b while the bind of pod a may write it to a claim")
	}
	s.apply(&eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindConflict, Decision: seq})
	s.restore()
	if d := s.decide("b"); d == nil || d.Outcome != eventlog.Scheduled {
		t.Errorf("pod b after the result: %+v", d)
	}
}

// A pod that is bound has its device until its claim is logged so, and no longer than that is logged.
func TestADeviceOfABoundPodIsThatOfItsClaim(t *testing.T) {
	s := newOneDevice(t)
	s.pod("a")
	first := s.decide("a")
	seq := s.m.AskedBy("a", scheduler.Bind)
	s.claim("a", first)
	s.apply(&eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindBound, Decision: seq})
	s.restore()
	s.pod("b")
	if d := s.decide("b"); d == nil || d.Outcome != eventlog.Unschedulable {
		t.Fatalf("pod b beside a: %+v", d)
	}
	s.gone("a")
	if d := s.decide("b"); d != nil && d.Outcome == eventlog.Scheduled {
		t.Fatalf("pod b when a is gone, and its claim is not given back: %+v", d)
	}
	s.claim("a", nil)
	if d := s.decide("b"); d == nil || d.Outcome != eventlog.Scheduled {
		t.Fatalf("pod b when the claim is given back: %+v", d)
	}
}
