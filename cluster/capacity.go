package cluster

import (
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster/devices"
)

// Capacity is an amount of everything that nodes have: CPU in thousandths of a core, memory and ephemeral
// storage in bytes, pods, and the extended resources in their own units.
type Capacity struct {
	MilliCPU         int64
	Memory           int64
	EphemeralStorage int64
	Pods             int64
	Scalar           map[v1.ResourceName]int64

	offers map[v1.ResourceName]int // by how many nodes; of Scalar, which has the same keys

	// A sum of 1<<62 or more is given as 1<<62. high and scalarHigh are the sums of the amounts' high parts, which tell
	// that the sums themselves have wrapped around.
	high       [4]int64
	scalarHigh map[v1.ResourceName]int64

	// devices knows which resources are names for devices; nil for none.
	devices *devices.State
}

// add adds sign times the amounts.
func (c *Capacity) add(cpu, memory, storage, pods, sign int64) {
	c.MilliCPU += sign * cpu
	c.Memory += sign * memory
	c.EphemeralStorage += sign * storage
	c.Pods += sign * pods
	for i, amount := range [...]int64{cpu, memory, storage, pods} {
		c.high[i] += sign * highPart(amount)
	}
}

// addScalar adds sign times an amount of an extended resource.
func (c *Capacity) addScalar(name v1.ResourceName, amount, sign int64) {
	if c.Scalar == nil {
		c.Scalar = map[v1.ResourceName]int64{}
	}
	c.Scalar[name] += sign * amount
	if high := highPart(amount); high != 0 {
		if c.scalarHigh == nil {
			c.scalarHigh = map[v1.ResourceName]int64{}
		}
		c.scalarHigh[name] += sign * high
	}
}

// plus adds another capacity. It adds only those extended resources that c has.
func (c *Capacity) plus(other *Capacity) {
	c.MilliCPU += other.MilliCPU
	c.Memory += other.Memory
	c.EphemeralStorage += other.EphemeralStorage
	c.Pods += other.Pods
	for i, high := range other.high {
		c.high[i] += high
	}
	// any order: sums of integers
	for name, amount := range other.Scalar {
		if _, offered := c.Scalar[name]; offered {
			c.Scalar[name] += amount
		}
	}
	// any order: sums of integers
	for name, high := range other.scalarHigh {
		if c.scalarHigh == nil {
			c.scalarHigh = map[v1.ResourceName]int64{}
		}
		c.scalarHigh[name] += high
	}
}

// count adds sign times the free room of info. A node that holds more than its allocatable, which has shrunk, has no
// room. It does not lessen the room of others.
func (c *Capacity) count(info *framework.NodeInfo, sign int64) {
	room := func(allocatable, requested int64) int64 { return max(0, allocatable-requested) }
	c.add(
		room(info.Allocatable.MilliCPU, info.Requested.MilliCPU),
		room(info.Allocatable.Memory, info.Requested.Memory),
		room(info.Allocatable.EphemeralStorage, info.Requested.EphemeralStorage),
		room(int64(info.Allocatable.AllowedPodNumber), int64(len(info.Pods))),
		sign,
	)
	// any order: sums of integers
	for name, allocatable := range info.Allocatable.ScalarResources {
		if c.offers == nil {
			c.offers = map[v1.ResourceName]int{}
		}
		c.addScalar(name, room(allocatable, info.Requested.ScalarResources[name]), sign)
		if c.offers[name] += int(sign); c.offers[name] == 0 {
			// A resource that no node offers must look as if none ever had.
			delete(c.Scalar, name)
			delete(c.scalarHigh, name)
			delete(c.offers, name)
		}
	}
}

// Shortfall is a resource of which less is free than is needed.
type Shortfall struct {
	Resource v1.ResourceName
	// Needed and Free are in the resource's base unit; cpu in thousandths of a core.
	Needed, Free int64
	// Asked says that the group's minResources need it, and not the requests of its members.
	Asked bool
}

// lacks compares the free amounts with the least that any k of the given pods need: for each resource, the k smallest
// requests. It returns the resource of which the smallest part of the need is free, and of equal ones the first in the
// order of needsOf. A resource that no node offers is left to NodeResourcesFit, which a configuration can make ignore
// it.
func (c *Capacity) lacks(needs []Requests, k int) (worst Shortfall, lacking bool) {
	for i := range needs {
		need := &needs[i]
		free, offered := c.of(need.Resource)
		if needed := need.Smallest(k); offered && needed > free {
			if s := (Shortfall{Resource: need.Resource, Needed: needed, Free: free}); !lacking || s.worseThan(worst) {
				worst, lacking = s, true
			}
		}
	}
	return worst, lacking
}

// worseThan compares free/needed without rounding.
func (s Shortfall) worseThan(t Shortfall) bool {
	hi, lo := bits.Mul64(uint64(s.Free), uint64(t.Needed))
	thi, tlo := bits.Mul64(uint64(t.Free), uint64(s.Needed))
	return hi < thi || hi == thi && lo < tlo
}

func (c *Capacity) of(name v1.ResourceName) (free int64, offered bool) {
	var high int64
	offered = true
	switch name {
	case v1.ResourceCPU:
		free, high = c.MilliCPU, c.high[0]
	case v1.ResourceMemory:
		free, high = c.Memory, c.high[1]
	case v1.ResourceEphemeralStorage:
		free, high = c.EphemeralStorage, c.high[2]
	case v1.ResourcePods:
		free, high = c.Pods, c.high[3]
	default:
		if c.devices.Stands(name) {
			return 0, false // nodes may have it as devices, which are not counted here
		}
		free, offered = c.Scalar[name]
		high = c.scalarHigh[name]
	}
	if high >= tooHigh {
		free = mostSum
	}
	return free, offered
}

// Requests are the requests of some pods for one resource.
type Requests struct {
	Resource v1.ResourceName
	prefix   []int64 // prefix[i] is the sum of the i smallest requests
}

// Smallest returns the sum of the k smallest requests, or of all if there are fewer.
func (n *Requests) Smallest(k int) int64 { return n.prefix[min(k, len(n.prefix)-1)] }

// needsOf sums up the requests of pods, resource by resource, to at most 1<<62: cpu, memory, ephemeral
// storage, pods, then the extended resources by name.
func needsOf(pods []*Pod) []Requests {
	requests := make([]fwk.Resource, len(pods))
	var scalars []v1.ResourceName
	seen := map[v1.ResourceName]bool{}
	for i, p := range pods {
		r := p.info.CalculateResource().Resource
		requests[i] = r
		// any order: sorted below
		for name := range r.GetScalarResources() {
			if !seen[name] {
				seen[name] = true
				scalars = append(scalars, name)
			}
		}
	}
	slices.Sort(scalars)
	needs := []Requests{
		newNeed(v1.ResourceCPU, requests, fwk.Resource.GetMilliCPU),
		newNeed(v1.ResourceMemory, requests, fwk.Resource.GetMemory),
		newNeed(v1.ResourceEphemeralStorage, requests, fwk.Resource.GetEphemeralStorage),
		newNeed(v1.ResourcePods, requests, func(fwk.Resource) int64 { return 1 }),
	}
	for _, name := range scalars {
		needs = append(
			needs,
			newNeed(name, requests, func(r fwk.Resource) int64 { return r.GetScalarResources()[name] }),
		)
	}
	return needs
}

func newNeed(name v1.ResourceName, requests []fwk.Resource, of func(fwk.Resource) int64) Requests {
	amounts := make([]int64, len(requests))
	for i, r := range requests {
		amounts[i] = of(r)
	}
	slices.Sort(amounts)
	prefix := make([]int64, len(amounts)+1)
	for i, a := range amounts {
		prefix[i+1] = AddUpTo(prefix[i], a)
	}
	return Requests{Resource: name, prefix: prefix}
}
