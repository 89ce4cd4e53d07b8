// Package v1beta1 holds the PodGroup of scheduling.volcano.sh/v1beta1, the custom resource of Volcano, in its
// published JSON form and without its status. It holds types only; package cluster gives a PodGroup its meaning for
// scheduling.
package v1beta1

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of the custom resource.
var SchemeGroupVersion = schema.GroupVersion{Group: "scheduling.volcano.sh", Version: "v1beta1"}

const (
	// PodGroupAnnotation is the pod annotation that names the pod's PodGroup.
	PodGroupAnnotation = "scheduling.k8s.io/group-name"
	// TaskLabel is the pod label, which Volcano's job controller sets, with the pod's task in minTaskMember.
	TaskLabel = "volcano.sh/task-spec"
	// TaskAnnotation is the pod annotation with the pod's task. It takes precedence over the label.
	TaskAnnotation = "volcano.sh/task-spec"
)

// PodGroup is a group of pods that are placed all together or not at all.
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PodGroupSpec `json:"spec,omitempty"`
}

// PodGroupSpec has the needs of the group, set by its owner.
type PodGroupSpec struct {
	// MinMember is the number of members that must be placed together. 0 asks for none, and so does an object without
	// the field.
	MinMember int32 `json:"minMember,omitempty"`
	// MinTaskMember is the number of members of each task that must be among them.
	MinTaskMember map[string]int32 `json:"minTaskMember,omitempty"`
	// Queue is the Volcano Queue whose share the group uses.
	Queue string `json:"queue,omitempty"`
	// PriorityClassName names the PriorityClass with the group's priority.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// MinResources is the least that the cluster must have free before the group is tried.
	MinResources corev1.ResourceList `json:"minResources,omitempty"`
	// NetworkTopology limits how far apart the nodes of all members may be.
	NetworkTopology *NetworkTopology `json:"networkTopology,omitempty"`
	// SubGroupPolicy divides the members into parts with needs of their own.
	SubGroupPolicy []SubGroupPolicy `json:"subGroupPolicy,omitempty"`
}

// NetworkTopology limits how far apart nodes may be, in tiers of Volcano's HyperNodes.
type NetworkTopology struct {
	// Mode is hard, which is the default, or soft.
	Mode string `json:"mode,omitempty"`
	// HighestTierAllowed and HighestTierName give the tier, by number or by name.
	HighestTierAllowed *int64 `json:"highestTierAllowed,omitempty"`
	HighestTierName    string `json:"highestTierName,omitempty"`
}

// SubGroupPolicy is a rule that makes parts of a group.
type SubGroupPolicy struct {
	// Name is the rule's name.
	Name string `json:"name,omitempty"`
	// NetworkTopology limits how far apart the nodes of one part may be.
	NetworkTopology *NetworkTopology `json:"networkTopology,omitempty"`
	// SubGroupSize is the number of members of a part, and MinSubGroups the number of parts that are placed together.
	SubGroupSize *int32 `json:"subGroupSize,omitempty"`
	MinSubGroups *int32 `json:"minSubGroups,omitempty"`
	// LabelSelector selects the members that the rule is for, and MatchLabelKeys are the labels that tell parts apart.
	LabelSelector  *metav1.LabelSelector `json:"labelSelector,omitempty"`
	MatchLabelKeys []string              `json:"matchLabelKeys,omitempty"`
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
	out.Spec.MinTaskMember = maps.Clone(g.Spec.MinTaskMember)
	out.Spec.MinResources = g.Spec.MinResources.DeepCopy()
	out.Spec.NetworkTopology = g.Spec.NetworkTopology.deepCopy()
	out.Spec.SubGroupPolicy = slices.Clone(g.Spec.SubGroupPolicy)
	for i := range out.Spec.SubGroupPolicy {
		p := &out.Spec.SubGroupPolicy[i]
		p.NetworkTopology = p.NetworkTopology.deepCopy()
		p.SubGroupSize, p.MinSubGroups = copyOf(p.SubGroupSize), copyOf(p.MinSubGroups)
		p.LabelSelector = p.LabelSelector.DeepCopy()
		p.MatchLabelKeys = slices.Clone(p.MatchLabelKeys)
	}
	return out
}

func (t *NetworkTopology) deepCopy() *NetworkTopology {
	out := copyOf(t)
	if out != nil {
		out.HighestTierAllowed = copyOf(t.HighestTierAllowed)
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
