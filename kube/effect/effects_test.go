package effect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/effect"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// run starts Effects on the server.
func run(t reporter, s *server, opts effect.Options) *running {
	t.Helper()
	clock := &jumpingClock{now: time.Unix(1000, 0)}
	r := runBy(t, s, opts, clock)
	r.clock = clock
	return r
}

// runBy is run by another clock.
func runBy(t reporter, s *server, opts effect.Options, clock effect.Clock) *running {
	t.Helper()
	r := &running{}
	opts.Client, opts.Clock = s.client(), clock
	opts.Report = func(message string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reports = append(r.reports, message)
	}
	r.Effects = effect.New(opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	return r
}

// ready is a Ready with nothing but effects.
func ready(effects ...engine.Effect) engine.Ready { return engine.Ready{Effects: effects} }

// results carries out requests and returns their results.
func (r *running) results(t testing.TB, requests ...engine.Effect) []eventlog.Payload {
	t.Helper()
	r.Carry(ready(requests...))
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.Take()
}

func bind(name string, uid types.UID, node string) engine.Effect {
	return engine.Effect{Effect: scheduler.Effect{Kind: scheduler.Bind, Seq: 7, Namespace: "ns", Name: name, UID: uid,
		Node: node}}
}

func evict(name string, uid types.UID) engine.Effect {
	r := bind(name, uid, "")
	r.Kind, r.Seq = scheduler.Evict, 8
	return r
}

// first lets only the first request of the kind go wrong.
func first(method, end string, f fault) func(string) fault {
	return times(1, method, end, f)
}

// times lets the first n requests of the kind go wrong.
func times(n int, method, end string, f fault) func(string) fault {
	return func(request string) fault {
		if n > 0 && strings.HasPrefix(request, method+" ") && strings.HasSuffix(request, end) {
			n--
			return f
		}
		return fault{}
	}
}

func TestTheResultOfABindSaysWhatStands(t *testing.T) {
	const bound, conflict, failed = eventlog.BindBound, eventlog.BindConflict, eventlog.BindFailed
	pod := func(change func(*v1.Pod)) func(*server) {
		return func(s *server) { change(s.addPod("a", "u")) }
	}
	plain := pod(func(*v1.Pod) {})
	post := func(n int, f fault) func(string) fault { return times(n, "POST", "/binding", f) }
	for _, c := range []struct {
		name    string
		before  func(*server)
		fault   func(string) fault
		outcome eventlog.BindOutcome
		message string
		// posts and reads count the times that the bind was sent and the pod was read.
		posts, reads int
	}{
		{"201", plain, nil, bound, "", 1, 0},
		{"404", func(*server) {}, nil, conflict, "pod ns/a is gone", 1, 1},
		{"409: bound there already", pod(func(p *v1.Pod) { p.Spec.NodeName = "n1" }), nil, bound, "", 1, 1},
		{"409: bound elsewhere", pod(func(p *v1.Pod) { p.Spec.NodeName = "n2" }), nil, conflict,
			"pod ns/a is bound to node n2", 1, 1},
		{"409: another pod", pod(func(p *v1.Pod) { p.UID = "v" }), nil, conflict, "pod ns/a is another one (UID v)", 1,
			1},
		{"409: another pod on that node", pod(func(p *v1.Pod) { p.UID, p.Spec.NodeName = "v", "n1" }), nil, conflict,
			"pod ns/a is another one (UID v)", 1, 1},
		{"409: terminating", pod(func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), nil,
			conflict, "pod ns/a is being deleted", 1, 1},
		{"409: gated", pod(func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }), nil,
			failed, `Operation cannot be fulfilled on pods/binding "a": pod a has non-empty .spec.schedulingGates`, 1, 1},
		{"409, and it is free", plain, post(1, fault{code: 409}), bound, "", 2, 1},
		{"400", plain, post(1, fault{code: 400}), failed, "no", 1, 1},
		{"403", plain, post(1, fault{code: 403}), failed, "", 1, 1},
		{"422", plain, post(1, fault{code: 422}), failed, "", 1, 1},
		{"422 after a bind", pod(func(p *v1.Pod) { p.Spec.NodeName = "n1" }), post(1, fault{code: 422}),
			bound, "", 1, 1},
		{"429", plain, post(3, fault{code: 429}), bound, "", 4, 0},
		{"500 and not done", plain, post(1, fault{code: 500}), bound, "", 2, 1},
		{"500 and done", plain, post(1, fault{code: 500, after: true}), bound, "", 1, 1},
		{"503 and not done", plain, post(1, fault{code: 503}), bound, "", 2, 1},
		{"503 and done", plain, post(1, fault{code: 503, after: true}), bound, "", 1, 1},
		{"503 with Retry-After and done", plain, post(1, fault{code: 503, after: true, wait: "0"}), bound, "", 2, 1},
		{"504 and done", plain, post(1, fault{code: 504, after: true}), bound, "", 1, 1},
		{"time-out and not done", plain, post(1, fault{code: -1}), bound, "", 2, 1},
		{"time-out and done", plain, post(1, fault{code: -1, after: true}), bound, "", 1, 1},
		{"reset and not done", plain, post(1, fault{code: -2}), bound, "", 2, 1},
		{"reset and done", plain, post(1, fault{code: -2, after: true}), bound, "", 1, 1},
		{"500 again and again", plain, post(100, fault{code: 500}), failed, "", 6, 6},
		{"time-out again and again", plain, post(100, fault{code: -1}), failed, "", 6, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t)
			c.before(s)
			s.fault = c.fault
			r := run(t, s, effect.Options{})
			defer r.stop()
			got := r.results(t, bind("a", "u", "n1"))
			if len(got) != 1 {
				t.Fatalf("results %v, want one", got)
			}
			result := got[0].(*eventlog.BindResult)
			if result.Outcome != c.outcome || c.message != "" && !strings.Contains(result.Message, c.message) {
				t.Errorf("the result is %v %q, want %v %q", result.Outcome, result.Message, c.outcome, c.message)
			}
			if (result.Message == "") != (result.Outcome == bound) {
				t.Errorf("%v has the message %q", result.Outcome, result.Message)
			}
			if result.UID != "u" || result.Node != "n1" || result.Decision != 7 {
				t.Errorf("the result is of %s on %s by decision %d", result.UID, result.Node, result.Decision)
			}
			if posts, reads := s.count("POST", "/binding"), s.count("GET", "/pods/a"); posts != c.posts ||
				reads != c.reads {
				t.Errorf("%d binds and %d reads were sent, want %d and %d", posts, reads, c.posts, c.reads)
			}
			if counts := r.Counts(); counts.Outstanding != 0 || counts.ReadBacks != uint64(c.reads) {
				t.Errorf("the counts are %+v", counts)
			}
		})
	}
}

// While the pod cannot be read there is no result, because its capacity must stay reserved. It is reported, seldom.
// TestABindOfAnEarlierEpochIsLookedAtFirst asks for binds that an earlier process may have sent, or that may not fit
// any more.
func TestABindOfAnEarlierEpochIsLookedAtFirst(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*v1.Pod)
		outcome eventlog.BindOutcome
		posts   int
	}{
		{"not sent", func(*v1.Pod) {}, eventlog.BindBound, 1},
		{"carried out", func(p *v1.Pod) { p.Spec.NodeName = "n1" }, eventlog.BindBound, 0},
		{"bound elsewhere", func(p *v1.Pod) { p.Spec.NodeName = "n2" }, eventlog.BindConflict, 0},
		{"another pod", func(p *v1.Pod) { p.UID = "v" }, eventlog.BindConflict, 0},
	} {
		s := newServer(t)
		c.change(s.addPod("a", "u"))
		r := run(t, s, effect.Options{})
		request := bind("a", "u", "n1")
		request.Earlier = true
		got := r.results(t, request)
		r.stop()
		if len(got) != 1 || got[0].(*eventlog.BindResult).Outcome != c.outcome {
			t.Errorf("%s: the result is %+v", c.name, got)
		}
		posts := 0
		for _, request := range s.requests {
			if strings.HasPrefix(request, "POST") {
				posts++
			}
		}
		if posts != c.posts || !strings.HasPrefix(s.requests[0], "GET") {
			t.Errorf("%s: the requests are %q, want a GET first and %d POSTs", c.name, s.requests, c.posts)
		}
	}
}

func TestABindWhoseOutcomeCannotBeReadIsReadUntilItCan(t *testing.T) {
	for _, code := range []int{-1, -2, 403, 404, 500} {
		s := newServer(t)
		s.addPod("a", "u")
		n := 50
		s.fault = func(request string) fault {
			if strings.HasPrefix(request, "POST") {
				return fault{code: -1, after: true}
			}
			if n--; n < 0 {
				return fault{}
			}
			return fault{code: code}
		}
		r := run(t, s, effect.Options{})
		got := r.results(t, bind("a", "u", "n1"))
		if len(got) != 1 || got[0].(*eventlog.BindResult).Outcome != eventlog.BindBound {
			t.Errorf("%d: results %v", code, got)
		}
		if reads := s.count("GET", "/pods/a"); reads != 51 {
			t.Errorf("%d: it was read %d times, want 51", code, reads)
		}
		if len(r.reports) < 2 || len(r.reports) > 20 || !strings.Contains(r.reports[0], "its capacity stays reserved") {
			t.Errorf("%d: reports %q", code, r.reports)
		}
		r.stop()
	}
}

func TestALaterTryWaitsLongerAndRetryAfterIsKept(t *testing.T) {
	s := newServer(t)
	s.addPod("a", "u")
	n := 0
	s.fault = func(request string) fault {
		if n++; strings.HasPrefix(request, "POST") && n <= 8 {
			return fault{code: 500}
		}
		return fault{}
	}
	r := run(t, s, effect.Options{})
	defer r.stop()
	r.results(t, bind("a", "u", "n1"))
	want := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond,
		800 * time.Millisecond}
	if !slices.Equal(r.clock.waits, want) {
		t.Errorf("the waits are %v, want %v", r.clock.waits, want)
	}
}

// The state just before the bind is sent matters: a bind to a node that does not exist is answered 201.
func TestWhatIsGoneIsNotSent(t *testing.T) {
	gone := func(engine.Effect) error { return errors.New("node n1 is gone") }
	s := newServer(t)
	s.addPod("a", "u")
	s.addPod("b", "v").Spec.NodeName = "n1"
	s.addPod("c", "w")
	r := run(t, s, effect.Options{Still: gone})
	defer r.stop()
	got := r.results(t, bind("a", "u", "n1"))[0].(*eventlog.BindResult)
	if got.Outcome != eventlog.BindFailed || got.Message != "node n1 is gone" {
		t.Errorf("the result is %v %q", got.Outcome, got.Message)
	}
	// A process of before had sent it.
	if got := r.results(t, bind("b", "v", "n1"))[0].(*eventlog.BindResult); got.Outcome != eventlog.BindBound {
		t.Errorf("the result is %v %q", got.Outcome, got.Message)
	}
	if got := r.results(t, evict("c", "w"))[0].(*eventlog.EvictResult); got.Outcome != eventlog.EvictGone {
		t.Errorf("the result of an eviction is %v %q", got.Outcome, got.Message)
	}
	for _, request := range s.requests {
		if !strings.HasPrefix(request, "GET") {
			t.Errorf("%s was sent", request)
		}
	}
}

func TestEffectsOfOnePodAreCarriedOutOneAfterTheOther(t *testing.T) {
	s := newServer(t)
	s.addPod("a", "u")
	s.addPod("b", "v")
	var mu sync.Mutex
	within, most := map[types.UID]int{}, 0
	enter := func(e engine.Effect) error {
		mu.Lock()
		defer mu.Unlock()
		most = max(most, within[e.UID])
		return nil
	}
	s.before = func(request string) {
		uid := types.UID("u")
		if strings.Contains(request, "/b") {
			uid = "v"
		}
		mu.Lock()
		within[uid]++
		mu.Unlock()
	}
	r := run(t, s, effect.Options{Still: enter})
	defer r.stop()
	requests := []engine.Effect{bind("a", "u", "n1"), bind("a", "u", "n1"), evict("a", "u"), bind("b", "v", "n1")}
	requests[1].Seq = 9
	r.Carry(ready(requests[0])) // again: it is being carried out
	got := r.results(t, requests...)
	if len(got) != 4 {
		t.Errorf("%d results, want one of each effect: %v", len(got), got)
	}
	if len(s.binds["u"]) > 1 || s.deletes["u"] != 1 {
		t.Errorf("pod a was bound to %v and deleted %d times", s.binds["u"], s.deletes["u"])
	}
}

// A pod that is evicted while its bind waits is not bound after that.
func TestAnEvictionDoesNotWaitForABindThatWaits(t *testing.T) {
	s := newServer(t)
	s.addPod("a", "u")
	release := make(chan struct{})
	s.fault = func(request string) fault {
		select {
		case <-release:
			return fault{}
		default:
		}
		if strings.HasSuffix(request, "/binding") {
			return fault{code: 500}
		}
		if strings.HasPrefix(request, "DELETE") {
			close(release)
		}
		return fault{}
	}
	clock := &heldClock{}
	opts := effect.Options{Client: s.client(), Clock: clock}
	e := effect.New(opts)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	clock.wait = make(chan struct{}, 1)
	e.Carry(ready(bind("a", "u", "n1")))
	<-clock.wait // the bind waits for its next try
	e.Carry(ready(evict("a", "u")))
	<-release
	clock.fire()
	if err := e.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := e.Take()
	if len(got) != 2 || got[0].(*eventlog.EvictResult).Outcome != eventlog.EvictDone ||
		got[1].(*eventlog.BindResult).Outcome != eventlog.BindConflict {
		t.Errorf("results %v, want the eviction and a conflict", got)
	}
	cancel()
	<-done
}

// heldClock holds every wait until the test releases it.
type heldClock struct {
	mu   sync.Mutex
	held []func()
	wait chan struct{}
}

func (c *heldClock) Now() time.Time { return time.Unix(1000, 0) }

func (c *heldClock) AfterFunc(_ time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = append(c.held, f)
	select {
	case c.wait <- struct{}{}:
	default:
	}
}

func (c *heldClock) fire() {
	c.mu.Lock()
	held := c.held
	c.held = nil
	c.mu.Unlock()
	for _, f := range held {
		f()
	}
}

func TestFinishedTellsOfResults(t *testing.T) {
	s := newServer(t)
	for i := range 10 {
		s.addPod(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i)))
	}
	r := run(t, s, effect.Options{Workers: 3})
	defer r.stop()
	for i := range 10 {
		r.Carry(ready(bind(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i)), "n1")))
	}
	n := 0
	for n < 10 {
		<-r.Finished()
		n += len(r.Take())
	}
	counts := r.Counts()
	if got := counts.Calls[effect.Call{Kind: effect.CallBind, Answer: "ok"}]; got != 10 || counts.Outstanding != 0 {
		t.Errorf("the counts are %+v", counts)
	}
}

// Over a real socket, client-go reports a broken connection, and no answer, as the other tests assume.
func TestOverARealSocket(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer string
	}{{"broken", "broken"}, {"timeout", "timeout"}} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t)
			s.addPod("a", "u")
			counts := overSocket(t, s, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				s.ServeHTTP(&discarding{}, r)
				if c.name == "timeout" {
					<-r.Context().Done()
				}
				panic(http.ErrAbortHandler)
			})
			n := counts.Calls[effect.Call{Kind: effect.CallBind, Answer: c.answer}]
			if n != 1 || len(s.binds["u"]) != 1 {
				t.Errorf("the calls are %v", counts.Calls)
			}
		})
	}
}

// The answerer may ask for days: capacity is not reserved for so long without another look.
func TestNothingIsPutOffForLong(t *testing.T) {
	for _, seconds := range []int{0, 7, 60, 1_000_000} {
		s := newServer(t)
		s.addPod("a", "u")
		s.addPod("b", "v")
		s.fault = func(request string) fault {
			if s.binds["u"] == nil && len(s.requests) < 3 && strings.HasPrefix(request, "POST") ||
				len(s.requests) < 8 && strings.HasPrefix(request, "DELETE") {
				return fault{code: 429, seconds: seconds}
			}
			return fault{}
		}
		r := run(t, s, effect.Options{})
		r.results(t, bind("a", "u", "n1"))
		r.results(t, evict("b", "v"))
		want := min(max(time.Duration(seconds)*time.Second, 100*time.Millisecond), time.Minute)
		waits := r.clock.waited()
		if len(waits) == 0 || slices.Max(waits) != want || slices.Min(waits) != want {
			t.Errorf("asked to wait for %d s: waited for %v", seconds, waits)
		}
		r.stop()
	}
}

// A webhook may put off every bind. Its capacity is for others after ten minutes, and the pod is tried again.
func TestABindIsNotPutOffForEver(t *testing.T) {
	s := newServer(t)
	s.addPod("a", "u")
	s.fault = times(1000, "POST", "/pods/a/binding", fault{code: 429, seconds: 60})
	r := run(t, s, effect.Options{})
	defer r.stop()
	got := r.results(t, bind("a", "u", "n1"))
	result, ok := got[0].(*eventlog.BindResult)
	if len(got) != 1 || !ok || result.Outcome != eventlog.BindFailed ||
		!strings.Contains(result.Message, "too many requests") {
		t.Errorf("results %+v", result)
	}
	var waited time.Duration
	for _, d := range r.clock.waited() {
		waited += d
	}
	if waited != 10*time.Minute {
		t.Errorf("put off for %v", waited)
	}
}
