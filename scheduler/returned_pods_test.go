package scheduler_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// back has a pod come back that was deleted: on a node, or with "" as one that is being deleted.
func (s *oneDevice) back(name, node string) {
	s.t.Helper()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", NodeName: node,
			Containers:     []v1.Container{{Name: "c", Image: "i"}},
			ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}},
	}
	if node == "" {
		at := metav1.Unix(1_700_000_000, 0)
		pod.DeletionTimestamp = &at
	}
	s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
}

// A list of the API server that is behind lets a pod be deleted and come back with the same UID, while it is being
// bound. The bind is outstanding until its result, and so long the device is taken; and not longer than that.
func TestABindEndsWithItsResultIfThePodWasGoneMeanwhile(t *testing.T) {
	for name, happens := range map[string]func(*oneDevice){
		"it comes back":              func(s *oneDevice) { s.back("a", "") },
		"it comes back, and goes":    func(s *oneDevice) { s.back("a", ""); s.gone("a") },
		"it comes back on its node":  func(s *oneDevice) { s.back("a", "n1") },
		"it is on its node and goes": func(s *oneDevice) { s.back("a", "n1"); s.gone("a") },
	} {
		for _, outcome := range []eventlog.BindOutcome{eventlog.BindConflict, eventlog.BindBound} {
			s := newOneDevice(t)
			s.pod("a")
			first := s.decide("a")
			seq := s.m.AskedBy("a", scheduler.Bind)
			s.gone("a")
			happens(s)
			s.restore()
			effects := s.m.Effects()
			if len(effects) != 1 || effects[0].Seq != seq || len(effects[0].Devices) != 1 ||
				effects[0].Devices[0] != first.Devices[0] {
				t.Fatalf("%s: the effects are %+v", name, effects)
			}
			s.pod("b")
			if d := s.decide("b"); d == nil || d.Outcome == eventlog.Scheduled {
				t.Fatalf("%s: pod b before the result: %+v", name, d)
			}
			s.restore()
			s.apply(&eventlog.BindResult{UID: "a", Node: "n1", Outcome: outcome, Decision: seq})
			if effects := s.m.Effects(); len(effects) > 0 {
				t.Fatalf("%s: after %v there is %+v to do", name, outcome, effects)
			}
			s.restore()
			if s.m.Cluster().Pods().Get("a") != nil && outcome == eventlog.BindBound {
				if d := s.decide("b"); d != nil && d.Outcome == eventlog.Scheduled {
					t.Fatalf("%s: pod b beside a, which is bound: %+v", name, d)
				}
				s.gone("a")
			}
			if d := s.decide("b"); d == nil || d.Outcome != eventlog.Scheduled {
				t.Fatalf("%s: pod b after %v: %+v", name, outcome, d)
			}
		}
	}
}

// A pod that has come back and is placed again is bound by the later decision: the result of the earlier one says
// nothing any more.
func TestAPodThatIsBackIsBoundByItsLastDecision(t *testing.T) {
	s := newOneDevice(t)
	s.pod("a")
	s.decide("a")
	earlier := s.m.AskedBy("a", scheduler.Bind)
	s.gone("a")
	s.pod("a")
	if d := s.decide("a"); d == nil || d.Outcome != eventlog.Scheduled {
		t.Fatalf("pod a is decided %+v", d)
	}
	later := s.m.AskedBy("a", scheduler.Bind)
	s.apply(&eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindConflict, Decision: earlier})
	s.restore()
	if effects := s.m.Effects(); later == earlier || len(effects) != 1 || effects[0].Seq != later ||
		len(effects[0].Devices) != 1 {
		t.Fatalf("asked is %+v, by %d and then by %d", effects, earlier, later)
	}
	s.gone("a")
	s.pod("b")
	if d := s.decide("b"); d == nil || d.Outcome == eventlog.Scheduled {
		t.Fatalf("pod b before the result: %+v", d)
	}
	s.apply(&eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindConflict, Decision: later})
	if d := s.decide("b"); d == nil || d.Outcome != eventlog.Scheduled || len(s.m.Effects()) != 1 {
		t.Fatalf("pod b after it: %+v, %+v", d, s.m.Effects())
	}
}
