package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
)

// The labels and annotations of other projects that name a pod's gang or define its minimum. docs/GANGS.md has their
// meaning here.
const (
	sigsNameLabel = "pod-group.scheduling.sigs.k8s.io" // scheduler-plugins before v0.22, and Koordinator

	koordinatorName        = "gang.scheduling.koordinator.sh/name"
	koordinatorMin         = "gang.scheduling.koordinator.sh/min-available"
	koordinatorTotal       = "gang.scheduling.koordinator.sh/total-number"
	koordinatorWaitingTime = "gang.scheduling.koordinator.sh/waiting-time"
	koordinatorMode        = "gang.scheduling.koordinator.sh/mode"
	koordinatorGroups      = "gang.scheduling.koordinator.sh/groups"
	koordinatorMatchPolicy = "gang.scheduling.koordinator.sh/match-policy"

	kueueNameLabel = "kueue.x-k8s.io/pod-group-name"
	kueueTotal     = "kueue.x-k8s.io/pod-group-total-count"

	volcanoMin = "scheduling.volcano.sh/group-min-member"

	// Rollcall's own.
	belowMinimum      = "rollcall.dev/below-minimum"
	topologyRequired  = "rollcall.dev/topology-required"
	topologyPreferred = "rollcall.dev/topology-preferred"
)

// naming is one of the ways in which a pod names its gang.
type naming struct {
	kind, key string
	// minimum is the annotation with which members of such a gang define its minimum, "" if only a PodGroup can.
	minimum string
}

// namings are all ways in order of precedence.
var namings = [...]naming{
	{"field", "spec.schedulingGroup.podGroupName", ""},
	{"label", xscheduling.PodGroupLabel, ""},
	{"annotation", koordinatorName, koordinatorMin},
	{"label", sigsNameLabel, koordinatorMin},
	{"label", kueueNameLabel, kueueTotal},
	{"annotation", volcano.PodGroupAnnotation, volcanoMin},
	{"annotation", kai.PodGroupAnnotation, ""},
}

// of returns the name that the pod gives in this way, "" for none.
func (n *naming) of(pod *v1.Pod) string {
	switch n.kind {
	case "label":
		return pod.Labels[n.key]
	case "annotation":
		return pod.Annotations[n.key]
	}
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

func (n *naming) String() string { return n.kind + " " + n.key }

// GroupName returns the name of the gang that pod names, in the first of the ways that it uses; ok is false if it names
// none.
func GroupName(pod *v1.Pod) (types.NamespacedName, bool) {
	if n := namingOf(pod); n != nil {
		return types.NamespacedName{Namespace: pod.Namespace, Name: n.of(pod)}, true
	}
	return types.NamespacedName{Namespace: pod.Namespace}, false
}

// NamesOthers reports whether a member or a PodGroup says with which other gangs its own is admitted together.
func NamesOthers(obj eventlog.Object) bool { return obj.GetAnnotations()[koordinatorGroups] != "" }

// ParentName returns the CompositePodGroup that a PodGroup or a CompositePodGroup says that it is below; false if it
// names none, or is neither.
func ParentName(obj eventlog.Object) (types.NamespacedName, bool) {
	var parent *string
	switch o := obj.(type) {
	case *schedulingv1beta1.PodGroup:
		parent = o.Spec.ParentCompositePodGroupName
	case *schedulingv1alpha3.CompositePodGroup:
		parent = o.Spec.ParentCompositePodGroupName
	}
	if parent == nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: *parent}, true
}

func namingOf(pod *v1.Pod) *naming {
	for i := range namings {
		if namings[i].of(pod) != "" {
			return &namings[i]
		}
	}
	return nil
}

// MinimumAnnotation returns the annotation with which members can define the minimum of a gang, if the gang is named as
// pod names its own. Such a gang needs no PodGroup. It returns "" if there is none.
func MinimumAnnotation(pod *v1.Pod) string {
	if n := namingOf(pod); n != nil {
		return n.minimum
	}
	return ""
}

// MemberMinimum is the minimum that a member gives its gang by annotations; 0 if it gives none, or none that means
// anything.
func MemberMinimum(pod *v1.Pod) int {
	name, ok := GroupName(pod)
	if !ok {
		return 0
	}
	t, _ := termsOf(pod, name)
	return t.min
}

// namingFault says how the pod names two gangs at once; "" if it does not.
func namingFault(pod *v1.Pod) string {
	first := namingOf(pod)
	if first == nil {
		return ""
	}
	name := first.of(pod)
	for i := range namings {
		if other := namings[i].of(pod); other != "" && other != name {
			return fmt.Sprintf(
				"names two pod groups: %s by %s, %s by %s",
				quoted(name),
				first,
				quoted(other),
				&namings[i],
			)
		}
	}
	return ""
}
