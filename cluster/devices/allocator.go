package devices

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// ForAllocator returns the manager of devices as DynamicResources itself may have it: what devices are in use, and the
// list of slices, are not copied for each pod. The plugin makes an allocator of them in PreFilter, which only reads
// them, and not after the cycle. Other plugins get the manager itself, whose answers are theirs. m is returned as it
// is if it is none of this package.
func ForAllocator(m fwk.SharedDRAManager) fwk.SharedDRAManager {
	if d := StateOf(m); d != nil {
		return allocatorView{d}
	}
	return m
}

type allocatorView struct{ *State }

// ResourceClaims implements fwk.SharedDRAManager.
func (v allocatorView) ResourceClaims() fwk.ResourceClaimTracker { return claimView{v.claims} }

// ResourceSlices implements fwk.SharedDRAManager.
func (v allocatorView) ResourceSlices() fwk.ResourceSliceLister { return v.listed }

type claimView struct{ *claimTracker }

// List implements fwk.ResourceClaimTracker. The plugin uses it for one claim only: the claim that a failed attempt made
// for the pod's extended resources. It refuses the pod while there is one, and deletes it in PostFilter, which is not
// run. Here that attempt's bind deletes it, so the list is empty and does not stop the next attempt.
func (v claimView) List() ([]*resourcev1.ResourceClaim, error) { return nil, nil }

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
	byNode map[string][]*resourcev1.ResourceSlice // the slices of list that name a node; nil: not known
	only   *string                                // the node whose slices are listed alone, nil for all
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
