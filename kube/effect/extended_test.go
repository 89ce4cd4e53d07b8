package effect_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/effect"
)

// withExtended is a server with pod a, which requests GPUs as an extended resource, and the bind whose decision
// allocates them to a claim that is to be made.
func withExtended(t *testing.T) (*server, engine.Effect) {
	s := newServer(t)
	pod := s.addPod("a", "u")
	for _, name := range []string{"main", "side"} {
		c := v1.Container{Name: name}
		c.Resources.Requests = v1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Config = []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: opaque("class")}}
	put(s, s.classes, class)
	decided := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpu"}}
	decided.Status.Allocation = &resourcev1.AllocationResult{}
	for i, name := range []string{"container-0-request-0", "container-1-request-0"} {
		decided.Spec.Devices.Requests = append(decided.Spec.Devices.Requests, resourcev1.DeviceRequest{Name: name,
			Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}})
		decided.Status.Allocation.Devices.Results = append(decided.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Request: name, Driver: "d", Pool: "n1",
				Device: []string{"g0", "g1"}[i]})
	}
	devices, err := eventlog.NewMadeClaim(decided)
	if err != nil {
		t.Fatal(err)
	}
	request := bind("a", "u", "n1")
	request.Claims, request.Devices, request.Pod = []string{"gpu"}, []eventlog.DeviceClaim{devices}, pod.DeepCopy()
	return s, request
}

// checkMade reports faults of the claim and the pod when the pod is bound.
func checkMade(t *testing.T, s *server, what string) {
	t.Helper()
	claim := s.devices["gpu"]
	if claim == nil || claim.Status.Allocation == nil || len(claim.Status.ReservedFor) != 1 ||
		claim.Status.ReservedFor[0].UID != "u" || !slices.Equal(claim.Finalizers, []string{resourcev1.Finalizer}) ||
		len(s.devices) != 1 {
		t.Fatalf("%s: the claims are %+v", what, s.devices)
	}
	owner := metav1.GetControllerOf(claim)
	if owner == nil || owner.UID != "u" || owner.Name != "a" || owner.Kind != "Pod" ||
		claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" ||
		len(claim.Spec.Devices.Requests) != 2 || len(claim.Status.Allocation.Devices.Config) != 1 {
		t.Errorf("%s: the claim is %+v", what, claim)
	}
	want := &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "gpu",
		RequestMappings: []v1.ContainerExtendedResourceRequest{
			{ContainerName: "main", ResourceName: "example.com/gpu", RequestName: "container-0-request-0"},
			{ContainerName: "side", ResourceName: "example.com/gpu", RequestName: "container-1-request-0"},
		}}
	if pod := s.pods["a"]; !reflect.DeepEqual(pod.Status.ExtendedResourceClaimStatus, want) ||
		pod.Spec.NodeName != "n1" {
		t.Errorf("%s: the pod is on %q, and its status says %+v", what, pod.Spec.NodeName,
			pod.Status.ExtendedResourceClaimStatus)
	}
}

// The claim is made, allocated and reserved once, and the pod's status says which container uses which request of it,
// before the pod is bound, whatever becomes of the calls.
func TestAClaimIsMadeForExtendedResources(t *testing.T) {
	for _, step := range []string{"", "POST /resourceclaims", "PUT /resourceclaims/gpu/status",
		"PATCH /pods/a/status"} {
		for _, f := range []fault{{code: 409}, {code: 409, after: true}, {code: 500, after: true}, {code: 503},
			{code: -2}, {code: -1, after: true}} {
			method, end, _ := strings.Cut(step, " ")
			if step == "" {
				f = fault{}
			}
			s, request := withExtended(t)
			s.fault = first(method, end, f)
			s.before = func(r string) {
				if strings.HasSuffix(r, "/binding") && s.pods["a"].Status.ExtendedResourceClaimStatus == nil {
					t.Errorf("%s %v: the pod is bound before its status has the claim", step, f)
				}
			}
			r := run(t, s, effect.Options{})
			if got := r.results(t, request)[0].(*eventlog.BindResult); got.Outcome != eventlog.BindBound {
				t.Fatalf("%s %v: the result is %v %q", step, f, got.Outcome, got.Message)
			}
			checkMade(t, s, step)
			if f == (fault{}) && len(s.requests) != 5 {
				t.Errorf("the calls are %q", s.requests)
			}
			r.stop()
		}
	}
}

// A process that ends halfway leaves the claim as it is then: the next one, which has only the log, resumes from there.
// It ends before each of its calls here, also before each call that takes back a write of a bind.
func TestAClaimThatAnEarlierProcessHasMadeIsTakenUp(t *testing.T) {
	type state struct {
		before  string
		pods    map[string]*v1.Pod
		devices map[string]*resourcev1.ResourceClaim
	}
	for _, fails := range []bool{false, true} {
		var states []state
		s, request := withExtended(t)
		s.before = func(r string) {
			x := state{r, map[string]*v1.Pod{}, map[string]*resourcev1.ResourceClaim{}}
			for name, pod := range s.pods {
				x.pods[name] = pod.DeepCopy()
			}
			for name, claim := range s.devices {
				x.devices[name] = claim.DeepCopy()
			}
			states = append(states, x)
		}
		if fails {
			s.fault = times(99, "POST", "/binding", fault{code: 403})
		}
		r := run(t, s, effect.Options{})
		r.results(t, request)
		r.stop()
		for _, x := range states {
			next, request := withExtended(t)
			next.pods, next.devices, next.version = x.pods, x.devices, s.version
			request.Earlier, request.Pod = true, x.pods["a"].DeepCopy()
			r := run(t, next, effect.Options{})
			if got := r.results(t, request)[0].(*eventlog.BindResult); got.Outcome != eventlog.BindBound {
				t.Fatalf("after the end before %s: the result is %v %q", x.before, got.Outcome, got.Message)
			}
			checkMade(t, next, "after the end before "+x.before)
			r.stop()
		}
	}
}

// A pod that was changed since, so that the claim's requests differ from its containers' requests, is not bound.
func TestAClaimIsNotMadeForAnotherPodThanWasDecided(t *testing.T) {
	s, request := withExtended(t)
	request.Pod.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1")
	r := run(t, s, effect.Options{})
	defer r.stop()
	got := r.results(t, request)[0].(*eventlog.BindResult)
	if got.Outcome != eventlog.BindFailed || len(s.devices) > 0 ||
		!strings.Contains(got.Message, `request container-0-request-0 is of no extended resource of container "main"`) {
		t.Errorf("the result is %v %q, the claims are %v", got.Outcome, got.Message, s.devices)
	}
}

// A bind that fails deletes the claim, without its finalizer, before it reports the result; whatever becomes of the
// calls.
func TestAMadeClaimIsDeletedIfThePodIsNotBound(t *testing.T) {
	for _, step := range []string{"PUT /resourceclaims/gpu", "DELETE /resourceclaims/gpu", ""} {
		for _, f := range []fault{{code: 403}, {code: 409}, {code: 500, after: true}, {code: -1, after: true},
			{code: -2}} {
			method, end, _ := strings.Cut(step, " ")
			s, request := withExtended(t)
			refused, once := false, step != ""
			s.fault = func(r string) fault {
				switch {
				case strings.HasSuffix(r, "/binding"):
					refused = true
					return fault{code: 403}
				case refused && once && strings.HasPrefix(r, method+" ") && strings.HasSuffix(r, end):
					once = false
					return f
				}
				return fault{}
			}
			r := run(t, s, effect.Options{})
			got := r.results(t, request)[0].(*eventlog.BindResult)
			if got.Outcome != eventlog.BindFailed || len(s.devices) > 0 {
				t.Errorf("%s %v: the result is %v %q, the claims are %v", step, f, got.Outcome, got.Message, s.devices)
			}
			r.stop()
		}
	}
}

// A pod that is not bound must not keep the name of the claim that is deleted: the kubelet would wait for it. Its
// status keeps the names of its other claims, and a refusal keeps no devices.
func TestThePodOfADeletedClaimDoesNotNameIt(t *testing.T) {
	for _, f := range []fault{{}, {code: 409}, {code: 403}, {code: 500, after: true}, {code: -1, after: true},
		{code: -2}} {
		for _, other := range []string{"", "another"} {
			s, request := withExtended(t)
			refused := false
			s.fault = func(r string) fault {
				switch {
				case strings.HasSuffix(r, "/binding"):
					if refused = true; other != "" {
						s.pods["a"].Status.ExtendedResourceClaimStatus.ResourceClaimName = other
					}
					return fault{code: 403}
				case refused && strings.HasPrefix(r, "PATCH "):
					refused = false
					return f
				}
				return fault{}
			}
			r := run(t, s, effect.Options{})
			got := r.results(t, request)[0].(*eventlog.BindResult)
			told := s.pods["a"].Status.ExtendedResourceClaimStatus
			if got.Outcome != eventlog.BindFailed || len(s.devices) > 0 {
				t.Errorf("%v: the result is %v %q, the claims are %v", f, got.Outcome, got.Message, s.devices)
			}
			if stays := other != "" || f.code == 403; (told != nil) != stays {
				t.Errorf("%v, other %q: the pod's status says %+v", f, other, told)
			}
			r.stop()
		}
	}
}

// A claim of that name that is another pod's, or nobody's, is neither used nor deleted.
func TestAClaimThatWasNotMadeForThePodIsLeftAlone(t *testing.T) {
	for _, owned := range []bool{false, true} {
		s, request := withExtended(t)
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpu", UID: "x"}}
		if owned {
			controller := true
			claim.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
			claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "b", UID: "v", Controller: &controller}}
		}
		before := put(s, s.devices, claim).DeepCopy()
		r := run(t, s, effect.Options{})
		got := r.results(t, request)[0].(*eventlog.BindResult)
		if got.Outcome != eventlog.BindFailed ||
			!strings.Contains(got.Message, "claim ns/gpu was not made for the pod") ||
			!reflect.DeepEqual(s.devices["gpu"], before) {
			t.Errorf("owned %v: the result is %v %q, the claim %+v", owned, got.Outcome, got.Message, s.devices["gpu"])
		}
		r.stop()
	}
}
