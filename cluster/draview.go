package cluster

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// ForAllocator returns the manager of devices as DynamicResources itself may have it: what devices are in use, and the
// list of slices, are not copied for each pod. The plugin makes an allocator of them in PreFilter, which only reads
// them, and not after the cycle. Other plugins get the manager itself, whose answers are theirs. m is returned as it
// is if it is none of this package.
func ForAllocator(m fwk.SharedDRAManager) fwk.SharedDRAManager {
	if ours, ok := m.(*draManager); ok {
		return draView{ours}
	}
	return m
}

type draView struct{ *draManager }

// ResourceClaims implements fwk.SharedDRAManager.
func (v draView) ResourceClaims() fwk.ResourceClaimTracker { return claimView{v.claims, v.classes} }

// ResourceSlices implements fwk.SharedDRAManager.
func (v draView) ResourceSlices() fwk.ResourceSliceLister { return v.listed }

type claimView struct {
	*claimTracker
	classes *deviceClasses
}

// List implements fwk.ResourceClaimTracker. The plugin looks there for one claim only: that which was made for the
// pod's extended resources by an attempt that failed. It refuses the pod while there is one, and deletes it in
// PostFilter, which is not run. Here that attempt's bind deletes it, and nothing stands in the way of the next attempt.
func (v claimView) List() ([]*resourcev1.ResourceClaim, error) {
	if v.classes.makesClaims {
		return nil, nil
	}
	return v.claimTracker.List()
}

// ListAllAllocatedDevices implements fwk.ResourceClaimTracker.
func (v claimView) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	if v.sharable || v.anyPending() { // shares count as devices here
		return v.claimTracker.ListAllAllocatedDevices()
	}
	return v.allocated.whole, nil
}

// GatherAllocatedState implements fwk.ResourceClaimTracker.
func (v claimView) GatherAllocatedState() (*structured.AllocatedState, error) {
	if v.anyPending() {
		return v.claimTracker.GatherAllocatedState()
	}
	return v.allocated.state(), nil
}

// sliceList remembers the list of slices until one comes, goes or changes, or a DeviceTaintRule does.
type sliceList struct {
	all    fwk.ResourceSliceLister
	list   []*resourcev1.ResourceSlice            // nil: not known
	byNode map[string][]*resourcev1.ResourceSlice // those of list that name a node; nil: not known
	only   *string                                // the node whose slices are listed alone, nil for all
}

func newSliceList(all fwk.ResourceSliceLister, follow ...cache.SharedIndexInformer) *sliceList {
	l := &sliceList{all: all}
	for _, informer := range follow {
		mustHandle(informer, cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { l.forget() }, UpdateFunc: func(any, any) { l.forget() },
			DeleteFunc: func(any) { l.forget() },
		})
	}
	return l
}

// ListWithDeviceTaintRules implements fwk.ResourceSliceLister. The list must not be changed.
func (l *sliceList) ListWithDeviceTaintRules() (list []*resourcev1.ResourceSlice, err error) {
	if l.list == nil {
		l.list, err = l.all.ListWithDeviceTaintRules()
	}
	if l.only == nil || err != nil {
		return l.list, err
	}
	if l.byNode == nil {
		l.byNode = map[string][]*resourcev1.ResourceSlice{}
		for _, slice := range l.list {
			if node := slice.Spec.NodeName; node != nil {
				l.byNode[*node] = append(l.byNode[*node], slice)
			}
		}
	}
	return l.byNode[*l.only], nil
}

func (l *sliceList) forget() { l.list, l.byNode = nil, nil }
