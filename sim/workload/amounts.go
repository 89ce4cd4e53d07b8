package workload

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// maxAmount is the largest amount of a resource that a pod may request, or a node offer, in the resource's base unit
// (thousandths of a core for cpu): a pebibyte. The sum over a node's pods is far below the limit of an int64.
const maxAmount = cluster.MostAmount

// checkAmounts returns an error for a number of an object that is too large to compute with: amounts of resources,
// ports, deadlines. It is nil if all are good, and for objects that have none.
func checkAmounts(object eventlog.Object) *field.Error {
	switch o := object.(type) {
	case *corev1.Node:
		path := field.NewPath("status")
		return firstOf(checkList(path.Child("allocatable"), o.Status.Allocatable),
			checkList(path.Child("capacity"), o.Status.Capacity))
	case *corev1.Pod:
		return checkPodAmounts(o)
	case *v1alpha1.PodGroup:
		return checkList(field.NewPath("spec", "minResources"), o.Spec.MinResources)
	case *volcano.PodGroup:
		return checkList(field.NewPath("spec", "minResources"), o.Spec.MinResources)
	}
	return nil
}

// checkPodAmounts checks a pod.
func checkPodAmounts(pod *corev1.Pod) *field.Error {
	spec := field.NewPath("spec")
	if err := checkList(spec.Child("overhead"), pod.Spec.Overhead); err != nil {
		return err
	}
	if r := pod.Spec.Resources; r != nil {
		if err := checkRequirements(spec.Child("resources"), *r); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"containers", pod.Spec.Containers}, {"initContainers", pod.Spec.InitContainers}} {
		for i := range list.containers {
			c, path := &list.containers[i], spec.Child(list.name).Index(i)
			if err := checkRequirements(path.Child("resources"), c.Resources); err != nil {
				return err
			}
			for k, port := range c.Ports {
				if port.HostPort < 0 || port.HostPort > math.MaxUint16 {
					return outside(path.Child("ports").Index(k).Child("hostPort"), int64(port.HostPort), 0,
						math.MaxUint16)
				}
			}
		}
	}
	if s := pod.Spec.ActiveDeadlineSeconds; s != nil && (*s < 1 || *s > maxSeconds) {
		return outside(spec.Child("activeDeadlineSeconds"), *s, 1, maxSeconds)
	}
	return nil
}

func checkRequirements(path *field.Path, r corev1.ResourceRequirements) *field.Error {
	return firstOf(checkList(path.Child("limits"), r.Limits), checkList(path.Child("requests"), r.Requests))
}

// checkList checks the amounts of a list.
func checkList(path *field.Path, list corev1.ResourceList) *field.Error {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q, scale := list[name], resource.Scale(0)
		if name == corev1.ResourceCPU {
			scale = resource.Milli
		}
		switch {
		case q.Sign() < 0:
			return field.Invalid(path.Key(string(name)), q.String(), "must not be negative")
		case q.Cmp(*resource.NewScaledQuantity(maxAmount, scale)) > 0:
			most := resource.NewScaledQuantity(maxAmount, scale)
			return field.Invalid(path.Key(string(name)), q.String(), fmt.Sprintf("must not be above %s", most))
		}
	}
	return nil
}

func outside(path *field.Path, n, low, high int64) *field.Error {
	return field.Invalid(path, n, fmt.Sprintf("must lie between %d and %d", low, high))
}

// firstOf returns the first error that is not nil.
func firstOf(errs ...*field.Error) *field.Error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
