// Package v2alpha2 holds the PodGroup of scheduling.run.ai/v2alpha2, the custom resource of the KAI Scheduler, in its
// published JSON form and without its status. It holds types only; package cluster gives a PodGroup its meaning for
// scheduling.
package v2alpha2

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of the custom resource.
var SchemeGroupVersion = schema.GroupVersion{Group: "scheduling.run.ai", Version: "v2alpha2"}

const (
	// PodGroupAnnotation is the pod annotation that names the pod's PodGroup.
	PodGroupAnnotation = "pod-group-name"
	// SubGroupLabel is the pod label with the pod's subgroup.
	SubGroupLabel = "kai.scheduler/subgroup-name"
	// NodePoolLabel is the label of a PodGroup with its node pool.
	NodePoolLabel = "kai.scheduler/node-pool"
)

// The values of PodGroupSpec.Preemptibility.
const (
	Preemptible    = "preemptible"
	NonPreemptible = "non-preemptible"
)

// PodGroup is a group of pods that are placed all together or not at all.
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PodGroupSpec `json:"spec,omitempty"`
}

// PodGroupSpec has the needs of the group, set by its owner.
type PodGroupSpec struct {
	// MinMember is the number of members that must be placed together. 0 asks for none, and an object without the
	// field asks for 1. It has no meaning if there are SubGroups.
	MinMember *int32 `json:"minMember,omitempty"`
	// MinSubGroup is the number of topmost subgroups that must be placed together: by default all.
	MinSubGroup *int32 `json:"minSubGroup,omitempty"`
	// Queue is the KAI Queue whose share the group uses.
	Queue string `json:"queue,omitempty"`
	// PriorityClassName names the PriorityClass with the group's priority.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// Preemptibility is Preemptible or NonPreemptible.
	Preemptibility string `json:"preemptibility,omitempty"`
	// TopologyConstraint limits how far apart the nodes of all members may be.
	TopologyConstraint TopologyConstraint `json:"topologyConstraint,omitempty,omitzero"`
	// SubGroups are parts of the group with needs of their own.
	SubGroups []SubGroup `json:"subGroups,omitempty"`

	// Only KAI's own scheduler and controllers read these fields.
	Parallelism          int32            `json:"parallelism,omitempty"`
	Completions          int32            `json:"completions,omitempty"`
	BackoffLimit         int32            `json:"backoffLimit,omitempty"`
	MarkUnschedulable    *bool            `json:"markUnschedulable,omitempty"`
	SchedulingBackoff    *int32           `json:"schedulingBackoff,omitempty"`
	PreemptionDelay      *metav1.Duration `json:"preemptionDelay,omitempty"`
	StalenessGracePeriod *metav1.Duration `json:"stalenessGracePeriod,omitempty"`
}

// TopologyConstraint limits how far apart nodes may be.
type TopologyConstraint struct {
	// Topology names the KAI Topology that has the levels.
	Topology string `json:"topology,omitempty"`
	// RequiredTopologyLevel and PreferredTopologyLevel are labels of nodes: all nodes must, or should, have the same
	// value.
	RequiredTopologyLevel  string `json:"requiredTopologyLevel,omitempty"`
	PreferredTopologyLevel string `json:"preferredTopologyLevel,omitempty"`
}

// SubGroup is a part of a group.
type SubGroup struct {
	// Name is the value of SubGroupLabel on the subgroup's pods.
	Name string `json:"name"`
	// MinMember is the number of its pods that must be placed together.
	MinMember *int32 `json:"minMember,omitempty"`
	// MinSubGroup is the number of subgroups directly below it that must be placed together.
	MinSubGroup *int32 `json:"minSubGroup,omitempty"`
	// Parent names the subgroup that it is below.
	Parent *string `json:"parent,omitempty"`
	// TopologyConstraint limits how far apart the nodes of its pods may be.
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (g *PodGroup) DeepCopyObject() runtime.Object {
	if g == nil {
		return nil
	}
	return g.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with g.
func (g *PodGroup) DeepCopy() *PodGroup {
	out := &PodGroup{TypeMeta: g.TypeMeta, Spec: g.Spec}
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	s := &out.Spec
	s.MinMember, s.MinSubGroup = copyOf(s.MinMember), copyOf(s.MinSubGroup)
	s.MarkUnschedulable, s.SchedulingBackoff = copyOf(s.MarkUnschedulable), copyOf(s.SchedulingBackoff)
	s.PreemptionDelay, s.StalenessGracePeriod = copyOf(s.PreemptionDelay), copyOf(s.StalenessGracePeriod)
	s.SubGroups = slices.Clone(s.SubGroups)
	for i := range s.SubGroups {
		part := &s.SubGroups[i]
		part.MinMember, part.MinSubGroup = copyOf(part.MinMember), copyOf(part.MinSubGroup)
		part.Parent, part.TopologyConstraint = copyOf(part.Parent), copyOf(part.TopologyConstraint)
	}
	return out
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}
