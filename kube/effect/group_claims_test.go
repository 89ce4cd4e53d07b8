package effect_test

import (
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/effect"
	"github.com/rollcall-sched/rollcall/scheduler"
)

var ofGroup = resourcev1.ResourceClaimConsumerReference{
	APIGroup: schedulingv1beta1.GroupName, Resource: "podgroups", Name: "g", UID: "group",
}

// withGroup is withDevices for two pods of a PodGroup that has the claim.
func withGroup(t *testing.T) (s *server, a, b engine.Effect) {
	s, a = withDevices(t)
	s.addPod("b", "v")
	a.GroupClaims = map[string]resourcev1.ResourceClaimConsumerReference{"gpu": ofGroup}
	b = bind("b", "v", "n1")
	b.Claims, b.GroupClaims, b.Devices = a.Claims, a.GroupClaims, a.Devices
	return s, a, b
}

// known is Options.Whole of a process that knows all that the server has.
func known(s *server) func(eventlog.Resource, string, string) eventlog.Object {
	return func(res eventlog.Resource, _, name string) eventlog.Object {
		s.mu.Lock()
		defer s.mu.Unlock()
		if claim := s.devices[name]; res == eventlog.ResourceClaims && claim != nil {
			return claim.DeepCopy()
		}
		return nil
	}
}

func giveBack(claims ...string) engine.Effect {
	e := scheduler.Effect{Kind: scheduler.GiveBack, Seq: 9, Namespace: "ns", Name: "g", UID: "group"}
	for _, name := range claims {
		e.Devices = append(e.Devices, eventlog.DeviceClaim{Claim: name, UID: "g"})
	}
	return engine.Effect{Effect: e}
}

// callFaults are the ways in which a call goes wrong that is made again.
var callFaults = []fault{{}, {code: 409}, {code: 500}, {code: 500, after: true}, {code: -1}, {code: -1, after: true},
	{code: -2}, {code: -2, after: true}}

// The pods of a PodGroup have its claim reserved for it once, whichever is first, and whatever goes wrong.
func TestTheClaimOfAPodGroupIsReservedForIt(t *testing.T) {
	for _, path := range []string{"/resourceclaims/gpu", "/resourceclaims/gpu/status"} {
		for _, method := range []string{"GET", "PUT"} {
			for _, f := range callFaults {
				s, a, b := withGroup(t)
				s.fault = first(method, path, f)
				r := run(t, s, effect.Options{Whole: known(s)})
				for _, result := range r.results(t, a, b) {
					if got := result.(*eventlog.BindResult); got.Outcome != eventlog.BindBound {
						t.Errorf("%s %s %v: pod %s: %v %q", method, path, f, got.UID, got.Outcome, got.Message)
					}
				}
				status := s.devices["gpu"].Status
				if status.Allocation == nil || !reflect.DeepEqual(status.ReservedFor,
					[]resourcev1.ResourceClaimConsumerReference{ofGroup}) {
					t.Errorf("%s %s %v: the claim's status is %+v", method, path, f, status)
				}
				r.stop()
			}
		}
	}
}

// A pod that is not bound leaves the claim to its PodGroup. The bind reports its result once the scheduler knows the
// claim as it is: before, it would treat the devices as free.
func TestAPodThatIsNotBoundLeavesTheClaimToItsPodGroup(t *testing.T) {
	s, a, _ := withGroup(t)
	s.fault = first("POST", "/binding", fault{code: 403})
	behind := atomic.Int32{}
	behind.Store(3)
	stale := s.devices["gpu"].DeepCopy()
	now := known(s)
	r := run(t, s, effect.Options{Whole: func(res eventlog.Resource, namespace, name string) eventlog.Object {
		if behind.Add(-1) >= 0 {
			return stale
		}
		return now(res, namespace, name)
	}})
	defer r.stop()
	got := r.results(t, a)[0].(*eventlog.BindResult)
	status := s.devices["gpu"].Status
	if got.Outcome != eventlog.BindFailed || status.Allocation == nil || len(status.ReservedFor) != 1 {
		t.Errorf("the result is %v %q, the claim's status %+v", got.Outcome, got.Message, status)
	}
	if left := behind.Load(); left >= 0 {
		t.Errorf("the result was told %d looks before the claim was known", left+1)
	}
	if len(r.reports) > 0 {
		t.Errorf("the reports are %q", r.reports)
	}
}

// A bind that fails before the claim is written has nothing to wait for.
func TestAPodOfAPodGroupThatWroteNothingEndsAtOnce(t *testing.T) {
	s, a, _ := withGroup(t)
	s.fault = first("PUT", "/resourceclaims/gpu", fault{code: 403})
	r := run(t, s, effect.Options{})
	defer r.stop()
	got := r.results(t, a)[0].(*eventlog.BindResult)
	if status := s.devices["gpu"].Status; got.Outcome != eventlog.BindFailed || status.Allocation != nil {
		t.Errorf("the result is %v %q, the claim's status %+v", got.Outcome, got.Message, status)
	}
}

// reserved is a server whose claim is allocated and reserved for the PodGroup, and for others.
func reserved(t *testing.T, others ...resourcev1.ResourceClaimConsumerReference) (*server, engine.Effect) {
	s, a, _ := withGroup(t)
	claim := gpuClaim()
	claim.Status.Allocation = gpuResult()
	claim.Status.ReservedFor = append([]resourcev1.ResourceClaimConsumerReference{ofGroup}, others...)
	put(s, s.devices, claim)
	a.Devices = nil
	return s, a
}

func TestTheClaimsOfAPodGroupAreGivenBack(t *testing.T) {
	other := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "x", UID: "w"}
	for _, shared := range []bool{false, true} {
		for _, method := range []string{"GET", "PUT"} {
			for _, f := range append(callFaults, fault{code: 429}) {
				var others []resourcev1.ResourceClaimConsumerReference
				if shared {
					others = append(others, other)
				}
				s, _ := reserved(t, others...)
				times := 3
				s.fault = func(r string) fault {
					if strings.HasPrefix(r, method+" ") && times > 0 {
						times--
						return f
					}
					return fault{}
				}
				r := run(t, s, effect.Options{})
				if results := r.results(t, giveBack("missing", "gpu")); len(results) > 0 {
					t.Fatalf("the results are %v", results)
				}
				status := s.devices["gpu"].Status
				if (status.Allocation != nil) != shared || !slices.Equal(status.ReservedFor, others) {
					t.Errorf("shared %v, %s %+v: the claim's status is %+v", shared, method, f, status)
				}
				r.stop()
			}
		}
	}
}

// A result reports the writes that the API server permanently refuses, and they are not tried again. The claim of
// another PodGroup is not touched, nor another claim of the name.
func TestClaimsThatAreNotToBeGivenBackStay(t *testing.T) {
	for name, change := range map[string]func(s *server, x *engine.Effect){
		"refused":       func(s *server, _ *engine.Effect) { s.fault = all("PUT", fault{code: 403}) },
		"failing":       func(s *server, _ *engine.Effect) { s.fault = all("GET", fault{code: 500}) },
		"another claim": func(_ *server, x *engine.Effect) { x.Devices[0].UID = "other" },
		"another group": func(_ *server, x *engine.Effect) { x.UID = "other" },
	} {
		s, bound := reserved(t)
		request := giveBack("gpu")
		change(s, &request)
		r := run(t, s, effect.Options{})
		r.results(t, request)
		if status := s.devices["gpu"].Status; status.Allocation == nil || len(status.ReservedFor) != 1 {
			t.Errorf("%s: the claim's status is %+v", name, status)
		}
		told := len(r.reports) == 1 && strings.Contains(r.reports[0], "its claims stay reserved for it")
		if told != (s.fault != nil) {
			t.Errorf("%s: the reports are %q", name, r.reports)
		}
		s.mu.Lock()
		s.fault = nil
		s.mu.Unlock()
		if got := r.results(t, bound)[0].(*eventlog.BindResult); got.Outcome != eventlog.BindBound {
			t.Errorf("%s: a bind after that: %v %q", name, got.Outcome, got.Message)
		}
		r.stop()
	}
}

// all makes every request of a method go wrong.
func all(method string, f fault) func(string) fault {
	return func(r string) fault {
		if strings.HasPrefix(r, method+" ") {
			return f
		}
		return fault{}
	}
}

// A pod is never bound without its devices, whenever its bind is asked for while the claims of its PodGroup are being
// given back, and whatever becomes of the calls.
func TestNoPodIsBoundWithoutTheDevicesOfItsPodGroup(t *testing.T) {
	for _, f := range callFaults {
		for at := range 6 {
			s, a := reserved(t)
			var r *running
			requests, faults := 0, 2
			s.fault = func(request string) fault {
				if !strings.Contains(request, "/resourceclaims/") {
					return fault{}
				}
				if requests++; requests == at {
					go r.Carry(ready(a)) // the server is at work, and the effects are as well
				}
				if strings.HasPrefix(request, "PUT ") && faults > 0 {
					faults--
					return f
				}
				return fault{}
			}
			r = run(t, s, effect.Options{Whole: known(s)})
			var results []eventlog.Payload
			if at == 0 {
				results = r.results(t, a, giveBack("gpu"))
			} else {
				results = r.results(t, giveBack("gpu"))
			}
			for len(results) == 0 { // it may not have been taken on yet
				results = r.results(t, a)
			}
			got := results[0].(*eventlog.BindResult)
			status := s.devices["gpu"].Status
			held := status.Allocation != nil && slices.Contains(status.ReservedFor, ofGroup)
			// The outcome of a call on its way has to be known before the pod has its devices.
			unknown := at == 2 && f.code != 0 && f.code != 409
			bound := got.Outcome == eventlog.BindBound
			if bound != (s.pods["a"].Spec.NodeName != "") || bound && (unknown || !held) {
				t.Errorf("%+v, bind at request %d: %v %q, the claim's status is %+v", f, at, got.Outcome, got.Message,
					status)
			}
			r.stop()
		}
	}
}
