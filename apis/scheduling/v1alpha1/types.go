// Package v1alpha1 holds the PodGroup of scheduling.x-k8s.io/v1alpha1, the custom resource of
// kubernetes-sigs/scheduler-plugins, in its published JSON form. It holds types only; package cluster gives a PodGroup
// its meaning for scheduling.
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of the custom resource.
var SchemeGroupVersion = schema.GroupVersion{Group: "scheduling.x-k8s.io", Version: "v1alpha1"}

// PodGroupLabel is the pod label that names the pod's PodGroup.
const PodGroupLabel = "scheduling.x-k8s.io/pod-group"

// PodGroup is a group of pods that are placed all together or not at all.
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PodGroupSpec   `json:"spec,omitempty"`
	Status PodGroupStatus `json:"status,omitempty,omitzero"`
}

// PodGroupSpec has the needs of the group, set by its owner.
type PodGroupSpec struct {
	// MinMember is the number of members that must be placed together, at least 1. An object without the field has 0,
	// which counts as 1.
	MinMember int32 `json:"minMember,omitempty"`
	// MinResources is the least that the cluster must have free before the group is tried.
	MinResources corev1.ResourceList `json:"minResources,omitempty"`
	// ScheduleTimeoutSeconds is the time, in seconds, that members may wait on their nodes for the rest.
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// PodGroupStatus is a controller's report about the group.
type PodGroupStatus struct {
	// Phase is Pending, PreScheduling, Scheduling, Scheduled, Running, Unknown, Finished or Failed.
	Phase string `json:"phase,omitempty"`
	// OccupiedBy names the owner ("namespace/name") of the pods that use the group.
	OccupiedBy string `json:"occupiedBy,omitempty"`
	// Running, Succeeded and Failed count the group's pods by phase.
	Running   int32 `json:"running,omitempty"`
	Succeeded int32 `json:"succeeded,omitempty"`
	Failed    int32 `json:"failed,omitempty"`
	// ScheduleStartTime is the time at which scheduling of the members began.
	ScheduleStartTime metav1.Time `json:"scheduleStartTime,omitempty,omitzero"`
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
	out := &PodGroup{TypeMeta: g.TypeMeta, Status: g.Status}
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.MinMember = g.Spec.MinMember
	out.Spec.MinResources = g.Spec.MinResources.DeepCopy()
	if s := g.Spec.ScheduleTimeoutSeconds; s != nil {
		seconds := *s
		out.Spec.ScheduleTimeoutSeconds = &seconds
	}
	g.Status.ScheduleStartTime.DeepCopyInto(&out.Status.ScheduleStartTime)
	return out
}
