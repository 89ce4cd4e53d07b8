package explain

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// learn adds the names that an entry has for the named pods, and for the pods for which of returns true: their UIDs,
// their nodes and the results of evictions.
func learn(e eventlog.Entry, names *history.Names, of func(*v1.Pod) bool) {
	node := func(uid types.UID, name string) {
		if name != "" && names.Has(index.UID(uid)) {
			names.Add(index.Node(name))
		}
	}
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok {
			if of(pod) {
				names.Add(index.UID(pod.UID))
			}
			node(pod.UID, pod.Spec.NodeName)
		}
	case *eventlog.Decision:
		node(p.UID, p.Node)
		for i := range p.Places {
			node(p.Places[i].UID, p.Places[i].Node)
		}
		if preempts(p) {
			names.Add(index.Evictions(e.Seq))
		}
	case *eventlog.BindResult:
		node(p.UID, p.Node)
	}
}

// isMemberOf returns a test for pods of a gang.
func isMemberOf(group types.NamespacedName) func(*v1.Pod) bool {
	return func(pod *v1.Pod) bool {
		of, ok := cluster.GroupName(pod)
		return ok && of == group
	}
}

// learnOfMembers adds the names of a gang's members.
func learnOfMembers(group types.NamespacedName) history.Learner {
	return func(e eventlog.Entry, names *history.Names) error {
		learn(e, names, isMemberOf(group))
		return nil
	}
}

// inComposite reports whether an entry brings a PodGroup of that name that is below a CompositePodGroup, or something
// that is below a CompositePodGroup of that name.
func inComposite(e eventlog.Entry, name types.NamespacedName) bool {
	p, ok := e.Payload.(*eventlog.Upserted)
	if !ok {
		return false
	}
	parent, ok := cluster.ParentName(p.Object)
	_, group := p.Object.(*schedulingv1beta1.PodGroup)
	return ok && (parent == name ||
		group && p.Object.GetNamespace() == name.Namespace && p.Object.GetName() == name.Name)
}

// knows reports whether entries that name the pod, or its node, are among those selected.
func knows(names *history.Names, p *cluster.Pod) bool {
	return names.Has(index.UID(p.Object.UID)) && (p.Node == "" || names.Has(index.Node(p.Node)))
}

// knowsMembers is knows for all members of a gang.
func knowsMembers(names *history.Names, g *cluster.Group) bool {
	return !slices.ContainsFunc(g.Members(), func(p *cluster.Pod) bool { return !knows(names, p) })
}

// ofResize reports whether a decision, about to be applied or just applied, is on a resize of the pod. Any other
// decision that fails is on a pod that is not bound or being bound.
func ofResize(p *cluster.Pod, d *eventlog.Decision) bool {
	return p != nil && p.Stage == cluster.Bound && recorded{decision: d}.failed()
}
