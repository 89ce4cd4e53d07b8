package cluster

import (
	"math/bits"

	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// durationAnnotation declares how long a pod holds its resources once it has a node: a Go duration.
const durationAnnotation = "rollcall.dev/duration"

// DeclaredDuration returns how long a pod says that it will hold its resources, by the annotation rollcall.dev/duration
// or by activeDeadlineSeconds, whichever is less; ok is false if it says neither. A value of the annotation that is no
// duration above 0 declares nothing.
func DeclaredDuration(pod *v1.Pod) (d time.Duration, ok bool) {
	if text := pod.Annotations[durationAnnotation]; text != "" {
		if said, err := time.ParseDuration(text); err == nil && said > 0 {
			d, ok = said, true
		}
	}
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil && *seconds > 0 &&
		*seconds < int64(maxDuration/time.Second) {
		if limit := time.Duration(*seconds) * time.Second; !ok || limit < d {
			d, ok = limit, true
		}
	}
	return d, ok
}

const maxDuration = time.Duration(1<<63 - 1)

// Ends returns the time at which the pod, which has a node, will give it back, as it declares. ok is false if it
// declares nothing.
func (p *Pod) Ends() (at eventlog.Time, ok bool) {
	if p.life <= 0 {
		return 0, false
	}
	return p.Since.Add(p.life), true
}

// Life is the time for which the pod declares to hold its resources, 0 if it does not.
func (p *Pod) Life() time.Duration { return p.life }

// Amount returns the pod's request of a resource in its base unit; cpu in thousandths of a core.
func (p *Pod) Amount(name v1.ResourceName) int64 { return AmountOf(p.Requests(), name) }

// AmountOf returns the amount of a resource in the requests r of one pod. The amount of the resource "pods" is one.
func AmountOf(r fwk.Resource, name v1.ResourceName) int64 {
	if name == v1.ResourcePods {
		return 1
	}
	return amountIn(r, name)
}

// AmountOn returns the amount of a resource in a node's allocatable, and the amount that its pods request. See the
// method of State for resources that may be names for devices.
func AmountOn(info fwk.NodeInfo, name v1.ResourceName) (allocatable, requested int64) {
	if name == v1.ResourcePods {
		return int64(info.GetAllocatable().GetAllowedPodNumber()), int64(len(info.GetPods()))
	}
	return amountIn(info.GetAllocatable(), name), amountIn(info.GetRequested(), name)
}

func amountIn(r fwk.Resource, name v1.ResourceName) int64 {
	switch name {
	case v1.ResourceCPU:
		return r.GetMilliCPU()
	case v1.ResourceMemory:
		return r.GetMemory()
	case v1.ResourceEphemeralStorage:
		return r.GetEphemeralStorage()
	}
	return r.GetScalarResources()[name]
}

// Free returns the free amount of a resource on all nodes together. ok is false for a resource that no node offers.
func (s *State) Free(name v1.ResourceName) (free int64, ok bool) { return s.free.of(name) }

// Percent returns a part as a percentage of all, from 0 to 100. Its numbers cannot overflow. If all is 0, it is 0.
func Percent(part, all int64) int64 { return Share(part, all, 100) }

// Share is Percent in other units: it returns a part of all on a scale from 0 to whole.
func Share(part, all, whole int64) int64 {
	switch {
	case all <= 0 || part <= 0:
		return 0
	case part >= all:
		return whole
	}
	high, low := bits.Mul64(uint64(part), uint64(whole))
	quotient, _ := bits.Div64(high, low, uint64(all))
	return int64(quotient)
}
