package cluster

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// The state for preemption.

// Info returns the pod as plugins see it: on its node while it holds capacity there.
func (p *Pod) Info() fwk.PodInfo { return p.info }

// InfoOn returns the pending pod as plugins would see it on the node.
func (p *Pod) InfoOn(node string) fwk.PodInfo { return onNode(p.info, node) }

// DisruptedWith returns all pods with a node that are disrupted together with p, itself among them, in the order of
// gangs and names. key is the CompositePodGroup or PodGroup whose disruptionMode is all, the highest if several say so.
// If the pod is disrupted by itself, key is the pod's.
func (p *Pod) DisruptedWith() (key fwk.EntityKey, pods []*Pod) {
	if g := p.Group; g != nil {
		for _, c := range g.Above() {
			if c.object != nil && c.object.Spec.DisruptionMode != nil && c.object.Spec.DisruptionMode.All != nil {
				for _, each := range c.Gangs() {
					pods = append(pods, each.onNodes()...)
				}
				return fwk.CompositePodGroupKey(c.Namespace, c.Name), pods
			}
		}
		if o := g.object(); o != nil && o.Spec.DisruptionMode != nil && o.Spec.DisruptionMode.All != nil {
			return fwk.PodGroupKey(g.Namespace, g.Name), g.onNodes()
		}
	}
	return fwk.PodKey(p.Object.Namespace, p.Object.Name), []*Pod{p}
}

// VictimsVersion is a memo's version. While it is the same, the pods with a node are the same, with their priorities
// and disruption groups. Some of them may have been evicted meanwhile.
type VictimsVersion struct{ objects, room, placements uint64 }

// VictimsVersion returns the version now. It counts changes of every object but pods, pods that take a node or leave
// it, and changes of a pod on a node or of a gang's members.
func (s *State) VictimsVersion() VictimsVersion {
	return VictimsVersion{s.record[ObjectChanged], s.record[RoomFreed], s.record[PodPlaced]}
}

// ChoosesNodesFirst reports whether preemption for g, or for its unit, chooses the nodes of the members before the
// victims. kube-scheduler 1.37 does so if the fields of scheduling.k8s.io ask for a topology. Rollcall's own
// annotations do not cause it.
func (g *Group) ChoosesNodesFirst() bool {
	return slices.ContainsFunc(g.Unit(), func(each *Group) bool {
		o := each.object()
		return each.HasTopologyAbove() ||
			o != nil && o.Spec.SchedulingConstraints != nil && len(o.Spec.SchedulingConstraints.Topology) > 0
	})
}

// Independent reports whether g is a PodGroup of the basic policy: no pod of it needs another one.
func (g *Group) Independent() bool {
	o := g.object()
	return o != nil && o.Spec.SchedulingPolicy.Basic != nil
}

// CanLose returns how many members with a node may go so that g still has its minimum. ok is false for a gang that has
// nothing to lose: it needs one member only, has not its minimum anyway, or it is not known what it needs.
func (g *Group) CanLose() (n int, ok bool) {
	known := g.known()
	n = known.Placed() + known.Succeeded - known.Min
	return n, known.Known() && known.Min > 1 && n >= 0
}

// onNodes returns the members with a node, by name.
func (g *Group) onNodes() (pods []*Pod) {
	for _, p := range g.Members() {
		if p.Stage != Pending {
			pods = append(pods, p)
		}
	}
	return pods
}

// object returns the group's object of scheduling.k8s.io, nil if it has none.
func (g *Group) object() *schedulingv1beta1.PodGroup {
	o, _ := g.informers.Get(eventlog.PodGroups, g.Namespace, g.Name).(*schedulingv1beta1.PodGroup)
	return o
}

// MayPreempt reports whether pods may be preempted for g. This is the preemptionPolicy of the topmost CompositePodGroup
// above it that has one, or else of its own object. Without these it is true unless one of its members says Never.
func (g *Group) MayPreempt() bool {
	if may, said := g.saysWhetherToPreempt(); said {
		return may
	}
	// any order: one is enough
	for _, p := range g.members {
		if saysNever(p.Object) {
			return false
		}
	}
	return true
}

// saysWhetherToPreempt is the preemptionPolicy of the topmost CompositePodGroup above g that has one, or else of g's
// own object; said is false if none has one.
func (g *Group) saysWhetherToPreempt() (may, said bool) {
	for _, c := range g.Above() {
		if c.object != nil && c.object.Spec.PreemptionPolicy != nil {
			return *c.object.Spec.PreemptionPolicy != schedulingv1alpha3.PreemptNever, true
		}
	}
	if o := g.object(); o != nil && o.Spec.PreemptionPolicy != nil {
		return *o.Spec.PreemptionPolicy != schedulingv1beta1.PreemptNever, true
	}
	return false, false
}

func saysNever(pod *v1.Pod) bool {
	policy := pod.Spec.PreemptionPolicy
	return policy != nil && *policy == v1.PreemptNever
}
