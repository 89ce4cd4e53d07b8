package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Fault returns the fault in an object that defines gangs, seen by itself, "" for none. The gangs of such an object are
// refused. A reader of files that people wrote can report the fault earlier. For example: "has annotation
// rollcall.dev/topology-required \",\": want a list of …".
func Fault(res eventlog.Resource, obj eventlog.Object) string {
	switch o := obj.(type) {
	case *v1.Pod:
		return memberFault(o)
	case *schedulingv1alpha3.CompositePodGroup:
		return compositeFault(o)
	}
	if DeclaresGroups(res) {
		if d, err := declarationOf(res, obj); err == nil {
			return d.fault
		}
	}
	return ""
}

// memberFault looks at a pod.
func memberFault(pod *v1.Pod) string {
	name, ok := GroupName(pod)
	if !ok {
		return ""
	}
	if fault := namingFault(pod); fault != "" {
		return fault
	}
	if _, fault := termsOf(pod, name); fault != "" {
		return fault
	}
	return ownOf(pod.Annotations).fault
}

// compositeFault looks at a CompositePodGroup.
func compositeFault(obj *schedulingv1alpha3.CompositePodGroup) string {
	c := &Composite{object: obj}
	if fault := c.fault(); fault != "" {
		return fault
	}
	if parent := obj.Spec.ParentCompositePodGroupName; parent != nil && *parent == obj.Name {
		return fmt.Sprintf("has spec.parentCompositePodGroupName %s, which is its own name", quoted(*parent))
	}
	return ""
}

// GangSize is the most members, or gangs, that an object says that a gang needs: a minimum or a total; 0 if it says
// none.
func GangSize(res eventlog.Resource, obj eventlog.Object) int {
	switch o := obj.(type) {
	case *v1.Pod:
		if name, ok := GroupName(o); ok {
			t, _ := termsOf(o, types.NamespacedName{Namespace: o.Namespace, Name: name.Name})
			return max(t.min, t.total)
		}
		return 0
	case *schedulingv1alpha3.CompositePodGroup:
		return (&Composite{object: o}).Min()
	}
	if DeclaresGroups(res) {
		if d, err := declarationOf(res, obj); err == nil {
			return max(d.terms.min, d.terms.total)
		}
	}
	return 0
}
