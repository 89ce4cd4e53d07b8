package report

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// usage integrates, over virtual time, the resources that nodes offer and the pods on them request.
type usage struct {
	index     map[corev1.ResourceName]int
	resources []resourceUsage
	// requests memoises the requests of a template's pods.
	requests map[*corev1.Pod][]amount
}

// resourceUsage is one resource's usage: the present one, and the integral over the seconds so far.
type resourceUsage struct {
	name                    corev1.ResourceName
	used, offered           int64
	usedTotal, offeredTotal float64
	// lost is the usage of pods with a disruption as outcome, in the resource's units times seconds.
	lost [outcomes]float64
}

// amount is a quantity of the resource with that index: millicores for cpu, units for all others.
type amount struct {
	resource int
	value    int64
}

func newUsage() usage {
	return usage{index: map[corev1.ResourceName]int{}, requests: map[*corev1.Pod][]amount{}}
}

// amounts translates a list, in the order of its names. The number of pods is no resource that pods request.
func (u *usage) amounts(list corev1.ResourceList) []amount {
	var out []amount
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if name == corev1.ResourcePods {
			continue
		}
		i, ok := u.index[name]
		if !ok {
			i = len(u.resources)
			u.index[name] = i
			u.resources = append(u.resources, resourceUsage{name: name})
		}
		out = append(out, amount{i, Units(name, list[name])})
	}
	return out
}

// Units returns a quantity as a whole number: millicores for cpu, units for all others, rounded up.
func Units(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// offer adds (+1) or subtracts (-1) a node.
func (u *usage) offer(node *corev1.Node, sign int64) {
	for _, a := range u.amounts(node.Status.Allocatable) {
		u.resources[a.resource].offered += sign * a.value
	}
}

// use adds (+1) or subtracts (-1) a pod of the template.
func (u *usage) use(template *corev1.Pod, sign int64) {
	for _, a := range u.of(template) {
		u.resources[a.resource].used += sign * a.value
	}
}

// of returns the requests of a pod of the template.
func (u *usage) of(template *corev1.Pod) []amount {
	requests, ok := u.requests[template]
	if !ok {
		requests = u.amounts(resourcehelper.PodRequests(template, resourcehelper.PodResourcesOptions{}))
		u.requests[template] = requests
	}
	return requests
}

// lose adds the lost usage of a pod of the template with a disruption as outcome, and returns its GPU-seconds.
func (u *usage) lose(how Outcome, template *corev1.Pod, ran time.Duration) (gpuSeconds float64) {
	for _, a := range u.of(template) {
		r := &u.resources[a.resource]
		r.lost[how] += float64(a.value) * ran.Seconds()
		gpuSeconds += float64(a.value) * ran.Seconds() * gpus(r.name)
	}
	return gpuSeconds
}

// losses returns the lost GPU-seconds, and the lost time of each resource that is not memory or storage.
func (u *usage) losses() (gpu LostTime, all []LostTime) {
	gpu.Resource = "GPU"
	for i := range u.resources {
		r := &u.resources[i]
		gpu.add(r, gpus(r.name))
		l := LostTime{Resource: string(r.name)}
		switch {
		case r.name == corev1.ResourceCPU:
			l.add(r, 0.001)
		case strings.Contains(string(r.name), "/"):
			l.add(r, 1)
		}
		if l.Total() > 0 {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b LostTime) int { return strings.Compare(a.Resource, b.Resource) })
	return gpu, all
}

// gpus returns the number of GPUs that a unit of the resource is, for GPUs of any vendor, and of traces.
func gpus(name corev1.ResourceName) float64 {
	switch {
	case strings.HasSuffix(string(name), "/gpu"):
		return 1
	case strings.HasSuffix(string(name), "/gpu-milli"):
		return 0.001
	}
	return 0
}

// pass lets time pass.
func (u *usage) pass(d time.Duration) {
	seconds := d.Seconds()
	for i := range u.resources {
		r := &u.resources[i]
		r.usedTotal += float64(r.used) * seconds
		r.offeredTotal += float64(r.offered) * seconds
	}
}

// totals returns a copy of the integrals so far, in buf if that is large enough.
func (u *usage) totals(buf []resourceUsage) []resourceUsage { return append(buf[:0], u.resources...) }
