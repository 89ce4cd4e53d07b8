package quickspread

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// defaults are the plugin's default constraints, for pods that have none of their own. Such a pod is spread with the
// other pods of its services and controllers.
type defaults struct {
	hard, soft   []v1.TopologySpreadConstraint
	services     corelisters.ServiceLister
	controllers  corelisters.ReplicationControllerLister
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
}

func newDefaults(constraints []v1.TopologySpreadConstraint, h fwk.Handle) defaults {
	d := defaults{hard: thatAre(v1.DoNotSchedule, constraints), soft: thatAre(v1.ScheduleAnyway, constraints)}
	if informers := h.SharedInformerFactory(); len(constraints) > 0 {
		d.services = informers.Core().V1().Services().Lister()
		d.controllers = informers.Core().V1().ReplicationControllers().Lister()
		d.replicaSets = informers.Apps().V1().ReplicaSets().Lister()
		d.statefulSets = informers.Apps().V1().StatefulSets().Lister()
	}
	return d
}

// of returns the constraints, which are d.hard or d.soft, for a pod without any of its own, and the selector of all of
// them. It returns none if there are none, or if no service or controller selects the pod.
func (d *defaults) of(pod *v1.Pod, constraints []v1.TopologySpreadConstraint) ([]v1.TopologySpreadConstraint,
	labels.Selector) {
	if len(constraints) == 0 {
		return nil, nil
	}
	selector := helper.DefaultSelector(pod, d.services, d.controllers, d.replicaSets, d.statefulSets)
	if selector.Empty() {
		return nil, nil
	}
	return constraints, selector
}
