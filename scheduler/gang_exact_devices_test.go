package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// TestAGangWithDevicesIsPlacedIfAndOnlyIfAPlacementExists is TestAGangIsPlacedIfAndOnlyIfAPlacementExists for members
// with claims of their own, of which some ask for less than others: half a board or a whole one, any device or a red
// one.
func TestAGangWithDevicesIsPlacedIfAndOnlyIfAPlacementExists(t *testing.T) {
	config := defaultConfig(t)
	feasible, usual := 0, 0
	for seed := range uint64(fixedseed.Of(1_000, 50)) {
		w := newBoardWorld(seed)
		want := w.placeable()
		placed, plans := w.schedule(t, config)
		if plans > 1 {
			t.Errorf("seed %d: the plan of %d attempts is not carried out\n%+v", seed, plans-1, w)
		}
		if placed != len(w.members) && placed != 0 || want != (placed > 0) {
			t.Errorf("seed %d: placed %d members, an exact search finds a placement: %v\n%+v", seed, placed, want, w)
		}
		if want {
			feasible++
			if plans == 0 {
				usual++
			}
		}
	}
	t.Logf("%d gangs have a placement; the usual order found it for %d", feasible, usual)
	if feasible == 0 || usual == feasible {
		t.Error("the worlds test nothing")
	}
}

// boardWorld is a few nodes with devices and one gang.
type boardWorld struct {
	nodes   []boardNode
	members []boardNeed
}

// boardNode has boards, each of which can be had as a whole or as two halves, and devices of two colours.
type boardNode struct{ cpu, boards, red, blue int }

// boardNeed is a member: it asks for CPUs, and so many devices of one class.
type boardNeed struct {
	cpu   int
	class string // whole, half, red, plain (red or blue), "" for none
	count int
}

func newBoardWorld(seed uint64) *boardWorld {
	r := rand.New(rand.NewPCG(seed, 3))
	w := &boardWorld{}
	for range 1 + r.IntN(4) {
		w.nodes = append(w.nodes, boardNode{2 + r.IntN(7), r.IntN(3), r.IntN(3), r.IntN(3)})
	}
	for range 2 + r.IntN(5) {
		m := boardNeed{cpu: 1 + r.IntN(3), count: 1}
		m.class = []string{"whole", "half", "red", "plain", ""}[r.IntN(5)]
		if m.class != "" && r.IntN(4) == 0 {
			m.count = 2
		}
		w.members = append(w.members, m)
	}
	return w
}

// placeable reports whether all members can be placed.
func (w *boardWorld) placeable() bool {
	on := make([]map[string]int, len(w.nodes))
	for i := range on {
		on[i] = map[string]int{}
	}
	var place func(i int) bool
	place = func(i int) bool {
		if i == len(w.members) {
			return true
		}
		m := w.members[i]
		for n, node := range w.nodes {
			has := on[n]
			has["cpu"] += m.cpu
			has[m.class] += m.count
			fits := has["cpu"] <= node.cpu && has["whole"]+(has["half"]+1)/2 <= node.boards && has["red"] <= node.red &&
				has["red"]+has["plain"] <= node.red+node.blue
			found := fits && place(i+1)
			has["cpu"] -= m.cpu
			if has[m.class] -= m.count; found {
				return true
			}
		}
		return false
	}
	return place(0)
}

// schedule returns how many members get a node, and how many plans were made.
func (w *boardWorld) schedule(t *testing.T, config []byte) (placed, plans int) {
	m := scheduler.New(plugins.NewRegistry())
	apply := func(p eventlog.Payload) {
		t.Helper()
		if err := m.Apply(eventlog.Entry{Seq: m.Seq() + 1, Epoch: 1,
			Time: eventlog.TimeOf(time.Unix(1_700_000_000, 0)), Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	put := func(r eventlog.Resource, obj eventlog.Object) {
		obj.SetUID(types.UID(string(r) + obj.GetName()))
		apply(&eventlog.Upserted{Resource: r, Object: obj})
	}
	apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion, Config: config,
		Behaviour: scheduler.Behaviour})
	for _, class := range []string{"whole", "half", "red", "plain"} {
		expression := fmt.Sprintf("device.attributes['d'].kind == %q", class)
		if class == "plain" {
			expression = "device.attributes['d'].kind in ['red', 'blue']"
		}
		c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class}}
		c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
		put(eventlog.DeviceClasses, c)
	}
	for i, n := range w.nodes {
		list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(n.cpu), resource.DecimalSI),
			v1.ResourcePods: resource.MustParse("99")}
		put(eventlog.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(i)},
			Status: v1.NodeStatus{Allocatable: list, Capacity: list}})
		for _, slice := range n.slices(nodeOf(i)) {
			put(eventlog.ResourceSlices, slice)
		}
	}
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(len(w.members))}
	put(eventlog.PodGroups, g)
	for i, m := range w.members {
		pod := podOf(fmt.Sprintf("m%d", i), v1.ResourceList{})
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
		pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] =
			*resource.NewQuantity(int64(m.cpu), resource.DecimalSI)
		if m.class != "" {
			put(eventlog.ResourceClaims, m.claim(pod))
		}
		put(eventlog.Pods, pod)
	}
	for range 200 {
		d, ok := m.Decide(nil)
		if !ok {
			return placed, plans
		}
		placed += len(d.Allowed)
		if d.Outcome == eventlog.Scheduled {
			placed++
		}
		if d.Plan.Result == eventlog.PlanFound {
			plans++
		}
		apply(&d)
	}
	t.Fatalf("it decides on and on:\n%+v", w)
	return 0, 0
}

// slices returns the slices of a node: its boards, in a pool of their own, and its other devices.
func (n boardNode) slices(node string) []*resourcev1.ResourceSlice {
	slice := func(pool, name string, of int64) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: of}}
		return s
	}
	device := func(name, kind string) resourcev1.Device {
		return resourcev1.Device{Name: name,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"kind": {StringValue: &kind}}}
	}
	colours := slice(node, node, 1)
	for i := range n.blue + n.red {
		colours.Spec.Devices = append(colours.Spec.Devices, device(fmt.Sprintf("d%d", i), "red"))
		if i >= n.red {
			colours.Spec.Devices[i] = device(fmt.Sprintf("d%d", i), "blue")
		}
	}
	boards, counters := slice("b-"+node, "b-"+node, 2), slice("b-"+node, "c-"+node, 2)
	for i := range n.boards {
		board := fmt.Sprintf("b%d", i)
		for _, part := range []string{"whole", "half", "half"} {
			d := device(fmt.Sprintf("b%d-%d", i, len(boards.Spec.Devices)), part)
			d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: board,
				Counters: halves(map[string]int64{"whole": 2, "half": 1}[part])}}
			boards.Spec.Devices = append(boards.Spec.Devices, d)
		}
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters,
			resourcev1.CounterSet{Name: board, Counters: halves(2)})
	}
	all := []*resourcev1.ResourceSlice{colours, boards, counters}
	if n.boards == 0 {
		return all[:1]
	}
	return all
}

func halves(n int64) map[string]resourcev1.Counter {
	return map[string]resourcev1.Counter{"halves": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
}

// claim gives the pod a claim of its own, as of a template.
func (m boardNeed) claim(pod *v1.Pod) *resourcev1.ResourceClaim {
	name := "own-" + pod.Name
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: m.class, Count: int64(m.count), AllocationMode: resourcev1.DeviceAllocationModeExactCount}}}
	pod.UID = types.UID(string(eventlog.Pods) + pod.Name)
	claim.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("t")}}
	pod.Status.ResourceClaimStatuses = slices.Clone([]v1.PodResourceClaimStatus{{Name: "x", ResourceClaimName: &name}})
	return claim
}
