package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// claimWorld drives two Machines, of which one keeps no memos, with pods that have claims for devices.
type claimWorld struct {
	t        *rapid.T
	machines [2]*scheduler.Machine
	now      time.Duration
	pods     []string // by name: all present pods
	made     int
	given    map[string]*eventlog.DeviceClaim // by pod: what its claim is to have, once it is decided
	requests map[string][]resourcev1.DeviceRequest
	extended map[string]*resourcev1.ResourceClaim // by pod that requests an extended resource: its claim, if logged
	offered  map[string]int                       // by slice: how many devices it has
	boards   map[string]bool                      // the pools whose devices are parts of a board
	ruled    bool                                 // there is a DeviceTaintRule
}

// claimNodes is enough for classes.
const claimNodes = 66

func newClaimWorld(t *rapid.T, config []byte) *claimWorld {
	without := plugins.NewRegistry()
	without.NoClasses = true
	w := &claimWorld{t: t, given: map[string]*eventlog.DeviceClaim{}, offered: map[string]int{},
		requests: map[string][]resourcev1.DeviceRequest{}, extended: map[string]*resourcev1.ResourceClaim{},
		boards:   map[string]bool{},
		machines: [2]*scheduler.Machine{scheduler.New(without), scheduler.New(plugins.NewRegistry())}}
	w.apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion, Config: config,
		Behaviour: scheduler.Behaviour})
	w.class("red", `device.attributes["d"].colour == "red"`, "example.com/red")
	w.class("any", `device.driver == "d"`, "example.com/any")
	for i := range claimNodes {
		w.node(i, i%3)
		if i%4 == 0 { // few devices, so that some pods wait
			w.slice(nodeOf(i), nodeOf(i), 1)
		}
	}
	return w
}

func nodeOf(i int) string { return fmt.Sprintf("n%02d", i) }

func (w *claimWorld) apply(p eventlog.Payload) {
	for _, m := range w.machines {
		epoch := m.Epoch()
		if _, ok := p.(*eventlog.EpochStarted); ok {
			epoch++
		}
		if err := m.Apply(eventlog.Entry{Seq: m.Seq() + 1, Epoch: epoch, Payload: p,
			Time: eventlog.TimeOf(time.Unix(1_700_000_000, 0).Add(w.now))}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *claimWorld) upsert(res eventlog.Resource, obj eventlog.Object) {
	w.apply(&eventlog.Upserted{Resource: res, Object: obj})
}

func (w *claimWorld) class(name, selector, resource string) {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	class.Spec.ExtendedResourceName = &resource
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: selector}}}
	w.upsert(eventlog.DeviceClasses, class)
}

func (w *claimWorld) node(i, cpus int, offers ...int) {
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(1+cpus), resource.DecimalSI),
		v1.ResourcePods: resource.MustParse("9")}
	for _, n := range offers {
		list["example.com/any"] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	}
	w.upsert(eventlog.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(i), UID: types.UID(nodeOf(i))},
		Status: v1.NodeStatus{Allocatable: list, Capacity: list}})
}

// slice logs a slice of the pool named like the node, or of no node if that is "".
func (w *claimWorld) slice(name, node string, devices int) {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d",
		Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}}
	if slice.Spec.NodeName = &node; node == "" {
		all := true
		slice.Spec.NodeName, slice.Spec.AllNodes = nil, &all
	}
	kind := rapid.SampledFrom([]string{"whole", "whole", "shares", "parts"}).Draw(w.t, "kind")
	for k := range devices {
		colour := []string{"red", "blue"}[k%2]
		device := resourcev1.Device{Name: fmt.Sprintf("d%d", k),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"colour": {StringValue: &colour}}}
		switch kind {
		case "shares":
			yes := true
			device.AllowMultipleAllocations = &yes
			device.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				"memory": {Value: resource.MustParse("10Gi")}}
		case "parts":
			device.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "board",
				Counters: map[string]resourcev1.Counter{"slots": {Value: resource.MustParse("2")}}}}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	if kind == "parts" { // a slice has devices, or the counters of its pool's
		slice.Spec.Pool.ResourceSliceCount = 2
		counters := slice.DeepCopy()
		counters.Name, counters.UID, counters.Spec.Devices = name+"-board", types.UID(name+"-board"), nil
		counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "board",
			Counters: map[string]resourcev1.Counter{"slots": {Value: resource.MustParse("3")}}}}
		w.upsert(eventlog.ResourceSlices, counters)
		w.boards[name] = true
	} else if w.boards[name] {
		delete(w.boards, name)
		w.apply(&eventlog.Deleted{Resource: eventlog.ResourceSlices, Name: name + "-board",
			UID: types.UID(name + "-board")})
	}
	w.offered[name] = devices
	w.upsert(eventlog.ResourceSlices, slice)
}

// request draws a claim's request, one of a few, so that pods share memos.
func (w *claimWorld) request() []resourcev1.DeviceRequest {
	exactly := func(class string, n int64) *resourcev1.ExactDeviceRequest {
		return &resourcev1.ExactDeviceRequest{DeviceClassName: class, Count: n,
			AllocationMode: resourcev1.DeviceAllocationModeExactCount}
	}
	switch rapid.IntRange(0, 6).Draw(w.t, "request") {
	case 0:
		return []resourcev1.DeviceRequest{{Name: "r", Exactly: exactly("red", 1)}}
	case 1:
		return []resourcev1.DeviceRequest{{Name: "r", Exactly: exactly("any", 2)}}
	case 3: // of whole devices none has it
		share := exactly("any", 1)
		share.Capacity = &resourcev1.CapacityRequirements{
			Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("4Gi")}}
		return []resourcev1.DeviceRequest{{Name: "r", Exactly: share}}
	case 2: // where two are free a node scores higher
		return []resourcev1.DeviceRequest{{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{
			{Name: "two", DeviceClassName: "any", Count: 2,
				AllocationMode: resourcev1.DeviceAllocationModeExactCount},
			{Name: "one", DeviceClassName: "any", Count: 1,
				AllocationMode: resourcev1.DeviceAllocationModeExactCount}}}}
	}
	return []resourcev1.DeviceRequest{{Name: "r", Exactly: exactly("any", 1)}}
}

func (w *claimWorld) claim(pod string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod, UID: types.UID("c" + pod)}}
	claim.Spec.Devices.Requests = w.requests[pod]
	return claim
}

// podOf is a pod that requests so much of a resource.
func podOf(name string, requests v1.ResourceList) *v1.Pod {
	requests[v1.ResourceCPU] = resource.MustParse("100m")
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "i",
			Resources: v1.ResourceRequirements{Requests: requests}}}}}
}

func (w *claimWorld) pod() {
	name := fmt.Sprintf("p%03d", w.made)
	w.made++
	if stands := rapid.IntRange(0, 8).Draw(w.t, "extended"); stands < 4 {
		w.pods, w.extended[name] = append(w.pods, name), nil
		res := v1.ResourceName([]string{"example.com/any", "example.com/red", "example.com/any",
			resourcev1.ResourceDeviceClassPrefix + "any"}[stands])
		amount := resource.NewQuantity(int64(1+stands/2), resource.DecimalSI)
		w.upsert(eventlog.Pods, podOf(name, v1.ResourceList{res: *amount}))
		return
	}
	w.pods, w.requests[name] = append(w.pods, name), w.request()
	w.upsert(eventlog.ResourceClaims, w.claim(name))
	w.upsert(eventlog.Pods, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler",
			Containers: []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}}}},
			ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}}})
}

// decide compares and applies all decisions that are due.
func (w *claimWorld) decide() (placed int) {
	w.now += time.Minute
	w.apply(&eventlog.Tick{})
	for {
		without, ok := w.machines[0].Decide(nil)
		with, alsoOK := w.machines[1].Decide(nil)
		if ok != alsoOK {
			w.t.Fatalf("a decision without memos: %v, with: %v", ok, alsoOK)
		}
		if !ok {
			return placed
		}
		if diff := cmp.Diff(without, with); diff != "" {
			w.t.Fatalf("pod %s (- without memos, + with):\n%s", with.Name, diff)
		}
		w.apply(&with)
		if with.Outcome == eventlog.Scheduled {
			placed++
			if _, extended := w.extended[with.Name]; extended {
				w.boundExtended(&with)
				continue
			}
			w.given[with.Name] = &with.Devices[0]
			w.bound(with.Name, with.Node)
		}
	}
}

// bound answers a bind: it succeeds, or fails, with or without the claim written.
func (w *claimWorld) bound(pod, node string) {
	outcome := rapid.SampledFrom([]eventlog.BindOutcome{eventlog.BindBound, eventlog.BindBound, eventlog.BindFailed}).
		Draw(w.t, "outcome")
	if outcome == eventlog.BindBound {
		claim := w.claim(pod)
		allocation, err := w.given[pod].Result()
		if err != nil {
			w.t.Fatal(err)
		}
		claim.Status.Allocation = allocation
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
			{Resource: "pods", Name: pod, UID: types.UID(pod)}}
		w.upsert(eventlog.ResourceClaims, claim)
	}
	w.apply(&eventlog.BindResult{UID: types.UID(pod), Node: node, Outcome: outcome,
		Decision: w.machines[0].AskedBy(types.UID(pod), scheduler.Bind)})
}

// boundExtended answers the bind of a pod that requests an extended resource. One that fails deletes the claim that it
// has made, if it came so far.
func (w *claimWorld) boundExtended(d *eventlog.Decision) {
	outcome := rapid.SampledFrom([]eventlog.BindOutcome{eventlog.BindBound, eventlog.BindBound, eventlog.BindFailed}).
		Draw(w.t, "outcome")
	if len(d.Devices) > 0 && (outcome == eventlog.BindBound || rapid.Bool().Draw(w.t, "makes")) {
		allocation, err := d.Devices[0].Result()
		if err != nil {
			w.t.Fatal(err)
		}
		requests, err := d.Devices[0].Requests()
		if err != nil || len(requests) == 0 {
			w.t.Fatalf("the claim requests %v, %v", requests, err)
		}
		claim := devices.ClaimToMake(podOf(d.Name, v1.ResourceList{}), d.Devices[0].Claim, requests)
		claim.UID = types.UID(claim.Name)
		w.upsert(eventlog.ResourceClaims, claim)
		claim = claim.DeepCopy()
		claim.Status.Allocation = allocation
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
			{Resource: "pods", Name: d.Name, UID: d.UID}}
		w.upsert(eventlog.ResourceClaims, claim)
		if w.extended[d.Name] = claim; outcome == eventlog.BindFailed {
			w.unmake(d.Name)
		}
	}
	w.apply(&eventlog.BindResult{UID: d.UID, Node: d.Node, Outcome: outcome,
		Decision: w.machines[0].AskedBy(d.UID, scheduler.Bind)})
}

// unmake deletes the claim that was made for a pod.
func (w *claimWorld) unmake(pod string) {
	if claim := w.extended[pod]; claim != nil {
		w.apply(&eventlog.Deleted{Resource: eventlog.ResourceClaims, Namespace: "ns", Name: claim.Name, UID: claim.UID})
		w.extended[pod] = nil
	}
}

// end has a pod go, and its claim before, behind or, for a while, not at all.
func (w *claimWorld) end(pod string) {
	w.pods = slices.DeleteFunc(w.pods, func(p string) bool { return p == pod })
	gone := func(res eventlog.Resource, uid string) {
		w.apply(&eventlog.Deleted{Resource: res, Namespace: "ns", Name: pod, UID: types.UID(uid)})
	}
	if _, extended := w.extended[pod]; extended {
		if rapid.Bool().Draw(w.t, "claim first") {
			w.unmake(pod)
		}
		gone(eventlog.Pods, pod)
		w.decide()
		w.unmake(pod)
		return
	}
	switch rapid.IntRange(0, 2).Draw(w.t, "claim") {
	case 0:
		gone(eventlog.ResourceClaims, "c"+pod)
		gone(eventlog.Pods, pod)
	case 1:
		gone(eventlog.Pods, pod)
		w.decide()
		gone(eventlog.ResourceClaims, "c"+pod)
	case 2:
		gone(eventlog.Pods, pod)
		w.decide()
		w.upsert(eventlog.ResourceClaims, w.claim(pod)) // it has no devices any more
	}
}

// change is something else that happens to the devices.
func (w *claimWorld) change() {
	name := nodeOf(rapid.IntRange(0, claimNodes-1).Draw(w.t, "node"))
	switch rapid.IntRange(0, 9).Draw(w.t, "change") {
	case 9: // a device plugin comes or goes
		w.node(rapid.IntRange(0, claimNodes-1).Draw(w.t, "plugin"), 1, rapid.IntRange(0, 2).Draw(w.t, "offers"))
	case 0, 1, 2:
		w.slice(name, name, rapid.IntRange(0, 3).Draw(w.t, "devices"))
	case 3:
		w.slice(name, nodeOf(0), 1) // the pool of one node's name is another node's
	case 4:
		w.slice("wide", "", 1)
	case 5:
		if _, ok := w.offered["wide"]; ok {
			delete(w.offered, "wide")
			w.apply(&eventlog.Deleted{Resource: eventlog.ResourceSlices, Name: "wide", UID: "wide"})
		}
	case 6:
		colour := rapid.SampledFrom([]string{"red", "blue"}).Draw(w.t, "colour")
		stands := rapid.SampledFrom([]string{"example.com/red", "example.com/blue"}).Draw(w.t, "stands")
		w.class("red", fmt.Sprintf(`device.attributes["d"].colour == %q`, colour), stands)
	case 7:
		w.upsert(eventlog.DeviceTaintRules, &resourcev1.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{Name: "rule", UID: "rule"},
			Spec: resourcev1.DeviceTaintRuleSpec{
				DeviceSelector: &resourcev1.DeviceTaintSelector{Pool: &name},
				Taint:          resourcev1.DeviceTaint{Key: "k", Effect: resourcev1.DeviceTaintEffectNoSchedule}}})
		w.ruled = true
	case 8:
		if w.ruled {
			w.ruled = false
			w.apply(&eventlog.Deleted{Resource: eventlog.DeviceTaintRules, Name: "rule", UID: "rule"})
		}
	}
}

// TestPodsWithClaimsAreDecidedTheSameWithoutMemos has pods with claims of a few kinds come and go while devices do,
// too.
func TestPodsWithClaimsAreDecidedTheSameWithoutMemos(t *testing.T) {
	config := defaultConfig(t)
	placed := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newClaimWorld(t, config)
		for range rapid.IntRange(5, 20).Draw(t, "steps") {
			switch n := rapid.IntRange(0, 9).Draw(t, "step"); {
			case n < 5 || len(w.pods) == 0:
				for range rapid.IntRange(1, 4).Draw(t, "pods") {
					w.pod()
				}
			case n < 7:
				w.end(rapid.SampledFrom(w.pods).Draw(t, "pod"))
			default:
				w.change()
			}
			placed += w.decide()
		}
		if w.machines[0].Hash() != w.machines[1].Hash() {
			t.Fatal("the states are not the same")
		}
	})
	if placed == 0 {
		t.Error("no pod was ever placed")
	}
}
