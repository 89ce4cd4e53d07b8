package effect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/effect"
)

// withConditions is withDevices where the GPU has binding conditions.
func withConditions(t *testing.T) (*server, engine.Effect) {
	s, request := withDevices(t)
	decided := gpuClaim()
	decided.Status.Allocation = conditionalResult()
	devices, err := eventlog.NewDeviceClaim(decided)
	if err != nil {
		t.Fatal(err)
	}
	request.Devices = []eventlog.DeviceClaim{devices}
	return s, request
}

func conditionalResult() *resourcev1.AllocationResult {
	result := gpuResult()
	result.Devices.Results[0].BindingConditions = []string{"attached", "powered"}
	result.Devices.Results[0].BindingFailureConditions = []string{"broken"}
	return result
}

func is(condition string) metav1.Condition {
	return metav1.Condition{Type: condition, Status: metav1.ConditionTrue}
}

// tell has the driver say conditions of the GPU of the claim, with the server locked.
func tell(s *server, conditions ...metav1.Condition) {
	claim := s.devices["gpu"].DeepCopy()
	claim.Status.Devices = []resourcev1.AllocatedDeviceStatus{
		{Driver: "gpu.example.com", Pool: "n1", Device: "gpu-1", Conditions: []metav1.Condition{is("broken")}},
		{Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0", Conditions: conditions},
	}
	put(s, s.devices, claim)
}

// afterReads has something happen before the n-th time that the claim is read once it is reserved.
func afterReads(s *server, n int, happens func()) {
	s.before = func(request string) {
		if request != "GET /apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/gpu" ||
			s.devices["gpu"] == nil || len(s.devices["gpu"].Status.ReservedFor) == 0 {
			return
		}
		if n--; n == 0 {
			happens()
		}
	}
}

// resultOf carries out a bind that waits for others, which Drain would give up.
func resultOf(r *running, request engine.Effect) *eventlog.BindResult {
	r.Carry(ready(request))
	<-r.Finished()
	return r.Take()[0].(*eventlog.BindResult)
}

func TestAPodIsBoundOnceItsDevicesAreReady(t *testing.T) {
	s, request := withConditions(t)
	afterReads(s, 2, func() { tell(s, is("attached")) })
	next := s.before
	s.before = func(r string) {
		next(r)
		if s.countLocked("GET", "/resourceclaims/gpu") == 5 {
			tell(s, is("powered"), is("attached"),
				metav1.Condition{Type: "broken", Status: "False"})
		}
	}
	r := run(t, s, effect.Options{})
	defer r.stop()
	got := resultOf(r, request)
	if got.Outcome != eventlog.BindBound {
		t.Errorf("the result is %v %q", got.Outcome, got.Message)
	}
	// Read once to be allocated, then at once and every five seconds.
	const poll = 5 * time.Second
	if waits := r.clock.waited(); !slices.Equal(waits, []time.Duration{poll, poll, poll}) {
		t.Errorf("the waits are %v", waits)
	}
	if last := s.requests[len(s.requests)-1]; !strings.HasSuffix(last, "/binding") {
		t.Errorf("the last request is %s", last)
	}
	if n := s.count("PUT", "/status"); n != 1 {
		t.Errorf("the claim's status is written %d times", n)
	}
}

// A bind whose devices do not get ready fails with kube-scheduler's words, and the devices are given back.
func TestDevicesThatDoNotGetReadyFailTheBind(t *testing.T) {
	const timeout = "device binding timeout: claim=gpu"
	for name, c := range map[string]struct {
		happens func(*server)
		want    string
		waits   int
	}{
		"never":   {func(*server) {}, timeout, 13}, // not yet after 60 s
		"in part": {func(s *server) { tell(s, is("attached")) }, timeout, 13},
		"a failure": {func(s *server) {
			tell(s, is("attached"), is("powered"),
				metav1.Condition{Type: "broken", Status: "True", Reason: "NoCable", Message: "no \"cable\""})
		}, `device binding failed: claim=gpu, reason=NoCable, message="no \"cable\""`, 2},
		"deallocated": {func(s *server) {
			claim := s.devices["gpu"].DeepCopy()
			claim.Status = resourcev1.ResourceClaimStatus{}
			put(s, s.devices, claim)
		}, "claim ns/gpu got deallocated elsewhere in the meantime", 2},
		"another claim": {func(s *server) {
			claim := gpuClaim()
			claim.UID = "other"
			put(s, s.devices, claim)
		}, "claim ns/gpu is another one (UID other)", 2},
		"no claim": {func(s *server) { delete(s.devices, "gpu") }, `"gpu" not found`, 2},
	} {
		s, request := withConditions(t)
		afterReads(s, 3, func() { c.happens(s) })
		r := run(t, s, effect.Options{DeviceTimeout: time.Minute})
		got := resultOf(r, request)
		if got.Outcome != eventlog.BindFailed || !strings.Contains(got.Message, c.want) {
			t.Errorf("%s: the result is %v %q, want %q", name, got.Outcome, got.Message, c.want)
		}
		if waits := r.clock.waited(); len(waits) != c.waits {
			t.Errorf("%s: the waits are %v, want %d", name, waits, c.waits)
		}
		if s.count("POST", "/binding") > 0 {
			t.Errorf("%s: the pod was bound", name)
		}
		if claim := s.devices["gpu"]; claim != nil && (claim.Status.Allocation != nil ||
			len(claim.Status.ReservedFor) > 0 || len(claim.Status.Devices) > 0) {
			t.Errorf("%s: the claim's status is %+v", name, claim.Status)
		}
		r.stop()
	}
}

// The time counts from the allocation, also for the next process and for a pod that comes to share the claim.
func TestTheWaitForDevicesBeginsWithTheirAllocation(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		s, request := withConditions(t)
		claim := gpuClaim()
		claim.Status.Allocation = conditionalResult()
		claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Unix(1000-50, 0)}
		if earlier {
			claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
				{Resource: "pods", Name: "a", UID: "u"},
			}
		}
		put(s, s.devices, claim)
		request.Earlier = earlier
		r := run(t, s, effect.Options{DeviceTimeout: time.Minute})
		got := resultOf(r, request)
		if got.Outcome != eventlog.BindFailed || got.Message != "device binding timeout: claim=gpu" {
			t.Errorf("earlier %v: the result is %v %q", earlier, got.Outcome, got.Message)
		}
		if waits := r.clock.waited(); len(waits) != 3 { // after 50, 55 and 60 s
			t.Errorf("earlier %v: the waits are %v", earlier, waits)
		}
		r.stop()
	}
}

// An allocation of a time to come, by the clock of another machine, is not waited for beyond the time-out.
func TestAnAllocationToComeIsWaitedForNoLonger(t *testing.T) {
	s, request := withConditions(t)
	claim := gpuClaim()
	claim.Status.Allocation = conditionalResult()
	claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Unix(1000+24*3600, 0)}
	put(s, s.devices, claim)
	r := run(t, s, effect.Options{DeviceTimeout: time.Minute})
	defer r.stop()
	got := resultOf(r, request)
	if got.Outcome != eventlog.BindFailed || got.Message != "device binding timeout: claim=gpu" ||
		len(r.clock.waited()) != 13 { // not yet after 60 s
		t.Errorf("the result is %v %q, the waits are %v", got.Outcome, got.Message, r.clock.waited())
	}
}

// The effects use the claim that the process knows, once it is no older than the last write.
func TestDevicesAreLookedAtWithoutReadingThem(t *testing.T) {
	s, request := withConditions(t)
	looks := 0
	r := run(t, s, effect.Options{Whole: func(res eventlog.Resource, namespace, name string) eventlog.Object {
		s.mu.Lock()
		defer s.mu.Unlock()
		if res != eventlog.ResourceClaims || namespace != "ns" || name != "gpu" {
			t.Errorf("asked for %s %s/%s", res, namespace, name)
		}
		switch looks++; looks {
		case 1: // as it was before
			old := gpuClaim()
			old.ResourceVersion = "1"
			return old
		case 3:
			tell(s, is("attached"), is("powered"))
		}
		return s.devices["gpu"]
	}})
	defer r.stop()
	got := resultOf(r, request)
	if got.Outcome != eventlog.BindBound || looks != 3 || s.count("GET", "/resourceclaims/gpu") != 1 {
		t.Errorf("the result is %v %q, after %d looks: %v", got.Outcome, got.Message, looks, s.requests)
	}
}

// A pod that is gone no longer waits for its devices.
func TestAPodThatIsGoneWaitsForNoDevices(t *testing.T) {
	s, request := withConditions(t)
	gone := false
	afterReads(s, 2, func() { gone = true; delete(s.pods, "a") })
	r := run(t, s, effect.Options{Still: func(engine.Effect) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if gone {
			return errors.New("the pod is gone")
		}
		return nil
	}})
	defer r.stop()
	got := resultOf(r, request)
	if got.Outcome != eventlog.BindConflict || s.devices["gpu"].Status.Allocation != nil || len(r.clock.waited()) != 2 {
		t.Errorf("the result is %v %q, the waits are %v, the claim %+v", got.Outcome, got.Message, r.clock.waited(),
			s.devices["gpu"].Status)
	}
}

// Without its feature gate nothing waits for conditions, as in kube-scheduler.
func TestConditionsCountWithTheirFeatureGateOnly(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DRADeviceBindingConditions,
		false)
	s, request := withConditions(t)
	r := run(t, s, effect.Options{})
	defer r.stop()
	if got := resultOf(r, request); got.Outcome != eventlog.BindBound || len(r.clock.waited()) > 0 {
		t.Errorf("the result is %v %q, the waits are %v", got.Outcome, got.Message, r.clock.waited())
	}
}
