package cluster

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// MostAmount is the most of a resource that a node can offer, in the resource's base unit; for cpu in thousandths of a
// core. 8,000 pods that request as much fit into an int64.
const MostAmount = 1 << 50

// maxLife is the longest that a pod can declare to hold its resources: no time of a log plus so much leaves the range
// of a log's time.
const maxLife = 100 * 365 * 24 * time.Hour

// mostSum is the limit of sums of amounts: larger sums are cut to it.
const mostSum = 1 << 62

var (
	mostQuantity = *resource.NewQuantity(MostAmount, resource.DecimalSI)
	mostCPU      = *resource.NewMilliQuantity(MostAmount, resource.DecimalSI)
	muchQuantity = *resource.NewQuantity(MostAmount>>10, resource.DecimalSI)
	muchCPU      = *resource.NewMilliQuantity(MostAmount>>10, resource.DecimalSI)
)

// BoundNumbers returns the object with numbers that can be computed with: itself if all are. A node's amounts are
// limited to the range from 0 to MostAmount. A pod with a negative request, or with a sum above MostAmount, gets a
// request that exceeds every node. So it fits nowhere. If it is already on a node, nothing else fits there.
func BoundNumbers(obj eventlog.Object) eventlog.Object {
	switch o := obj.(type) {
	case *v1.Pod:
		return boundPod(o)
	case *v1.Node:
		return boundNode(o)
	case *xscheduling.PodGroup:
		if inRange(o.Spec.MinResources) {
			return obj
		}
		bounded := o.DeepCopy()
		limit(bounded.Spec.MinResources, beyondMost)
		return bounded
	case *volcano.PodGroup:
		if inRange(o.Spec.MinResources) {
			return obj
		}
		bounded := o.DeepCopy()
		limit(bounded.Spec.MinResources, beyondMost)
		return bounded
	}
	return obj
}

// inRange reports whether every amount lies between 0 and MostAmount.
func inRange(list v1.ResourceList) bool {
	// any order: all must
	for name, q := range list {
		if q.Sign() < 0 || q.Cmp(mostOf(name)) > 0 {
			return false
		}
	}
	return true
}

func mostOf(name v1.ResourceName) resource.Quantity {
	if name == v1.ResourceCPU {
		return mostCPU
	}
	return mostQuantity
}

// beyondMost is one more than any node offers of a resource.
func beyondMost(name v1.ResourceName, _ resource.Quantity) resource.Quantity {
	if name == v1.ResourceCPU {
		return *resource.NewMilliQuantity(MostAmount+1, resource.DecimalSI)
	}
	return *resource.NewQuantity(MostAmount+1, resource.DecimalSI)
}

// limit replaces the amounts that are out of range.
func limit(list v1.ResourceList, by func(v1.ResourceName, resource.Quantity) resource.Quantity) {
	// any order: each by itself
	for name, q := range list {
		if q.Sign() < 0 || q.Cmp(mostOf(name)) > 0 {
			list[name] = by(name, q)
		}
	}
}

func boundNode(node *v1.Node) *v1.Node {
	if inRange(node.Status.Allocatable) && inRange(node.Status.Capacity) {
		return node
	}
	bounded := node.DeepCopy()
	nearest := func(name v1.ResourceName, q resource.Quantity) resource.Quantity {
		if q.Sign() < 0 {
			return resource.Quantity{Format: resource.DecimalSI}
		}
		return mostOf(name)
	}
	limit(bounded.Status.Allocatable, nearest)
	limit(bounded.Status.Capacity, nearest)
	return bounded
}

// podLists calls each with every list of amounts that a pod's requests are made of, until one call returns false.
func podLists(pod *v1.Pod, each func(v1.ResourceList) bool) bool {
	requirements := func(r *v1.ResourceRequirements) bool { return each(r.Requests) && each(r.Limits) }
	for i := range pod.Spec.Containers {
		if !requirements(&pod.Spec.Containers[i].Resources) {
			return false
		}
	}
	for i := range pod.Spec.InitContainers {
		if !requirements(&pod.Spec.InitContainers[i].Resources) {
			return false
		}
	}
	if pod.Spec.Resources != nil && !requirements(pod.Spec.Resources) {
		return false
	}
	if !each(pod.Spec.Overhead) {
		return false
	}
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			status := &statuses[i]
			if !each(status.AllocatedResources) || status.Resources != nil && !requirements(status.Resources) {
				return false
			}
		}
	}
	return each(pod.Status.AllocatedResources) && (pod.Status.Resources == nil || requirements(pod.Status.Resources))
}

// boundPod checks each amount first. All is well if none is above a thousandth of the limit or below 0, and there are
// not thousands of them.
func boundPod(pod *v1.Pod) *v1.Pod {
	lists := 0
	small := podLists(pod, func(list v1.ResourceList) bool {
		// any order: all must be small
		for name, q := range list {
			much := muchQuantity
			if name == v1.ResourceCPU {
				much = muchCPU
			}
			if q.Sign() < 0 || q.Cmp(much) > 0 {
				return false
			}
		}
		lists++
		return lists <= 1<<10
	})
	if small {
		return pod
	}
	wrong := map[v1.ResourceName]bool{}
	sums := map[v1.ResourceName]int64{}
	podLists(pod, func(list v1.ResourceList) bool {
		// any order: sums, and a set
		for name, q := range list {
			if q.Sign() < 0 || q.Cmp(mostOf(name)) > 0 {
				wrong[name] = true
				continue
			}
			amount := q.Value()
			if name == v1.ResourceCPU {
				amount = q.MilliValue()
			}
			if sums[name] = AddUpTo(sums[name], amount); sums[name] > 2*MostAmount { // requests and limits
				wrong[name] = true
			}
		}
		return true
	})
	if len(wrong) == 0 {
		return pod
	}
	return requestTooMuch(pod, slices.Sorted(maps.Keys(wrong)))
}

// requestTooMuch returns the pod with a request of more than any node has of each of the resources, and with no other
// amount of them. The request is in its first container, and for the pod as a whole if that has requests.
func requestTooMuch(pod *v1.Pod, names []v1.ResourceName) *v1.Pod {
	bounded := pod.DeepCopy()
	for _, name := range names {
		podLists(bounded, func(list v1.ResourceList) bool {
			if _, given := list[name]; given {
				list[name] = resource.Quantity{Format: resource.DecimalSI}
			}
			return true
		})
		requests := []*v1.ResourceRequirements{}
		if len(bounded.Spec.Containers) > 0 {
			requests = append(requests, &bounded.Spec.Containers[0].Resources)
		}
		if bounded.Spec.Resources != nil {
			requests = append(requests, bounded.Spec.Resources)
		}
		for _, r := range requests {
			if r.Requests == nil {
				r.Requests = v1.ResourceList{}
			}
			r.Requests[name] = beyondMost(name, resource.Quantity{})
		}
	}
	return bounded
}

// highPart is the part of an amount of which sums cannot leave an int64.
func highPart(amount int64) int64 { return amount >> 20 }

// tooHigh is the sum of high parts from which on the sum of the amounts is taken to be mostSum.
const tooHigh = mostSum >> 20

// AddUpTo adds two amounts that are not negative; what would be above mostSum is mostSum.
func AddUpTo(a, b int64) int64 {
	if a > mostSum-min(b, mostSum) {
		return mostSum
	}
	return a + b
}

// KeepPorts puts back the host ports of a node that its other pods have too, after a pod was taken off: upstream's
// books hold a port once, however many pods have it.
func KeepPorts(info fwk.NodeInfo, gone *v1.Pod) {
	if len(schedutil.GetHostPorts(gone)) == 0 {
		return
	}
	used := info.GetUsedPorts()
	for _, other := range info.GetPods() {
		for _, port := range schedutil.GetHostPorts(other.GetPod()) {
			used.Add(port.HostIP, string(port.Protocol), port.HostPort)
		}
	}
}

// declaredLife is the time for which a pod declares to hold its resources, 0 if it does not.
func declaredLife(pod *v1.Pod) time.Duration {
	life, _ := DeclaredDuration(pod)
	return min(life, maxLife)
}
