package auditor

import (
	"encoding/json"
	"maps"
	"slices"
)

// deviceID names a device.
type deviceID struct{ driver, pool, device string }

// allocation is the devices of a claim.
type allocation struct {
	Devices struct {
		Results []struct {
			Driver, Pool, Device string
			AdminAccess          bool
			ShareID              string
		}
	}
}

// alone are the devices that no other claim may have: neither shares of devices, nor devices with admin access.
func (a *allocation) alone() (ids []deviceID) {
	for _, r := range a.Devices.Results {
		if !r.AdminAccess && r.ShareID == "" {
			ids = append(ids, deviceID{r.Driver, r.Pool, r.Device})
		}
	}
	return ids
}

// resourceClaimObject is a ResourceClaim.
type resourceClaimObject struct {
	Metadata meta
	Spec     struct {
		Devices struct {
			Requests    []deviceRequest
			Constraints []any
		}
	}
	Status struct{ Allocation *allocation }
}

// deviceRequest is a request of a claim.
type deviceRequest struct {
	Exactly *struct {
		DeviceClassName, AllocationMode string
		Count                           int
		AdminAccess                     bool
		Selectors, Tolerations          []any
		Capacity                        map[string]any
	}
	FirstAvailable []any
}

// sliceObject is a ResourceSlice.
type sliceObject struct {
	Metadata meta
	Spec     struct {
		Driver, NodeName string
		Pool             struct {
			Name               string
			Generation         int64
			ResourceSliceCount int
		}
		SharedCounters []any
		Devices        []deviceObject
	}
}

// deviceObject is a device of a ResourceSlice.
type deviceObject struct {
	Name                                string
	Attributes                          map[string]struct{ String string }
	Taints                              []struct{ Effect string }
	AllowMultipleAllocations            bool
	ConsumesCounters, BindingConditions []any
}

// deviceClassObject is a DeviceClass.
type deviceClassObject struct {
	Metadata meta
	Spec     struct {
		Selectors []struct{ CEL struct{ Expression string } }
	}
}

// allocated are the claims with devices, in the log or by placements whose binds are not known yet. The pod may have
// ended meanwhile.
func (s *state) allocated() map[string]*allocation {
	all := map[string]*allocation{}
	for _, devices := range s.inFlight {
		maps.Copy(all, devices)
	}
	for _, p := range s.pods {
		if p.onNode() {
			maps.Copy(all, p.devices)
		}
	}
	for name, claim := range s.resourceClaims {
		if claim.Status.Allocation != nil {
			all[name] = claim.Status.Allocation
		}
	}
	return all
}

// offered reports whether a ResourceSlice has the device.
func (s *state) offered(id deviceID) bool {
	for _, slice := range s.slices {
		if slice.Spec.Driver != id.driver || slice.Spec.Pool.Name != id.pool {
			continue
		}
		for _, device := range slice.Spec.Devices {
			if device.Name == id.device {
				return true
			}
		}
	}
	return false
}

// checkDevices checks that a placement gives claims devices that exist and that no other claim has, and records them.
func (a *auditor) checkDevices(p *pod, d *decision) {
	const check = "devices"
	p.devices = map[string]*allocation{}
	if len(d.Devices) == 0 {
		return
	}
	a.asked(check)
	has := map[deviceID]string{}
	for name, allocated := range a.allocated() {
		for _, id := range allocated.alone() {
			has[id] = name
		}
	}
	for i := range d.Devices {
		name := p.object.Metadata.Namespace + "/" + d.Devices[i].Claim
		given := &d.Devices[i].Allocation
		for _, id := range given.alone() {
			if other, taken := has[id]; taken && other != name {
				a.find(check, "pod %s: claim %s gets device %v, which claim %s has", p.name, name, id, other)
			} else if !a.offered(id) {
				a.find(check, "pod %s: claim %s gets device %v, which is not there", p.name, name, id)
			}
			has[id] = name
		}
		p.devices[name] = given
	}
}

// checkLogged checks that a claim is logged with no device that another claim has.
func (a *auditor) checkLogged(name string) {
	const check = "devices"
	claim := a.resourceClaims[name]
	if claim == nil || claim.Status.Allocation == nil {
		return
	}
	a.asked(check)
	for other, allocated := range a.allocated() {
		for _, id := range allocated.alone() {
			if other != name && slices.Contains(claim.Status.Allocation.alone(), id) {
				a.find(check, "claim %s is logged with device %v, which claim %s has", name, id, other)
			}
		}
	}
}

// checkGivenBack checks that no claim has devices after its last user has ended.
func (a *auditor) checkGivenBack() {
	const check = "given-back"
	for _, name := range slices.Sorted(maps.Keys(a.resourceClaims)) {
		if a.resourceClaims[name].Status.Allocation == nil {
			continue
		}
		a.asked(check)
		if len(a.usersOf(name)) == 0 {
			a.find(check, "claim %s has devices, and no pod that has a node uses it", name)
			a.resourceClaims[name].Status.Allocation = nil // report it once
		}
	}
}

// claimOf is the name of the claim that an entry brings.
func claimOf(e *entry) string {
	var o struct{ Metadata meta }
	_ = json.Unmarshal(e.Object, &o) // it was read before
	return o.Metadata.fullName()
}
