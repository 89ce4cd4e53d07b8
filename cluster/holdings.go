package cluster

import (
	"math"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// holdings are what the pods with a node hold, by the priority that they have themselves.
type holdings struct {
	pods map[int32]int
	sums map[int32]*Capacity
}

// add counts a pod in, or out with sign -1.
func (h *holdings) add(info *framework.PodInfo, sign int64) {
	if h.pods == nil {
		h.pods, h.sums = map[int32]int{}, map[int32]*Capacity{}
	}
	priority := corev1helpers.PodPriority(info.Pod)
	if h.pods[priority] += int(sign); h.pods[priority] == 0 {
		delete(h.pods, priority)
		delete(h.sums, priority)
		return
	}
	c := h.sums[priority]
	if c == nil {
		c = &Capacity{Scalar: map[v1.ResourceName]int64{}}
		h.sums[priority] = c
	}
	r := info.CalculateResource().Resource
	c.MilliCPU += sign * r.GetMilliCPU()
	c.Memory += sign * r.GetMemory()
	c.EphemeralStorage += sign * r.GetEphemeralStorage()
	c.Pods += sign
	// any order: sums of integers
	for name, amount := range r.GetScalarResources() {
		c.Scalar[name] += sign * amount
	}
}

// LowestPriority returns a priority that no pod with a node is below; the highest there is if there are no such pods.
func (s *State) LowestPriority() int32 {
	lowest := int32(math.MaxInt32)
	// any order: a minimum
	for priority := range s.held.pods {
		lowest = min(lowest, priority)
	}
	return min(lowest, s.lowestGiven())
}

// lowestGiven is the lowest priority that a gang, or several together, were given.
func (s *State) lowestGiven() int32 {
	lowest := int32(math.MaxInt32)
	// any order: a minimum
	for _, g := range s.groups {
		if priority, ok := g.Priority(); ok && g.Placed()+g.Waiting() > 0 {
			lowest = min(lowest, priority)
		}
	}
	// any order: a minimum
	for _, c := range s.composites {
		if priority, ok := c.Priority(); ok {
			lowest = min(lowest, priority)
		}
	}
	return lowest
}

// MayMakeRoom says whether there could be room for what g, or those that it is admitted with, still need if all pods of
// lower priority had gone. It is as necessary a condition as Lacks is: a no is certain.
func (s *State) MayMakeRoom(g *Group, priority int32) bool {
	switch {
	case s.LowestPriority() >= priority || !g.MayPreempt():
		return false
	case s.lowestGiven() < priority:
		return true // whose pods hold how much would have to be counted
	}
	all := s.free
	all.Scalar = map[v1.ResourceName]int64{}
	// any order: sums of integers
	for name, amount := range s.free.Scalar {
		all.Scalar[name] = amount
	}
	// any order: sums of integers
	for p, c := range s.held.sums {
		if p >= priority {
			continue
		}
		all.MilliCPU += c.MilliCPU
		all.Memory += c.Memory
		all.EphemeralStorage += c.EphemeralStorage
		all.Pods += c.Pods
		// any order: sums of integers
		for name, amount := range c.Scalar {
			if _, offered := all.Scalar[name]; offered {
				all.Scalar[name] += amount
			}
		}
	}
	_, lacks := s.lacksOf(&all, g, max(0, g.Min()-g.Assigned()))
	return !lacks
}

// WantsMoreThan says whether g asks in minResources, before the first of its members has its node for good, for more than
// those of the given pods request that are its own.
func (s *State) WantsMoreThan(g *Group, pods []*Pod) bool {
	if len(g.declarations) == 0 || g.Placed() > 0 {
		return false
	}
	for _, m := range g.declarations[0].room {
		requested := int64(0)
		for _, p := range pods {
			if p.Group == g {
				requested += amountOf(p.Requests(), m.resource)
			}
		}
		if requested < m.amount {
			return true
		}
	}
	return false
}

func amountOf(r fwk.Resource, name v1.ResourceName) int64 {
	switch name {
	case v1.ResourceCPU:
		return r.GetMilliCPU()
	case v1.ResourceMemory:
		return r.GetMemory()
	case v1.ResourceEphemeralStorage:
		return r.GetEphemeralStorage()
	case v1.ResourcePods:
		return 1
	}
	return r.GetScalarResources()[name]
}
