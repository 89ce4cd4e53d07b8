package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// reader is a foreign plugin that scores a node by the result of read, by name.
type reader struct {
	h    fwk.Handle
	read func(h fwk.Handle, node string) int64
}

func (*reader) Name() string { return "Reader" }

func (p *reader) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return p.read(p.h, node.Node().Name), nil
}
func (*reader) ScoreExtensions() fwk.ScoreExtensions { return nil }

func (*reader) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return nil, nil }

// devicesInUse counts the devices in use of the node's pool.
func devicesInUse(h fwk.Handle, node string) (n int64) {
	used, err := h.SharedDRAManager().ResourceClaims().ListAllAllocatedDevices()
	for id := range used {
		if err == nil && id.Pool.String() == node {
			n++
		}
	}
	return 10 * n
}

// liking is the value in the object of a declared resource with the node's name.
func liking(h fwk.Handle, node string) int64 {
	informer, err := h.SharedInformerFactory().ForResource(
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "likings"})
	if err != nil {
		return 0
	}
	object, err := informer.Lister().Get(node)
	if err != nil {
		return 0
	}
	score, _, _ := unstructured.NestedInt64(object.(*unstructured.Unstructured).Object, "spec", "score")
	return score
}

// Plain pods keep their memos while devices and objects of declared resources come and go, also on nodes that do not
// change. A foreign plugin that reads these is called again all the same. Each pod goes to the node that the plugin
// likes best at that time, and a Machine without memos decides the same.
func TestPlainPodsAreScoredByWhatPluginsReadNow(t *testing.T) {
	const likings = `
pluginResources:
- {resource: likings.example.com, version: v1, kind: Liking, fields: [spec.score]}`
	claims := func(apply func(eventlog.Payload), node string) {
		for k := range 2 {
			claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "foreign",
				Name: fmt.Sprintf("%s-%d", node, k), UID: types.UID(fmt.Sprintf("%s-%d", node, k))}}
			claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{
					{Request: "r", Driver: "d", Pool: node, Device: fmt.Sprintf("gpu-%d", k)}}}}
			apply(&eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: claim})
		}
	}
	objects := int64(0)
	own := func(apply func(eventlog.Payload), node string) {
		objects++
		apply(&eventlog.Upserted{Resource: "likings.example.com", Object: &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Liking",
				"metadata": map[string]any{"name": node}, "spec": map[string]any{"score": objects}}}})
	}
	for name, c := range map[string]struct {
		more    string
		read    func(h fwk.Handle, node string) int64
		foreign func(apply func(eventlog.Payload), node string)
	}{
		"devices": {"", devicesInUse, claims}, "a declared resource": {likings, liking, own},
	} {
		t.Run(name, func(t *testing.T) {
			var machines []*scheduler.Machine
			for _, without := range []bool{false, true} {
				registry := plugins.NewRegistry()
				registry.NoClasses = without
				registry.Factories["Reader"] = func(_ context.Context, _ runtime.Object,
					h fwk.Handle) (fwk.Plugin, error) {
					return &reader{h, c.read}, nil
				}
				machines = append(machines, scheduler.New(registry))
			}
			config := encodedConfig(t, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Reader, weight: 1000}]}}`+c.more)
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
			for i := range 80 {
				offerDevices(apply, fmt.Sprintf("n%02d", i))
			}
			for i := range 30 {
				favourite, before := fmt.Sprintf("n%02d", 79-i), machines[0].Cluster().Changed(cluster.PluginInputs)
				if c.foreign(apply, favourite); machines[0].Cluster().Changed(cluster.PluginInputs) != before {
					t.Fatalf("pod %d: the memos are dropped", i)
				}
				pod := fmt.Sprintf("p%02d", i)
				apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: &v1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod, UID: types.UID(pod)},
					Spec: v1.PodSpec{SchedulerName: "default-scheduler",
						Containers: []v1.Container{{Name: "c", Image: "i"}}}}})
				d, ok := machines[0].Decide(nil)
				without, alsoOK := machines[1].Decide(nil)
				if !ok || !alsoOK || d.Node != favourite {
					t.Fatalf("pod %d: %v %+v, want %s", i, ok, d, favourite)
				}
				if diff := cmp.Diff(without, d); diff != "" {
					t.Fatalf("pod %d (- without memos, + with):\n%s", i, diff)
				}
				apply(&d)
			}
		})
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

// Data that depends on devices alone changes nothing for pods without claims, unless devices are scored as a resource.
func TestBeyondFollowsDevicesOnlyWhereTheyAreScored(t *testing.T) {
	for _, scored := range []bool{false, true} {
		s := newOneDevice(t)
		state := s.m.Cluster()
		if scored {
			state.Devices().ScoreBy([]v1.ResourceName{
				v1.ResourceCPU, v1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "gpu")})
		}
		changed := func(what string, f func()) {
			t.Helper()
			before := state.Changed(cluster.PluginInputs)
			f()
			if now := state.Changed(cluster.PluginInputs); (now != before) != scored {
				t.Errorf("scored %v: %s: PluginInputs went from %d to %d", scored, what, before, now)
			}
		}
		changed("a claim", func() { s.pod("a") })
		changed("a decision", func() { s.decide("a") })
		changed("a failed bind", func() {
			s.apply(&eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindFailed})
		})
	}
}
