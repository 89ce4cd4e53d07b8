package effect_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/effect"
)

func TestAnEvictedPodHasTheConditionAndIsDeleted(t *testing.T) {
	for _, c := range []struct {
		decision *eventlog.Decision
		message  string
	}{
		{nil, "batch: preempting to accommodate a higher priority pod"},
		{&eventlog.Decision{Outcome: eventlog.Unschedulable}, "batch: preempting to accommodate a higher priority pod"},
		{&eventlog.Decision{Outcome: eventlog.Unschedulable, Group: "g"},
			"batch: preempting to accommodate a higher priority podgroup"},
		{&eventlog.Decision{Outcome: eventlog.Evicted, Group: "g"},
			"batch: evicting because its pod group has fallen below its minimum"},
	} {
		s := newServer(t)
		s.addPod("a", "u").Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		r := run(t, s, effect.Options{})
		request := evict("a", "u")
		request.Decision, request.Scheduler = c.decision, "batch"
		if got := r.results(t, request); got != nil {
			t.Errorf("results %v", got)
		}
		r.stop()
		pod := s.pods["a"]
		want := v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, ObservedGeneration: 3,
			Reason: "PreemptionByScheduler", Message: c.message, LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))}
		if len(pod.Status.Conditions) != 2 || s.deletes["u"] != 1 {
			t.Fatalf("the pod is %+v, deleted %d times", pod.Status.Conditions, s.deletes["u"])
		}
		for _, got := range pod.Status.Conditions {
			if got.Type == want.Type && got.String() != want.String() {
				t.Errorf("the condition is\n%+v, want\n%+v", got, want)
			}
		}
	}
}

// An eviction that stands already, or is needless, asks for nothing.
func TestAnEvictionThatIsNeedlessAsksForNothing(t *testing.T) {
	for name, change := range map[string]func(*server){
		"gone":        func(s *server) { delete(s.pods, "a") },
		"another pod": func(s *server) { s.pods["a"].UID = "v" },
		"terminating": func(s *server) { s.pods["a"].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"finished":    func(s *server) { s.pods["a"].Status.Phase = v1.PodSucceeded },
	} {
		s := newServer(t)
		s.addPod("a", "u")
		change(s)
		r := run(t, s, effect.Options{})
		if got := r.results(t, evict("a", "u")); got != nil || len(s.requests) != 1 {
			t.Errorf("%s: results %v, requests %q", name, got, s.requests)
		}
		r.stop()
	}
}

// The condition is written once, and keeps the time since when it holds.
func TestAnEvictionThatIsTriedAgainEndsInOneDeletion(t *testing.T) {
	for _, on := range []struct{ method, end string }{
		{"GET", "/pods/a"}, {"PATCH", "/pods/a/status"}, {"DELETE", "/pods/a"}} {
		for _, code := range []int{-2, -1, 403, 409, 429, 500, 503} {
			for _, after := range []bool{false, true} {
				name := fmt.Sprintf("%s %d %v", on.method, code, after)
				s := newServer(t)
				s.addPod("a", "u")
				s.fault = times(3, on.method, on.end, fault{code: code, after: after})
				r := run(t, s, effect.Options{})
				r.results(t, evict("a", "u"))
				if s.deletes["u"] != 1 || len(r.reports) > 1 {
					t.Errorf("%s: deleted %d times, reports %q", name, s.deletes["u"], r.reports)
				}
				if n := s.count("PATCH", "/status"); after && n != 1 {
					t.Errorf("%s: the condition was written %d times", name, n)
				}
				r.stop()
			}
		}
	}
}

func TestAnotherPodOfTheNameIsNotEvicted(t *testing.T) {
	for _, at := range []string{"PATCH", "DELETE"} {
		s := newServer(t)
		s.addPod("a", "u")
		s.before = func(request string) {
			if strings.HasPrefix(request, at) {
				s.addPod("a", "v")
			}
		}
		r := run(t, s, effect.Options{})
		r.results(t, evict("a", "u"))
		if pod := s.pods["a"]; s.deletes["v"] != 0 || len(pod.Status.Conditions) > 0 {
			t.Errorf("%s: the other pod is %+v", at, pod)
		}
		r.stop()
	}
}

// There is no entry that would say that an eviction was given up. One that is refused is tried seldom, and reported; a
// drain leaves it to the next process.
func TestAnEvictionThatIsRefusedIsTriedSeldom(t *testing.T) {
	s := newServer(t)
	s.addPod("a", "u")
	s.fault = times(14, "DELETE", "/pods/a", fault{code: 403})
	r := run(t, s, effect.Options{})
	defer r.stop()
	r.Carry([]effect.Request{evict("a", "u"), evict("a", "u")})
	r.Carry([]effect.Request{bind("b", "v", "n1")}) // to be told of the end of something
	<-r.Finished()
	for s.deleted("u") == 0 {
		runtime.Gosched()
	}
	minutes := 0
	for _, wait := range r.clock.waited() {
		if wait == time.Minute {
			minutes++
		}
	}
	if minutes != 5 || s.count("DELETE", "/pods/a") != 15 {
		t.Errorf("waits %v, %d tries", r.clock.waited(), s.count("DELETE", "/pods/a"))
	}
	if n := len(r.reports); n != 5 || !strings.Contains(r.reports[0], "asked for by entry 8, is refused") {
		t.Errorf("reports %q", r.reports)
	}
	s.addPod("a", "u")
	s.fault = times(1000, "DELETE", "/pods/a", fault{code: 403})
	r.Carry([]effect.Request{evict("a", "u")})
	if err := r.Drain(t.Context()); err != nil || r.Counts().Outstanding != 0 {
		t.Errorf("error %v, %d outstanding", err, r.Counts().Outstanding)
	}
}
