package effect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/engine"
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
		wantEvictions(t, "", r.results(t, request), "Done ")
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

// An eviction that was carried out already, or is needless, sends nothing.
func TestAnEvictionThatIsNeedlessAsksForNothing(t *testing.T) {
	for name, change := range map[string]func(*server){
		"is gone":                  func(s *server) { delete(s.pods, "a") },
		"is another one (UID v)":   func(s *server) { s.pods["a"].UID = "v" },
		"is being deleted":         func(s *server) { s.terminate("a") },
		"has finished (Succeeded)": func(s *server) { s.pods["a"].Status.Phase = v1.PodSucceeded },
	} {
		s := newServer(t)
		s.addPod("a", "u")
		change(s)
		r := run(t, s, effect.Options{})
		wantEvictions(t, name, r.results(t, evict("a", "u")), "Gone pod ns/a "+name)
		if len(s.requests) != 1 {
			t.Errorf("%s: requests %q", name, s.requests)
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
				want := eventlog.EvictDone
				if on.method == "DELETE" && after && (code == 409 || code == 429 || code == 403) {
					want = eventlog.EvictGone // an API server that says so has not deleted it
				}
				wantLast(t, name, r.all(evict("a", "u")), want)
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
		wantEvictions(t, at, r.results(t, evict("a", "u")), "Gone pod ns/a is another one (UID v)")
		if pod := s.pods["a"]; s.deletes["v"] != 0 || len(pod.Status.Conditions) > 0 {
			t.Errorf("%s: the other pod is %+v", at, pod)
		}
		r.stop()
	}
}

// wantEvictions compares results of evictions, each as its outcome and its message.
func wantEvictions(t *testing.T, name string, results []eventlog.Payload, want ...string) {
	t.Helper()
	var got []string
	for _, p := range results {
		r := p.(*eventlog.EvictResult)
		if r.UID != "u" || r.Decision != 8 {
			t.Errorf("%s: a result of pod %s and decision %d", name, r.UID, r.Decision)
		}
		text := fmt.Sprintf("%s %s", r.Outcome, r.Message)
		if r.RetryAfter > 0 {
			text = fmt.Sprintf("%s %s", r.Outcome, r.RetryAfter)
		} else if r.Outcome == eventlog.EvictGivenUp {
			text = "GivenUp" // by the words of the API server
		}
		if r.Outcome == eventlog.EvictRefused || r.Outcome == eventlog.EvictGivenUp {
			if !strings.Contains(r.Message, "server") && r.Message != "no" {
				t.Errorf("%s: the API server's words are %q", name, r.Message)
			}
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: results\n%q, want\n%q", name, got, want)
	}
}

// wantLast checks the last result of an eviction; the earlier results say that it was refused.
func wantLast(t *testing.T, name string, results []eventlog.Payload, want eventlog.EvictOutcome) {
	t.Helper()
	for i, p := range results {
		r := p.(*eventlog.EvictResult)
		if last := i == len(results)-1; last && r.Outcome != want || !last && r.Outcome != eventlog.EvictRefused {
			t.Errorf("%s: result %d of %d is %+v", name, i+1, len(results), r)
		}
	}
	if len(results) == 0 {
		t.Errorf("%s: no result", name)
	}
}

// An eviction for which pods wait is given up by the rules in evict.go.
func TestARefusedEvictionIsGivenUpByRule(t *testing.T) {
	lasting := []string{"Refused 2s", "GivenUp"}
	passing := []string{"Refused 1.6s", "Refused 3.2s", "Refused 6.4s", "Refused 10s", "Refused 10s", "GivenUp"}
	for _, c := range []struct {
		code  int
		tries int // how often deleting the pod fails
		want  []string
	}{
		{400, 3, lasting}, {403, 3, lasting}, {405, 3, lasting}, {413, 3, lasting}, {422, 3, lasting},
		{404, 10, passing}, {409, 10, passing}, {500, 10, passing}, {503, 10, passing}, {504, 10, passing},
	} {
		for _, on := range []struct{ method, end string }{{"PATCH", "/pods/a/status"}, {"DELETE", "/pods/a"}} {
			name := fmt.Sprintf("%s %d", on.method, c.code)
			s := newServer(t)
			s.addPod("a", "u")
			s.fault = times(1000, on.method, on.end, fault{code: c.code})
			r := run(t, s, effect.Options{})
			request := evict("a", "u")
			request.MakesRoom = true
			wantEvictions(t, name, r.all(request), c.want...)
			if n := s.count(on.method, on.end); n != c.tries || s.deletes["u"] != 0 {
				t.Errorf("%s: %d tries, deleted %d times", name, n, s.deletes["u"])
			}
			if n := len(r.reports); n == 0 || !strings.Contains(r.reports[n-1], "asked for by entry 8, is given up: ") {
				t.Errorf("%s: reports %q", name, r.reports)
			}
			r.stop()
		}
	}
}

// all carries a request out until it has its last result, and returns all of them.
func (r *running) all(request engine.Effect, withdrawals ...engine.Withdrawal) (results []eventlog.Payload) {
	r.Carry(engine.Ready{Effects: []engine.Effect{request}, Withdrawals: withdrawals})
	for r.Counts().Outstanding > 0 {
		<-r.Finished()
		results = append(results, r.Take()...)
	}
	return append(results, r.Take()...)
}

// An eviction may be carried out although the answer was an error. That is seen, also when no tries are left.
func TestAnEvictionThatWasCarriedOutIsNotGivenUp(t *testing.T) {
	s := newServer(t)
	s.addPod("a", "u")
	n := 0
	s.fault = func(request string) fault {
		if !strings.HasPrefix(request, "DELETE ") {
			return fault{}
		}
		n++
		return fault{code: 500, after: n == 10}
	}
	r := run(t, s, effect.Options{})
	defer r.stop()
	request := evict("a", "u")
	request.MakesRoom = true
	got := r.all(request)
	wantLast(t, "", got, eventlog.EvictDone)
	if s.deletes["u"] != 1 || n != 10 {
		t.Errorf("deleted %d times in %d tries", s.deletes["u"], n)
	}
}

// Calls that have no answer are no refusals, however many: the state at the API server is read. Calls that the API
// server puts off, for ten minutes, are no refusals either.
func TestWhatIsNotAnsweredIsNotRefused(t *testing.T) {
	for _, code := range []int{-2, -1, 429} {
		for _, on := range []struct{ method, end string }{
			{"GET", "/pods/a"}, {"PATCH", "/pods/a/status"}, {"DELETE", "/pods/a"}} {
			name := fmt.Sprintf("%s %d", on.method, code)
			s := newServer(t)
			s.addPod("a", "u")
			s.fault = times(30, on.method, on.end, fault{code: code})
			r := run(t, s, effect.Options{})
			request := evict("a", "u")
			request.MakesRoom = true
			wantEvictions(t, name, r.all(request), "Done ")
			if longest := slices.Max(r.clock.waited()); code < 0 && longest < 5*time.Second {
				t.Errorf("%s: of 30 tries without an answer none waited longer than %v", name, longest)
			}
			r.stop()
		}
	}
	s := newServer(t) // a 404 that does not name the pod, as of a proxy, does not say that it is gone
	s.addPod("a", "u")
	s.fault = times(30, "GET", "/pods/a", fault{code: 404})
	r := run(t, s, effect.Options{})
	wantEvictions(t, "GET 404", r.all(evict("a", "u")), "Done ")
	r.stop()
	s = newServer(t)
	s.addPod("a", "u")
	s.fault = times(1000, "DELETE", "/pods/a", fault{code: 429, seconds: 60})
	r = run(t, s, effect.Options{})
	defer r.stop()
	request := evict("a", "u")
	request.MakesRoom = true
	wantLast(t, "429 for long", r.all(request), eventlog.EvictGivenUp)
}

// Nobody waits for the room of the rest of a gang: such an eviction is tried for ever, more and more seldom. A drain
// leaves it to the next process.
func TestAnEvictionForNobodyIsNeverGivenUp(t *testing.T) {
	s := newServer(t)
	s.addPod("a", "u")
	s.fault = times(30, "DELETE", "/pods/a", fault{code: 403})
	r := run(t, s, effect.Options{})
	defer r.stop()
	got := r.all(evict("a", "u"))
	wantLast(t, "", got, eventlog.EvictDone)
	if waits := r.clock.waited(); len(got) != 30 || slices.Max(waits) != 10*time.Minute || s.deletes["u"] != 1 {
		t.Errorf("waits %v, %d results, deleted %d times", waits, len(got), s.deletes["u"])
	}
	if n := len(r.reports); n == 0 || !strings.Contains(r.reports[0], "asked for by entry 8, is refused") {
		t.Errorf("reports %q", r.reports)
	}
	s.addPod("a", "u")
	s.fault = times(1_000_000, "DELETE", "/pods/a", fault{code: 403})
	r.Carry(ready(evict("a", "u")))
	if err := r.Drain(t.Context()); err != nil || r.Counts().Outstanding != 0 {
		t.Errorf("error %v, %d outstanding", err, r.Counts().Outstanding)
	}
	for _, p := range r.Take() {
		if p.(*eventlog.EvictResult).Outcome != eventlog.EvictRefused {
			t.Errorf("result %+v", p)
		}
	}
}

// An eviction that nobody waits for any longer is not sent; the pod is read, because an earlier process may have sent
// it.
func TestAnEvictionThatIsWithdrawnIsNotSent(t *testing.T) {
	const withdrawn = "Withdrawn nobody waits for the room of pod ns/a any more"
	s := newServer(t)
	s.addPod("a", "u")
	r := run(t, s, effect.Options{})
	defer r.stop()
	request := evict("a", "u")
	request.MakesRoom = true
	withdrawal := engine.Withdrawal{UID: request.UID, Seq: request.Seq}
	wantEvictions(t, "from the beginning", r.all(request, withdrawal), withdrawn)
	if s.deletes["u"] != 0 || s.count("PATCH", "") != 0 || len(s.requests) != 1 {
		t.Errorf("requests %q", s.requests)
	}
	s.terminate("a")
	wantEvictions(t, "sent by an earlier process", r.all(request, withdrawal), "Gone pod ns/a is being deleted")

	for _, during := range []string{"GET", "PATCH"} {
		s := newServer(t)
		s.addPod("a", "u")
		var r *running
		s.before = func(got string) {
			if strings.HasPrefix(got, during) {
				r.Carry(engine.Ready{Withdrawals: []engine.Withdrawal{withdrawal}})
			}
		}
		r = run(t, s, effect.Options{})
		wantEvictions(t, "during "+during, r.all(request), withdrawn)
		if s.deletes["u"] != 0 {
			t.Errorf("during %s: deleted", during)
		}
		r.stop()
	}
}

// An eviction that waits for its next try ends at once when it is withdrawn; one of another decision continues.
func TestAnEvictionThatWaitsIsWithdrawnAtOnce(t *testing.T) {
	s := newServer(t)
	s.addPod("a", "u")
	s.fault = times(1000, "DELETE", "/pods/a", fault{code: 403})
	r := runBy(t, s, effect.Options{}, &shortClock{})
	defer r.stop()
	request := evict("a", "u")
	request.MakesRoom = true
	r.Carry(ready(request))
	<-r.Finished()
	wantEvictions(t, "refused", r.Take(), "Refused 2s")
	for _, seq := range []uint64{request.Seq + 1, request.Seq} {
		r.Carry(engine.Ready{Withdrawals: []engine.Withdrawal{{UID: request.UID, Seq: seq}}})
	}
	<-r.Finished()
	wantEvictions(t, "withdrawn", r.Take(), "Withdrawn nobody waits for the room of pod ns/a any more")
}
