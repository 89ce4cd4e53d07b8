package devices

import (
	"maps"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// allocatedDevices counts the devices in use by the claims that use them, so that it is a function of the
// claims whatever order they came in.
type allocatedDevices struct {
	devices  map[structured.DeviceID]int
	shares   map[structured.SharedDeviceID]int
	capacity structured.ConsumedCapacityCollection
	// whole and shared are the keys of devices and shares, as the allocator reads them.
	whole  sets.Set[structured.DeviceID]
	shared sets.Set[structured.SharedDeviceID]
}

func newAllocatedDevices() allocatedDevices {
	return allocatedDevices{
		devices:  map[structured.DeviceID]int{},
		shares:   map[structured.SharedDeviceID]int{},
		capacity: structured.NewConsumedCapacityCollection(),
		whole:    sets.New[structured.DeviceID](),
		shared:   sets.New[structured.SharedDeviceID](),
	}
}

func (a allocatedDevices) clone() allocatedDevices {
	return allocatedDevices{devices: maps.Clone(a.devices), shares: maps.Clone(a.shares), capacity: a.capacity.Clone(),
		whole: a.whole.Clone(), shared: a.shared.Clone()}
}

// state is for the allocator, which only reads it.
func (a allocatedDevices) state() *structured.AllocatedState {
	return &structured.AllocatedState{AllocatedDevices: a.whole, AllocatedSharedDeviceIDs: a.shared,
		AggregatedCapacity: a.capacity}
}

func (a allocatedDevices) use(results []resourcev1.DeviceRequestAllocationResult, sharable bool) {
	for _, r := range results {
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if !sharable || r.ShareID == nil {
			a.devices[id]++
			a.whole.Insert(id)
			continue
		}
		share := structured.MakeSharedDeviceID(id, r.ShareID)
		a.shares[share]++
		a.shared.Insert(share)
		if r.ConsumedCapacity != nil {
			a.capacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
}

func (a allocatedDevices) release(results []resourcev1.DeviceRequestAllocationResult, sharable bool) {
	for _, r := range results {
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if !sharable || r.ShareID == nil {
			if a.devices[id]--; a.devices[id] == 0 {
				delete(a.devices, id)
				a.whole.Delete(id)
			}
			continue
		}
		share := structured.MakeSharedDeviceID(id, r.ShareID)
		if a.shares[share]--; a.shares[share] == 0 {
			delete(a.shares, share)
			a.shared.Delete(share)
		}
		if r.ConsumedCapacity != nil {
			a.capacity.Remove(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
}

// allocationResults returns the devices that count as used by the claim: admin access takes none away.
func allocationResults(claim *resourcev1.ResourceClaim) []resourcev1.DeviceRequestAllocationResult {
	if claim == nil || claim.Status.Allocation == nil {
		return nil
	}
	var out []resourcev1.DeviceRequestAllocationResult
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.AdminAccess == nil || !*r.AdminAccess {
			out = append(out, r)
		}
	}
	return out
}
