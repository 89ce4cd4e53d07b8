package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Plain pods keep their memos while devices come and go, and are scored by the devices that are in use all the same
// where a resource that stands for a DeviceClass is scored: a Machine without memos decides the same.
func TestDevicesAndMemosOfPlainPods(t *testing.T) {
	const byDevices = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: example.com/gpu, weight: 1}]
`
	for name, config := range map[string][]byte{
		"scored by devices": encodedConfig(t, byDevices), "by default": defaultConfig(t),
	} {
		registry := plugins.NewRegistry()
		registry.NoClasses = true
		machines := []*scheduler.Machine{scheduler.New(plugins.NewRegistry()), scheduler.New(registry)}
		apply := func(p eventlog.Payload) {
			t.Helper()
			for _, m := range machines {
				if err := m.Apply(eventlog.Entry{Seq: m.Seq() + 1, Epoch: 1, Payload: p,
					Time: eventlog.TimeOf(time.Unix(1_700_000_000, 0))}); err != nil {
					t.Fatal(err)
				}
			}
		}
		apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion, Config: config,
			Behaviour: scheduler.Behaviour})
		gpu := "example.com/gpu"
		apply(&eventlog.Upserted{Resource: eventlog.DeviceClasses, Object: &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
			Spec:       resourcev1.DeviceClassSpec{ExtendedResourceName: &gpu}}})
		for i := range 80 {
			offerDevices(apply, fmt.Sprintf("n%02d", i))
		}
		nodes := map[string]int{}
		for i := range 60 {
			apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: plainOrClaiming(apply, i)})
			d, ok := machines[0].Decide(nil)
			without, alsoOK := machines[1].Decide(nil)
			if !ok || !alsoOK || d.Outcome != eventlog.Scheduled {
				t.Fatalf("%s: pod %d: %v %+v", name, i, ok, d)
			}
			if diff := cmp.Diff(without, d); diff != "" {
				t.Fatalf("%s: pod %d (- without memos, + with):\n%s", name, i, diff)
			}
			nodes[d.Node]++
			apply(&d)
		}
		if len(nodes) < 2 {
			t.Errorf("%s: all pods are on one node: %v", name, nodes)
		}
	}
}

// offerDevices adds a node with two devices.
func offerDevices(apply func(eventlog.Payload), name string) {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("9"), v1.ResourcePods: resource.MustParse("9")}
	apply(&eventlog.Upserted{Resource: eventlog.Nodes, Object: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status:     v1.NodeStatus{Allocatable: list, Capacity: list}}})
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &name,
		Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
		Pool:    resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}}
	apply(&eventlog.Upserted{Resource: eventlog.ResourceSlices, Object: slice})
}

// plainOrClaiming makes a pod: each third one has a claim of a device, which is logged before.
func plainOrClaiming(apply func(eventlog.Payload), i int) *v1.Pod {
	name := fmt.Sprintf("p%02d", i)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
	if i%3 != 0 {
		return pod
	}
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("c" + name)}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
	apply(&eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: claim})
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	return pod
}

// What depends on devices alone changes nothing for pods without claims, unless devices are scored as a resource.
func TestBeyondFollowsDevicesOnlyWhereTheyAreScored(t *testing.T) {
	for _, scored := range []bool{false, true} {
		s := newOneDevice(t, scheduler.Behaviour)
		state := s.m.Cluster()
		if scored {
			state.ScoreResources([]v1.ResourceName{
				v1.ResourceCPU, v1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "gpu")})
		}
		changed := func(what string, f func()) {
			t.Helper()
			before := state.Beyond()
			if f(); (state.Beyond() != before) != scored {
				t.Errorf("scored %v: %s: Beyond went from %d to %d", scored, what, before, state.Beyond())
			}
		}
		changed("a claim", func() { s.pod("a") })
		changed("a decision", func() { s.decide("a") })
		changed("a failed bind", func() {
			s.apply(&eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindFailed})
		})
	}
}
