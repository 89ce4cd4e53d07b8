package plugins

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// anyClass has every device class, without selectors.
type anyClass struct{}

func (anyClass) List() ([]*resourcev1.DeviceClass, error) { return nil, nil }
func (anyClass) Get(name string) (*resourcev1.DeviceClass, error) {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// The allocator of Kubernetes tells what each evaluation of a selector has cost, and ends at the step after the share
// is spent. A selector that goes through a map counts with the most that it may cost, in whatever order.
func TestTheCostOfSelectorsIsBounded(t *testing.T) {
	const list = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
	costly := list + ".all(a, " + list + ".all(b, " + list + ".all(c, a + b + c >= 0)))"
	throughMap := `device.attributes["d"].all(k, k != "x")`
	most := examine(throughMap).cost
	for _, c := range []struct {
		selector string
		share    uint64
		over     bool
	}{
		{costly, math.MaxUint64, false}, {costly, 1 << 10, true}, {`device.driver == "d"`, 1 << 10, false},
		{throughMap, 2 * most, false}, {throughMap, 2*most - 1, true},
	} {
		node := "n"
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node,
			Devices: []resourcev1.Device{{Name: "a"}, {Name: "b"}},
			Pool:    resourcev1.ResourcePool{Name: "n", Generation: 1, ResourceSliceCount: 1}}
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c"}}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "any", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: c.selector}}}}}}
		allocator, err := structured.NewAllocator(context.Background(), structured.Features{},
			structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID]()}, anyClass{},
			[]*resourcev1.ResourceSlice{slice}, cel.NewCache(10, cel.Features{}))
		if err != nil {
			t.Fatal(err)
		}
		steps := &countedSteps{left: maxAllocationSteps, share: c.share}
		steps.Context = klog.NewContext(context.Background(), logr.New(&costSink{&selectors{}, steps.spend}))
		results, err := allocator.Allocate(steps, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
			[]*resourcev1.ResourceClaim{claim})
		over := errors.Is(err, context.DeadlineExceeded)
		if over != c.over || !over && (err != nil || len(results) != 1) {
			t.Errorf("%.40s with a share of %d: %v, %v", c.selector, c.share, results, err)
		}
		if why := steps.why(); strings.Contains(why, "its CEL selectors cost more") != c.over || (why == "") == c.over {
			t.Errorf("%.40s with a share of %d: it ends because %q", c.selector, c.share, why)
		}
		if !c.over && steps.share == c.share {
			t.Errorf("%.40s: nothing was told of what it cost", c.selector)
		}
	}
}

// deviceHandle is the part of a handle that DynamicResources needs.
type deviceHandle struct {
	fwk.Handle
	state *cluster.State
}

func (h *deviceHandle) ClientSet() kubernetes.Interface        { return nil }
func (h *deviceHandle) SharedDRAManager() fwk.SharedDRAManager { return h.state.Devices() }
func (h *deviceHandle) SharedInformerFactory() informers.SharedInformerFactory {
	return h.state.Informers().Factory()
}
func (h *deviceHandle) ProfileName() string { return "p" }

// filterDevices filters a node with 24 devices, one of so many nodes. The pod has a claim of count devices with a
// selector, and of one more if there is another selector.
func filterDevices(t *testing.T, nodes int, count int64, selectors ...string) []*fwk.Status {
	t.Helper()
	state := cluster.New()
	node := "n"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node,
		Pool: resourcev1.ResourcePool{Name: "n", Generation: 1, ResourceSliceCount: 1}}
	for i := range 24 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("d%02d", i)})
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c"}}
	for i, selector := range selectors {
		exactly := &resourcev1.ExactDeviceRequest{
			DeviceClassName: "any", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: selector}}}}
		if i > 0 {
			exactly.Count = 1
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests,
			resourcev1.DeviceRequest{Name: fmt.Sprintf("r%d", i), Exactly: exactly})
	}
	for res, obj := range map[eventlog.Resource]eventlog.Object{
		eventlog.ResourceSlices: slice, eventlog.ResourceClaims: claim,
		eventlog.DeviceClasses: &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "any"}},
	} {
		if _, err := state.Upsert(res, obj); err != nil {
			t.Fatal(err)
		}
	}
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	made, err := newBoundedDevices(frameworkruntime.FactoryAdapter(features, dynamicresources.New))(t.Context(),
		&config.DynamicResourcesArgs{FilterTimeout: &metav1.Duration{Duration: time.Nanosecond}},
		&deviceHandle{state: state})
	if err != nil {
		t.Fatal(err)
	}
	plugin, name := made.(*boundedDevices), "c"
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimName: &name}}
	cycle, info := upstream.NewCycleState(), upstream.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	if _, status := plugin.PreFilter(t.Context(), cycle, pod, make([]fwk.NodeInfo, nodes)); !status.IsSuccess() {
		t.Fatal(status)
	}
	return []*fwk.Status{plugin.Filter(t.Context(), cycle, pod, info), plugin.Filter(t.Context(), cycle, pod, info)}
}

// The search for the devices of a node ends when it has taken too many steps, or when the selectors have cost more than
// the node's share of the cycle's. The share is smaller the more nodes there are, and counts for each time that the
// node is filtered. Then the cycle ends in an error that says why.
func TestTheSearchOnANodeHasItsShareOfTheCycle(t *testing.T) {
	const list = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
	costly := list + ".all(a, " + list + ".all(b, " + list + ".all(c, a + b + c >= 0)))"
	any, none := `device.driver == "d"`, `device.driver == "other"`
	for _, c := range []struct {
		name      string
		nodes     int
		count     int64
		selectors []string
		why       string
	}{
		{"cheap", 1, 12, []string{any, any}, ""},
		{"costly on one node", 1, 12, []string{costly}, ""},
		{"costly on many", 1 << 16, 12, []string{costly}, "its CEL selectors cost more than this node's share"},
		{"many steps", 1, 12, []string{any, none}, "it takes more than 16384 steps"},
		{"few steps in vain", 1, 1, []string{none}, "cannot allocate all claims"},
	} {
		for i, status := range filterDevices(t, c.nodes, c.count, c.selectors...) {
			if status.IsSuccess() != (c.why == "") || !strings.Contains(status.Message(), c.why) ||
				status.IsError() != (c.why != "" && c.count > 1) {
				t.Errorf("%s, time %d: %v", c.name, i, status)
			}
		}
	}
}
