package effect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/kube/effect"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// happenings are actions of others on a pod, just before one of the requests on it is carried out.
var happenings = map[string]func(s *server, name string){
	"deleted":     func(s *server, name string) { delete(s.pods, name) },
	"replaced":    func(s *server, name string) { s.addPod(name, types.UID("other-"+name)) },
	"terminating": func(s *server, name string) { s.terminate(name) },
	"bound there": func(s *server, name string) { s.bindByHand(name, "n1") },
	"bound to n9": func(s *server, name string) { s.bindByHand(name, "n9") },
}

func (s *server) terminate(name string) {
	if pod := s.pods[name]; pod != nil && pod.DeletionTimestamp == nil {
		changed := pod.DeepCopy()
		changed.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		put(s, s.pods, changed)
	}
}

func (s *server) bindByHand(name, node string) {
	if pod := s.pods[name]; pod != nil && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
		changed := pod.DeepCopy()
		changed.Spec.NodeName = node
		s.binds[pod.UID] = append(s.binds[pod.UID], node)
		put(s, s.pods, changed)
	}
}

// place is the number of a request on a pod, from 1: requests on one pod come one after the other.
type place struct {
	name string
	at   int
}

func drawPlace(t *rapid.T, requests []engine.Effect, most int) place {
	return place{rapid.SampledFrom(requests).Draw(t, "pod").Name, rapid.IntRange(1, most).Draw(t, "request")}
}

// drawFaults has some of the requests go wrong.
func drawFaults(t *rapid.T, requests []engine.Effect) map[place]fault {
	faults := map[place]fault{}
	for range rapid.IntRange(0, 40).Draw(t, "faults") {
		f := fault{
			code:  rapid.SampledFrom([]int{-1, -2, 401, 403, 409, 422, 429, 500, 503, 504}).Draw(t, "code"),
			after: rapid.Bool().Draw(t, "after"),
		}
		if f.code == 429 {
			f.after = false
		}
		faults[drawPlace(t, requests, 20)] = f
	}
	return faults
}

func podOf(request string) string {
	_, rest, _ := strings.Cut(request, "/pods/")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// Whatever goes wrong, in whatever order, and however often the process is started again, a pod is bound at most once.
// Every bind has one result, the result states the outcome at the API server, and Drain ends.
func TestWhateverGoesWrongTheResultsSayWhatStands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newServer(t)
		var requests []engine.Effect
		binds := map[string]bool{} // the pods that are only bound
		for i := range rapid.IntRange(1, 5).Draw(t, "pods") {
			name, uid := fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i))
			s.addPod(name, uid)
			kind := rapid.SampledFrom([]string{"bind", "bind", "evict", "both"}).Draw(t, "effect")
			binds[name] = kind == "bind"
			if kind != "evict" {
				requests = append(requests, bind(name, uid, "n1"))
			}
			if kind != "bind" {
				request := evict(name, uid)
				request.MakesRoom = rapid.Bool().Draw(t, "makes room")
				requests = append(requests, request)
			}
		}
		events := map[place]string{}
		for range rapid.IntRange(0, 4).Draw(t, "happenings") {
			at := drawPlace(t, requests, 6)
			what := []string{"deleted", "replaced", "terminating"}
			if binds[at.name] { // after the bind's result, nobody may bind it
				what = append(what, "bound there", "bound to n9")
			}
			events[at] = rapid.SampledFrom(what).Draw(t, "what")
		}
		faults, of := drawFaults(t, requests), map[string]int{}
		stops := make([]place, rapid.IntRange(0, 3).Draw(t, "stops"))
		for i := range stops {
			stops[i] = drawPlace(t, requests, 10)
		}
		at := func(request string) place { return place{podOf(request), of[podOf(request)]} }
		s.before = func(request string) {
			if what := events[at(request)]; what != "" {
				happenings[what](s, podOf(request))
			}
		}
		results := outcomes{binds: map[types.UID][]*eventlog.BindResult{},
			evictions: map[types.UID][]*eventlog.EvictResult{}}
		for i := 0; ; i++ {
			var stop place
			if i < len(stops) {
				stop = stops[i]
			}
			crash := make(chan struct{}, 1)
			s.fault = func(request string) fault {
				of[podOf(request)]++
				if at(request) == stop {
					crash <- struct{}{}
				}
				return faults[at(request)]
			}
			if carryOnce(t, s, requests, crash, results) {
				break
			}
		}
		checkResults(t, s, requests, results)
	})
}

// outcomes are the results so far, by pod.
type outcomes struct {
	binds     map[types.UID][]*eventlog.BindResult
	evictions map[types.UID][]*eventlog.EvictResult
}

// ended reports whether a request has its last result.
func (o *outcomes) ended(r engine.Effect) bool {
	if r.Kind == scheduler.Bind {
		return len(o.binds[r.UID]) > 0
	}
	n := len(o.evictions[r.UID])
	return n > 0 && o.evictions[r.UID][n-1].Outcome != eventlog.EvictRefused
}

// carryOnce is one process, which carries out the requests without a result and may crash. It reports whether it came
// to the end.
func carryOnce(t *rapid.T, s *server, requests []engine.Effect, crash <-chan struct{},
	results outcomes) bool {
	r := run(t, s, effect.Options{Workers: rapid.IntRange(1, 4).Draw(t, "workers")})
	for _, request := range requests {
		if !results.ended(request) {
			r.Carry(ready(request))
		}
	}
	drained := make(chan error, 1)
	go func() { drained <- r.Drain(t.Context()) }()
	ended := false
	select {
	case err := <-drained:
		if err != nil {
			t.Fatal(err)
		}
		ended = true
	case <-crash:
	}
	r.stop()
	for _, p := range r.Take() {
		switch p := p.(type) {
		case *eventlog.BindResult:
			results.binds[p.UID] = append(results.binds[p.UID], p)
		case *eventlog.EvictResult:
			results.evictions[p.UID] = append(results.evictions[p.UID], p)
		}
	}
	return ended
}

// checkResults compares the results with the objects at the API server.
func checkResults(t *rapid.T, s *server, requests []engine.Effect, all outcomes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, nodes := range s.binds {
		if len(nodes) > 1 {
			t.Fatalf("pod %s was bound to %v", uid, nodes)
		}
	}
	for _, r := range requests {
		pod := s.pods[r.Name]
		there := pod != nil && pod.UID == r.UID
		if r.Kind == scheduler.Evict {
			checkEviction(t, s, r, there && pod.DeletionTimestamp == nil, all)
			continue
		}
		results := all.binds
		if len(results[r.UID]) != 1 {
			t.Fatalf("pod %s has %d results", r.UID, len(results[r.UID]))
		}
		result := results[r.UID][0]
		bound := len(s.binds[r.UID]) == 1 && s.binds[r.UID][0] == r.Node
		switch {
		case result.Outcome == eventlog.BindBound && !bound,
			result.Outcome == eventlog.BindFailed && len(s.binds[r.UID]) > 0,
			result.Outcome == eventlog.BindConflict && there && pod.DeletionTimestamp == nil &&
				(bound || pod.Spec.NodeName == ""):
			t.Fatalf("pod %s has the result %v %q, bound to %v, the pod there is %+v", r.UID, result.Outcome,
				result.Message, s.binds[r.UID], pod)
		}
	}
}

// checkEviction compares the results of an eviction with the pod at the API server: stays says that the pod exists and
// is not being deleted. A drain leaves a refused eviction to the next process.
func checkEviction(t *rapid.T, s *server, r engine.Effect, stays bool, all outcomes) {
	results := all.evictions[r.UID]
	if len(results) == 0 || !all.ended(r) {
		return
	}
	for _, before := range results[:len(results)-1] {
		if before.Outcome != eventlog.EvictRefused {
			t.Fatalf("pod %s has results after %+v", r.UID, before)
		}
	}
	last := results[len(results)-1]
	switch gone := last.Outcome == eventlog.EvictDone || last.Outcome == eventlog.EvictGone; {
	case gone && stays,
		last.Outcome == eventlog.EvictGivenUp && (!r.MakesRoom || s.deletes[r.UID] > 0),
		last.Outcome == eventlog.EvictWithdrawn:
		t.Fatalf("pod %s has the result %v %q, was deleted %d times, and stays: %v", r.UID, last.Outcome, last.Message,
			s.deletes[r.UID], stays)
	}
}
