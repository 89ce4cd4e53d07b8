package auditor

import (
	"fmt"
	"regexp"
	"slices"
)

// A search for devices that understands only claims of plain devices, and reports where it does not know. It does not
// consider the devices that other claims could have.

// resourceClaimsOf are the claims of a pod, each once. known is false if one that is made for the pod is not named yet.
func (p *pod) resourceClaimsOf() (names []string, known bool) {
	for _, c := range p.object.Spec.ResourceClaims {
		name := c.ResourceClaimName
		for _, made := range p.object.Status.ResourceClaimStatuses {
			if made.Name == c.Name {
				name = made.ResourceClaimName
			}
		}
		if name == "" {
			return nil, false
		}
		if name = p.object.Metadata.Namespace + "/" + name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, true
}

// usersOf are the pods with a node that use a claim.
func (s *state) usersOf(claim string) (users []*pod) {
	for _, p := range s.sortedPods() {
		if names, _ := p.resourceClaimsOf(); p.onNode() && slices.Contains(names, claim) {
			users = append(users, p)
		}
	}
	return users
}

// leftAllocated are the claims that still have devices after the pods of gone have ended: the ones with other users,
// or without any.
func (s *state) leftAllocated(gone without) map[string]*allocation {
	all := s.allocated()
	for name := range all {
		users := s.usersOf(name)
		stays := slices.ContainsFunc(users, func(p *pod) bool { return !gone[p.uid] })
		if len(users) > 0 && !stays {
			delete(all, name)
		}
	}
	return all
}

// devicesTaken forbids a node where a pod's claims certainly cannot have their devices.
func (s *state) devicesTaken(p *pod, node *nodeObject, gone without) string {
	why, _ := s.devicesFor(p, node, gone)
	return why
}

// knowsDevices reports whether devicesTaken knows for certain that a pod can have its devices on a node, also beside
// the pods that are nominated to it.
func (s *state) knowsDevices(p *pod, node *nodeObject) bool {
	if len(p.object.Spec.ResourceClaims) == 0 {
		return true
	}
	for _, other := range s.pods {
		if other != p && other.nominated == node.Metadata.Name && len(other.object.Spec.ResourceClaims) > 0 {
			return false
		}
	}
	_, known := s.devicesFor(p, node, nil)
	return known
}

// devicesFor returns the reason why a pod's claims cannot have their devices on a node, "" if they can or if that is
// not known.
func (s *state) devicesFor(p *pod, node *nodeObject, gone without) (why string, known bool) {
	names, known := p.resourceClaimsOf()
	if !known || len(names) == 0 {
		return "", known
	}
	allocated := s.leftAllocated(gone)
	var wanted []string // classes, one for each device
	for _, name := range names {
		if has := allocated[name]; has != nil {
			if !s.isOf(has, node) {
				return fmt.Sprintf("claim %s has devices elsewhere", name), true
			}
			continue
		}
		classes, known := s.plainRequests(s.resourceClaims[name])
		if !known {
			return "", false
		}
		wanted = append(wanted, classes...)
	}
	free, known := s.freeDevices(node, allocated)
	if !known {
		return "", false
	}
	if n := s.match(wanted, free); n < len(wanted) {
		return fmt.Sprintf("%d devices are wanted, and %d are free that suit", len(wanted), n), true
	}
	return "", true
}

// isOf reports whether all devices of an allocation are a node's.
func (s *state) isOf(has *allocation, node *nodeObject) bool {
	for _, r := range has.Devices.Results {
		here := false
		for _, slice := range s.slices {
			here = here || slice.Spec.Driver == r.Driver && slice.Spec.Pool.Name == r.Pool &&
				slice.Spec.NodeName == node.Metadata.Name
		}
		if !here {
			return false
		}
	}
	return true
}

// plainRequests are the classes of the devices that a claim requests, if it has no other requirements.
func (s *state) plainRequests(claim *resourceClaimObject) (classes []string, known bool) {
	if claim == nil || len(claim.Spec.Devices.Constraints) > 0 {
		return nil, false
	}
	for _, r := range claim.Spec.Devices.Requests {
		e := r.Exactly
		if e == nil || e.AllocationMode != "" && e.AllocationMode != "ExactCount" || e.AdminAccess ||
			len(e.Selectors)+len(e.Tolerations)+len(e.Capacity) > 0 {
			return nil, false
		}
		if _, known := s.wantedModel(e.DeviceClassName); !known {
			return nil, false
		}
		for range max(1, e.Count) {
			classes = append(classes, e.DeviceClassName)
		}
	}
	return classes, true
}

// attribute is the only form of selectors that is understood: an attribute of the devices of a driver.
var attribute = regexp.MustCompile(`^device\.attributes\["([^"]+)"\]\.(\w+) == "([^"]*)"$`)

// wantedModel is the condition of a class: driver, attribute and value; nil for none.
func (s *state) wantedModel(class string) (by []string, known bool) {
	c := s.deviceClasses[class]
	if c == nil || len(c.Spec.Selectors) > 1 {
		return nil, false
	}
	if len(c.Spec.Selectors) == 0 {
		return nil, true
	}
	match := attribute.FindStringSubmatch(c.Spec.Selectors[0].CEL.Expression)
	if match == nil {
		return nil, false
	}
	return match[1:], true
}

// freeDevice is a device that no claim has.
type freeDevice struct {
	driver string
	*deviceObject
}

// freeDevices are the devices of a node that no claim has, if they are all plain ones.
func (s *state) freeDevices(node *nodeObject, allocated map[string]*allocation) (free []freeDevice, known bool) {
	has := map[deviceID]bool{}
	for _, devices := range allocated {
		for _, r := range devices.Devices.Results {
			has[deviceID{r.Driver, r.Pool, r.Device}] = true
		}
	}
	for _, slice := range s.slices {
		spec := &slice.Spec
		if spec.NodeName == "" {
			return nil, false
		}
		if spec.NodeName != node.Metadata.Name {
			continue
		}
		if spec.Pool.ResourceSliceCount != 1 || len(spec.SharedCounters) > 0 {
			return nil, false
		}
		for i := range spec.Devices {
			d := &spec.Devices[i]
			if d.AllowMultipleAllocations || len(d.ConsumesCounters)+len(d.BindingConditions) > 0 {
				return nil, false
			}
			tainted := slices.ContainsFunc(d.Taints, func(t struct{ Effect string }) bool { return t.Effect != "None" })
			if !tainted && !has[deviceID{spec.Driver, spec.Pool.Name, d.Name}] {
				free = append(free, freeDevice{spec.Driver, d})
			}
		}
	}
	return free, true
}

// match returns the number of wanted devices that can be matched with a free one each.
func (s *state) match(wanted []string, free []freeDevice) (n int) {
	given := make([]int, len(free)) // to which of wanted, counted from 1
	var give func(i int, seen map[int]bool) bool
	give = func(i int, seen map[int]bool) bool {
		by, _ := s.wantedModel(wanted[i])
		for k, d := range free {
			suits := by == nil || d.driver == by[0] && d.Attributes[by[1]].String == by[2]
			if !suits || seen[k] {
				continue
			}
			seen[k] = true
			if given[k] == 0 || give(given[k]-1, seen) {
				given[k] = i + 1
				return true
			}
		}
		return false
	}
	for i := range wanted {
		if give(i, map[int]bool{}) {
			n++
		}
	}
	return n
}
