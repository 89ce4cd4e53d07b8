package effect_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/effect"
)

// opaque is a driver's configuration.
func opaque(text string) resourcev1.DeviceConfiguration {
	return resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
		Driver: "gpu.example.com", Parameters: runtime.RawExtension{Raw: []byte(`{"is":"` + text + `"}`)},
	}}
}

// gpuClaim is a claim of two requests: any GPU of two classes, the second of which was chosen, and a network card.
func gpuClaim() *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpu", UID: "g"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{
		{Name: "gpu", FirstAvailable: []resourcev1.DeviceSubRequest{
			{Name: "big", DeviceClassName: "big"}, {Name: "small", DeviceClassName: "small"},
		}},
		{Name: "nic", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "nic"}},
	}
	claim.Spec.Devices.Config = []resourcev1.DeviceClaimConfiguration{
		{Requests: []string{"gpu/big"}, DeviceConfiguration: opaque("of what was not chosen")},
		{Requests: []string{"gpu"}, DeviceConfiguration: opaque("of the request")},
		{DeviceConfiguration: opaque("of all")},
	}
	return claim
}

func gpuResult() *resourcev1.AllocationResult {
	return &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "gpu/small", Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0"},
			{Request: "nic", Driver: "nic.example.com", Pool: "n1", Device: "nic-0"},
		},
	}}
}

// withDevices is a server with pod a and its claim, and the bind whose decision allocates devices to it.
func withDevices(t *testing.T) (*server, engine.Effect) {
	s := newServer(t)
	s.addPod("a", "u")
	put(s, s.devices, gpuClaim())
	small := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "small"}}
	small.Spec.Config = []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: opaque("class")}}
	put(s, s.classes, small)
	put(s, s.classes, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "nic"}})
	request := bind("a", "u", "n1")
	request.Claims = []string{"gpu"}
	decided := gpuClaim()
	decided.Status.Allocation = gpuResult()
	devices, err := eventlog.NewDeviceClaim(decided)
	if err != nil {
		t.Fatal(err)
	}
	request.Devices = []eventlog.DeviceClaim{devices}
	return s, request
}

func TestDevicesAreAllocatedBeforeTheBind(t *testing.T) {
	class, claim := resourcev1.AllocationConfigSourceClass, resourcev1.AllocationConfigSourceClaim
	want := gpuResult()
	want.Devices.Config = []resourcev1.DeviceAllocationConfiguration{
		{Source: class, Requests: []string{"gpu/small"}, DeviceConfiguration: opaque("class")},
		{Source: claim, Requests: []string{"gpu"}, DeviceConfiguration: opaque("of the request")},
		{Source: claim, DeviceConfiguration: opaque("of all")},
	}
	for _, path := range []string{"/resourceclaims/gpu", "/resourceclaims/gpu/status"} {
		for _, f := range []fault{{}, {code: 409}, {code: 500, after: true}, {code: -2}, {code: -1, after: true}} {
			s, request := withDevices(t)
			s.fault = first("PUT", path, f)
			r := run(t, s, effect.Options{})
			got := r.results(t, request)[0].(*eventlog.BindResult)
			stands := s.devices["gpu"]
			status := stands.Status
			if got.Outcome != eventlog.BindBound || status.Allocation == nil || len(status.ReservedFor) != 1 ||
				len(stands.Finalizers) != 1 || stands.Finalizers[0] != resourcev1.Finalizer {
				t.Fatalf("%s %v: the result is %v %q, the claim %+v", path, f, got.Outcome, got.Message, stands)
			}
			if status.Allocation.AllocationTimestamp == nil {
				t.Errorf("%s %v: the allocation has no time", path, f)
			}
			status.Allocation.AllocationTimestamp = nil
			if !reflect.DeepEqual(status.Allocation, want) {
				t.Errorf("%s %v: the allocation is %+v, want %+v", path, f, status.Allocation, want)
			}
			r.stop()
		}
	}
}

func TestAClaimThatIsNotAsTheDecisionHasItIsNotAllocated(t *testing.T) {
	for want, change := range map[string]func(*resourcev1.ResourceClaim){
		"claim ns/gpu got allocated elsewhere in the meantime": func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation = gpuResult()
			c.Status.Allocation.Devices.Results[0].Device = "gpu-1"
		},
		"claim ns/gpu is another one (UID other)": func(c *resourcev1.ResourceClaim) { c.UID = "other" },
	} {
		s, request := withDevices(t)
		changed := gpuClaim()
		change(changed)
		before := put(s, s.devices, changed).DeepCopy()
		r := run(t, s, effect.Options{})
		got := r.results(t, request)[0].(*eventlog.BindResult)
		if got.Outcome != eventlog.BindFailed || !strings.Contains(got.Message, want) {
			t.Errorf("the result is %v %q, want %q", got.Outcome, got.Message, want)
		}
		if !reflect.DeepEqual(s.devices["gpu"], before) {
			t.Errorf("the claim is %+v, and was %+v", s.devices["gpu"], before)
		}
		r.stop()
	}
}

// Many pods may be reserved one claim at the same time: all but one find it changed each time.
func TestPodsThatShareAClaimDoNotFailOverConflicts(t *testing.T) {
	s, request := withDevices(t)
	s.fault = times(100, "PUT", "/resourceclaims/gpu/status", fault{code: 409})
	r := run(t, s, effect.Options{})
	defer r.stop()
	got := r.results(t, request)[0].(*eventlog.BindResult)
	if got.Outcome != eventlog.BindBound || len(s.devices["gpu"].Status.ReservedFor) != 1 {
		t.Errorf("the result is %v %q, the claim %+v", got.Outcome, got.Message, s.devices["gpu"].Status)
	}
}

// A claim that changes for ever does not keep a bind for ever.
func TestAClaimThatAlwaysChangesMakesTheBindFail(t *testing.T) {
	s, request := withDevices(t)
	s.fault = times(10000, "PUT", "/resourceclaims/gpu/status", fault{code: 409})
	r := run(t, s, effect.Options{})
	defer r.stop()
	got := r.results(t, request)[0].(*eventlog.BindResult)
	if got.Outcome != eventlog.BindFailed {
		t.Errorf("the result is %v %q", got.Outcome, got.Message)
	}
}

// A bind that fails gives the claim back, and the devices if nobody else uses them.
func TestDevicesOfAPodThatIsNotBoundAreGivenBack(t *testing.T) {
	other := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "b", UID: "v"}
	for _, shared := range []bool{false, true} {
		s, request := withDevices(t)
		s.fault = func(r string) fault {
			if !strings.HasSuffix(r, "/binding") {
				return fault{}
			}
			if shared {
				s.devices["gpu"].Status.ReservedFor = append(s.devices["gpu"].Status.ReservedFor, other)
			}
			return fault{code: 403}
		}
		r := run(t, s, effect.Options{})
		got := r.results(t, request)[0].(*eventlog.BindResult)
		status := s.devices["gpu"].Status
		if got.Outcome != eventlog.BindFailed || (status.Allocation != nil) != shared ||
			shared != (len(status.ReservedFor) == 1) {
			t.Errorf("shared %v: the result is %v %q, the claim's status %+v", shared, got.Outcome, got.Message, status)
		}
		r.stop()
	}
}

// If several pods share a claim, the last whose bind fails gives the devices back, also if another one's decision has
// allocated them.
func TestTheLastOfAClaimGivesItsDevicesBack(t *testing.T) {
	s, request := withDevices(t)
	claim := gpuClaim()
	claim.Status.Allocation = gpuResult()
	put(s, s.devices, claim)
	request.Devices = nil
	s.fault = first("POST", "/binding", fault{code: 403})
	r := run(t, s, effect.Options{})
	defer r.stop()
	got := r.results(t, request)[0].(*eventlog.BindResult)
	status := s.devices["gpu"].Status
	if got.Outcome != eventlog.BindFailed || status.Allocation != nil || len(status.ReservedFor) > 0 {
		t.Errorf("the result is %v %q, the claim's status %+v", got.Outcome, got.Message, status)
	}
}

// A pod may be bound and go before the bind reports its result. It then gives its devices back first: the result makes
// them free. The bind also examines a pod of which only the node has gone, and a pod that cannot be read at first.
func TestDevicesOfABoundPodThatIsGoneAreGivenBack(t *testing.T) {
	for _, gone := range []bool{false, true} {
		s, request := withDevices(t)
		sent := false
		s.fault = func(r string) fault {
			switch {
			case strings.HasSuffix(r, "/binding"):
				sent = true
				return fault{}
			case sent && strings.HasPrefix(r, "GET ") && strings.Contains(r, "/pods/"):
				if sent = false; gone {
					delete(s.pods, "a")
				}
				return fault{code: 500}
			}
			return fault{}
		}
		r := run(t, s, effect.Options{Still: func(engine.Effect) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if slices.ContainsFunc(s.requests, func(r string) bool { return strings.HasSuffix(r, "/binding") }) {
				return errors.New("it need not be bound")
			}
			return nil
		}})
		got := r.results(t, request)[0].(*eventlog.BindResult)
		status := s.devices["gpu"].Status
		if got.Outcome != eventlog.BindBound || (status.Allocation == nil) != gone ||
			(len(status.ReservedFor) == 0) != gone {
			t.Errorf("gone %v: the result is %v %q, the claim's status %+v", gone, got.Outcome, got.Message, status)
		}
		r.stop()
	}
}

// The claim of a pod that turns out not to be there for the bind is given back as well.
func TestDevicesOfAPodThatChangesMeanwhileAreGivenBack(t *testing.T) {
	for name, happens := range happenings {
		s, request := withDevices(t)
		s.before = func(r string) {
			if strings.HasSuffix(r, "/binding") {
				if s.devices["gpu"].Status.Allocation == nil {
					t.Errorf("%s: the bind is sent before the claim is allocated", name)
				}
				happens(s, "a")
			}
		}
		r := run(t, s, effect.Options{})
		got := r.results(t, request)[0].(*eventlog.BindResult)
		want, stays := eventlog.BindConflict, false
		if name == "bound there" {
			want, stays = eventlog.BindBound, true
		}
		status := s.devices["gpu"].Status
		if got.Outcome != want || (status.Allocation != nil) != stays || (len(status.ReservedFor) > 0) != stays {
			t.Errorf("%s: the result is %v %q, the claim's status %+v", name, got.Outcome, got.Message, status)
		}
		r.stop()
	}
}

// Another scheduler has allocated the claim otherwise, and bound the pod where these devices are.
func TestTheClaimOfAPodThatRunsElsewhereStays(t *testing.T) {
	s, request := withDevices(t)
	claim := s.devices["gpu"]
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "gpu/small", Driver: "gpu.example.com", Pool: "n9", Device: "gpu-7"},
		},
	}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "u"}}
	happenings["bound to n9"](s, "a")
	r := run(t, s, effect.Options{})
	defer r.stop()
	got := r.results(t, request)[0].(*eventlog.BindResult)
	status := s.devices["gpu"].Status
	if got.Outcome != eventlog.BindConflict || status.Allocation == nil || len(status.ReservedFor) != 1 {
		t.Errorf("the result is %v %q, the claim's status %+v", got.Outcome, got.Message, status)
	}
}

// The devices are free for others once the deletion of the pod is logged.
func TestTheClaimOfAPodThatIsGoneIsNotWritten(t *testing.T) {
	for puts := range 2 {
		s, request := withDevices(t)
		gone := false
		s.fault = func(r string) fault {
			if !strings.HasPrefix(r, "PUT ") {
				return fault{}
			}
			delete(s.pods, "a")
			gone = true
			return fault{code: 500}
		}
		if puts == 0 {
			delete(s.pods, "a")
			gone = true
		}
		r := run(t, s, effect.Options{Still: func(engine.Effect) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if gone {
				return errors.New("the pod is gone")
			}
			return nil
		}})
		got := r.results(t, request)[0].(*eventlog.BindResult)
		sent := 0
		for _, r := range s.requests {
			if strings.HasPrefix(r, "PUT ") {
				sent++
			}
		}
		if got.Outcome != eventlog.BindConflict || sent != puts || s.devices["gpu"].Status.Allocation != nil {
			t.Errorf("the result is %v %q, %d writes, want %d: %v", got.Outcome, got.Message, sent, puts, s.requests)
		}
		r.stop()
	}
}

// The bind reports its result after it has given the claim back, however long that takes: the devices are free for
// others then.
func TestDevicesAreGivenBackBeforeTheResultIsTold(t *testing.T) {
	for _, method := range []string{"GET", "PUT"} {
		for _, f := range []fault{{code: 403}, {code: 404}, {code: 409}, {code: 429}, {code: 500},
			{code: 500, after: true}, {code: -1}, {code: -1, after: true}, {code: -2}} {
			s, request := withDevices(t)
			refused, left := false, 20
			s.fault = func(r string) fault {
				switch {
				case strings.HasSuffix(r, "/binding"):
					refused = true
					return fault{code: 403}
				case refused && left > 0 && strings.HasPrefix(r, method+" ") && strings.Contains(r, "/resourceclaims/"):
					left--
					return f
				}
				return fault{}
			}
			r := run(t, s, effect.Options{})
			got := r.results(t, request)[0].(*eventlog.BindResult)
			status := s.devices["gpu"].Status
			if got.Outcome != eventlog.BindFailed || status.Allocation != nil || len(status.ReservedFor) > 0 {
				t.Errorf("%s %+v: the result is %v %q, the claim's status %+v", method, f, got.Outcome, got.Message,
					status)
			}
			if len(r.reports) == 0 || !strings.Contains(r.reports[0], "until ResourceClaim gpu is given back") {
				t.Errorf("%s %+v: the reports are %q", method, f, r.reports)
			}
			if waits := r.clock.waited(); !f.after && (len(waits) != 20 || waits[1] != 2*waits[0]) {
				t.Errorf("%s %+v: the waits are %v", method, f, waits)
			}
			r.stop()
		}
	}
}

// A claim that is gone, or is another one, has nothing to be given back.
func TestAClaimThatIsNoMoreIsNotGivenBack(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		s, request := withDevices(t)
		var other *resourcev1.ResourceClaim
		s.fault = func(r string) fault {
			if !strings.HasSuffix(r, "/binding") {
				return fault{}
			}
			if replaced {
				other = s.devices["gpu"].DeepCopy()
				other.UID = "other"
				put(s, s.devices, other)
			} else {
				delete(s.devices, "gpu")
			}
			return fault{code: 403}
		}
		r := run(t, s, effect.Options{})
		got := r.results(t, request)[0].(*eventlog.BindResult)
		if got.Outcome != eventlog.BindFailed || s.devices["gpu"] != other || len(r.reports) > 0 {
			t.Errorf("replaced %v: the result is %v %q, the claim %+v, reports %q", replaced, got.Outcome, got.Message,
				s.devices["gpu"], r.reports)
		}
		r.stop()
	}
}
