package effect_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/effect"
)

// lateCall is a request that is on its way while its sender gives it up, or ends. It lands later: the server carries it
// out, and nobody hears the answer.
type lateCall struct {
	request *http.Request
	body    []byte
}

// keep reads a request so that it may land later.
func keep(r *http.Request) *lateCall {
	call := &lateCall{request: r.Clone(r.Context())}
	call.body, _ = io.ReadAll(readerOf(r))
	r.Body = io.NopCloser(bytes.NewReader(call.body))
	return call
}

// land carries it out. The server must not be locked.
func (c *lateCall) land(s *server) {
	c.request.Body = io.NopCloser(bytes.NewReader(c.body))
	s.ServeHTTP(httptest.NewRecorder(), c.request)
}

// claimBinds are binds that write to claims: each way of doing so, with the server on which that happens.
var claimBinds = map[string]func(t *testing.T) (*server, engine.Effect){
	"own": withDevices,
	"shared": func(t *testing.T) (*server, engine.Effect) { // another pod has it allocated
		s, request := withDevices(t)
		claim := gpuClaim()
		claim.Finalizers = []string{resourcev1.Finalizer}
		claim.Status.Allocation = gpuResult()
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
			{Resource: "pods", Name: "other", UID: "other"},
		}
		put(s, s.devices, claim)
		return s, request
	},
	"of a group": func(t *testing.T) (*server, engine.Effect) {
		s, a, _ := withGroup(t)
		return s, a
	},
	"made": withExtended,
}

// heedingPods are options of a process that knows which pods there are, and all claims.
func heedingPods(s *server) effect.Options {
	return effect.Options{Whole: known(s), Still: func(x engine.Effect) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if pod := s.pods[x.Name]; pod == nil || pod.UID != x.UID {
			return errors.New("the pod is gone")
		}
		return nil
	}}
}

// killPoint is the state when a process ends, and the call that it has on its way then.
type killPoint struct {
	before  string // the call
	call    *lateCall
	version int
	pods    map[string]*v1.Pod
	devices map[string]*resourcev1.ResourceClaim
}

// killPoints carries out a bind and returns the state before each of its calls.
func killPoints(t *testing.T, of func(*testing.T) (*server, engine.Effect), refused bool) (points []killPoint) {
	s, request := of(t)
	if refused {
		s.fault = times(99, "POST", "/binding", fault{code: 403})
	}
	s.raw = func(r *http.Request) bool {
		p := killPoint{before: r.Method + " " + r.URL.Path, call: keep(r), version: s.version,
			pods: map[string]*v1.Pod{}, devices: map[string]*resourcev1.ResourceClaim{}}
		for name, pod := range s.pods {
			p.pods[name] = pod.DeepCopy()
		}
		for name, claim := range s.devices {
			p.devices[name] = claim.DeepCopy()
		}
		points = append(points, p)
		return false
	}
	r := run(t, s, heedingPods(s))
	defer r.stop()
	r.results(t, request)
	return points
}

// A process ends before any of its calls to the API server, with that call on its way: it lands at any time after that,
// or never. The next process, which has only the log, carries the bind out or takes its writes back, whether the pod
// still exists or not. Once it has reported the result, nothing changes any longer that is free according to the log.
func TestBindsWithClaimsAreKilledAtAnyCall(t *testing.T) {
	cases := 0
	for name, of := range claimBinds {
		for _, refused := range []bool{false, true} {
			for _, point := range killPoints(t, of, refused) {
				for _, gone := range []bool{false, true} {
					for landing := range 12 {
						if landing > 0 && strings.HasPrefix(point.before, "GET ") {
							break
						}
						cases++
						what := fmt.Sprintf("%s, refused %v, ended before %s, pod gone %v, landing %d", name, refused,
							point.before, gone, landing)
						restart(t, of, point, refused, gone, landing, what)
					}
				}
			}
		}
	}
	if cases < 400 {
		t.Errorf("only %d cases were tried", cases)
	}
}

// restart is one of these cases: the call lands before the request of that number, after the result if there are not so
// many, or never if that is 0.
func restart(t *testing.T, of func(*testing.T) (*server, engine.Effect), point killPoint, refused, gone bool,
	landing int, what string) {
	t.Helper()
	s, request := of(t)
	s.version = point.version
	s.pods, s.devices = map[string]*v1.Pod{}, map[string]*resourcev1.ResourceClaim{}
	for name, pod := range point.pods {
		s.pods[name] = pod.DeepCopy()
	}
	for name, claim := range point.devices {
		s.devices[name] = claim.DeepCopy()
	}
	if gone {
		delete(s.pods, "a")
	}
	if refused {
		s.fault = times(99, "POST", "/binding", fault{code: 403})
	}
	lands := strings.HasSuffix(point.before, "/binding") && refused // it was refused
	requests := 0
	s.raw = func(*http.Request) bool {
		if requests++; requests == landing && !lands {
			lands = true
			s.mu.Unlock()
			point.call.land(s)
			s.mu.Lock()
		}
		return false
	}
	request.Earlier, request.Pod = true, point.pods["a"]
	r := run(t, s, heedingPods(s))
	got := r.results(t, request)[0].(*eventlog.BindResult)
	r.stop()
	check := func(when string) {
		t.Helper()
		if err := stands(s, request, got); err != nil {
			t.Fatalf("%s: %s the result is %v %q: %v", what, when, got.Outcome, got.Message, err)
		}
	}
	check("when it is told,")
	own := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "a", UID: "u"}
	if claim := s.devices["gpu"]; claim != nil && got.Outcome != eventlog.BindBound && landing == 0 &&
		slices.Contains(claim.Status.ReservedFor, own) {
		t.Errorf("%s: the claim's status is %+v", what, claim.Status)
	}
	if landing > 0 && !lands {
		point.call.land(s)
		check("after the call has landed,")
	}
}

// stands compares the result of a bind with the pod and its claim at the API server.
func stands(s *server, request engine.Effect, got *eventlog.BindResult) error {
	pod, claim, wanted := s.pods["a"], s.devices["gpu"], &request.Devices[0]
	consumer := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "a", UID: "u"}
	if of, ok := request.GroupClaims["gpu"]; ok {
		consumer = of
	}
	switch bound := pod != nil && pod.Spec.NodeName == "n1"; {
	case bound != (got.Outcome == eventlog.BindBound):
		return fmt.Errorf("the pod is %+v", pod)
	case bound && (claim == nil || !wanted.SameDevices(claim) || !slices.Contains(claim.Status.ReservedFor, consumer)):
		return fmt.Errorf("the claim is %+v", claim)
	case bound, claim == nil, request.GroupClaims != nil && claim.Status.Allocation == nil:
		return nil
	case request.GroupClaims != nil: // it is left to the PodGroup, and the scheduler knows it
		if !reflect.DeepEqual(claim.Status.ReservedFor, []resourcev1.ResourceClaimConsumerReference{ofGroup}) {
			return fmt.Errorf("the claim's status is %+v", claim.Status)
		}
		return nil
	case claim.Status.Allocation == nil && len(claim.Status.ReservedFor) == 0:
		return nil
	case !slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.UID == "other" // whose devices they are as long as it is there, and so not free
	}):
		return fmt.Errorf("the claim's status is %+v", claim.Status)
	}
	return nil
}

// A call without an answer may land when its process has reported the result, which says that the devices are free. The
// claim is of another version then.
func TestWhatIsNotAnsweredReservesNothingLater(t *testing.T) {
	for name, of := range claimBinds {
		for _, elsewhere := range []bool{false, true} {
			for _, held := range []string{"POST /resourceclaims", "PUT /resourceclaims/gpu",
				"PUT /resourceclaims/gpu/status"} {
				s, request := of(t)
				method, end, _ := strings.Cut(held, " ")
				var late *lateCall
				s.raw = func(r *http.Request) bool {
					if late != nil || r.Method != method || !strings.HasSuffix(r.URL.Path, end) {
						return false
					}
					late = keep(r)
					if delete(s.pods, "a"); elsewhere {
						pod := s.addPod("a", "u")
						pod.Spec.NodeName = "n9"
						put(s, s.pods, pod)
					}
					return true
				}
				opts := heedingPods(s)
				opts.Still = func(engine.Effect) error {
					s.mu.Lock()
					defer s.mu.Unlock()
					if late != nil {
						return errors.New("the pod need not be bound")
					}
					return nil
				}
				r := run(t, s, opts)
				got := r.results(t, request)[0].(*eventlog.BindResult)
				r.stop()
				if late == nil {
					continue // there is no such call
				}
				late.land(s)
				if err := stands(s, request, got); err != nil {
					t.Errorf("%s, elsewhere %v, held %s: the result is %v %q: %v", name, elsewhere, held, got.Outcome,
						got.Message, err)
				}
			}
		}
	}
}

// The effects stop asking for a write that the API server permanently refuses. The claim stays as it is, the result
// says so, and the bind ends once the scheduler knows it.
func TestAClaimThatCannotBeGivenBackEndsTheBind(t *testing.T) {
	for name, of := range claimBinds {
		for _, code := range []int{403, 422} {
			s, request := of(t)
			refused := false
			s.fault = func(r string) fault {
				switch {
				case strings.HasSuffix(r, "/binding"):
					refused = true
					return fault{code: 403}
				case refused && !strings.HasPrefix(r, "GET "):
					return fault{code: code}
				}
				return fault{}
			}
			looks, now := 0, known(s)
			opts := effect.Options{Whole: func(res eventlog.Resource, namespace, name string) eventlog.Object {
				if claim := now(res, namespace, name); claim != nil && looks >= 3 {
					return claim
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if !refused {
					return nil
				}
				looks++
				old := gpuClaim()
				old.UID, old.ResourceVersion = s.devices["gpu"].UID, "1"
				return old
			}}
			r := run(t, s, opts)
			got := r.results(t, request)[0].(*eventlog.BindResult)
			claim := s.devices["gpu"]
			if got.Outcome != eventlog.BindFailed || claim == nil || claim.Status.Allocation == nil || looks != 3 {
				t.Errorf("%s, %d: the result is %v %q after %d looks, the claim is %+v", name, code, got.Outcome,
					got.Message, looks, claim)
			}
			told := slices.ContainsFunc(r.reports, func(m string) bool {
				return strings.Contains(m, "ResourceClaim gpu stays as it is")
			})
			if told != (name != "of a group") { // which keeps it anyway
				t.Errorf("%s, %d: the reports are %q", name, code, r.reports)
			}
			r.stop()
		}
	}
}

// A claim that had its devices when the pod was placed may be another one by now, or have others: it is not believed.
func TestAClaimThatHadItsDevicesIsCheckedAgain(t *testing.T) {
	on := func(node string) *v1.NodeSelector {
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}},
		}}}}
	}
	for name, c := range map[string]struct {
		uid  string
		on   *v1.NodeSelector
		want string
	}{
		"as it was":           {"g", on("n1"), ""},
		"of every node":       {"g", nil, ""},
		"made anew":           {"other", on("n1"), "claim ns/gpu is another one (UID other)"},
		"on other nodes":      {"g", on("n2"), "claim ns/gpu has its devices on other nodes than n1"},
		"selector of nothing": {"g", &v1.NodeSelector{}, "claim ns/gpu has its devices on other nodes than n1"},
		"selector that is no selector": {"g", &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "x", Operator: "Near"}}}}},
			"claim ns/gpu: node selector of its allocation: "},
	} {
		s, request := withDevices(t)
		node := &v1.Node{}
		node.Name = "n1"
		put(s, s.nodes, node)
		claim := gpuClaim()
		claim.UID = request.Devices[0].UID
		claim.Status.Allocation = gpuResult()
		claim.Status.Allocation.NodeSelector = c.on
		if c.uid != "g" {
			claim.UID = "other"
		}
		request.ClaimUIDs = map[string]types.UID{"gpu": request.Devices[0].UID}
		request.Devices = nil
		put(s, s.devices, claim)
		r := run(t, s, effect.Options{})
		got := r.results(t, request)[0].(*eventlog.BindResult)
		bound := got.Outcome == eventlog.BindBound
		if bound != (c.want == "") || !strings.Contains(got.Message, c.want) {
			t.Errorf("%s: the result is %v %q, want %q", name, got.Outcome, got.Message, c.want)
		}
		if reserved := len(s.devices["gpu"].Status.ReservedFor) > 0; reserved != (c.want == "") {
			t.Errorf("%s: the claim's status is %+v", name, s.devices["gpu"].Status)
		}
		r.stop()
	}
}
