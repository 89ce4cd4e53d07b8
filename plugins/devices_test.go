package plugins

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
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
