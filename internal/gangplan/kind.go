package gangplan

import (
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
)

// kind is members that plugins treat alike.
type kind struct {
	pod      *v1.Pod // the first of them, without a node
	members  []*cluster.Pod
	number   int
	next     int   // how many of the members have a node
	left     int   // how many are still to place
	dominant int64 // the largest part of a feasible node's free amount that a member requests, as a percentage
	requests []int64
	ports    bool
	// nodes are the feasible nodes at the moment, by name. They are kept from step to step for kinds that depend on no
	// other pod.
	nodes map[string]fwk.NodeInfo
	// excluded has the nodes that this kind does not use in the branch under way.
	excluded map[string]bool
}

// kindsOf returns the kinds of members, in the order of their first members. dependent reports whether a member may
// depend on the places of others.
func kindsOf(members []*cluster.Pod) (kinds []*kind, dependent bool) {
	for _, m := range members {
		dependent = dependent || dependsOnOthers(m.Object)
	}
	byKey := map[string]*kind{}
	for _, m := range members {
		key := keyOf(m.Object, dependent)
		k := byKey[key]
		if k == nil {
			pod := *m.Object
			pod.Status.NominatedNodeName = ""
			k = &kind{number: len(kinds), pod: &pod, excluded: map[string]bool{}}
			byKey[key] = k
			kinds = append(kinds, k)
		}
		k.members = append(k.members, m)
		k.left++
	}
	return kinds, dependent
}

// dependsOnOthers reports whether the places of other pods may matter to the pod.
func dependsOnOthers(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) ||
		len(pod.Spec.TopologySpreadConstraints) > 0 ||
		slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
			return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
		})
}

// keyOf returns a text that is equal for pods that plugins treat alike. With labels their labels must be equal, too:
// terms of other members may select them.
func keyOf(pod *v1.Pod, labels bool) string {
	type container struct {
		Resources v1.ResourceRequirements
		Ports     []v1.ContainerPort
		Restart   *v1.ContainerRestartPolicy
		Image     string
	}
	spec := pod.Spec
	containers := func(list []v1.Container) (out []container) {
		for i := range list {
			c := &list[i]
			out = append(out, container{c.Resources, c.Ports, c.RestartPolicy, c.Image})
		}
		return out
	}
	key := struct {
		Containers, Inits []container
		Overhead          v1.ResourceList
		Resources         *v1.ResourceRequirements
		Selector          map[string]string
		Affinity          *v1.Affinity
		Tolerations       []v1.Toleration
		Spread            []v1.TopologySpreadConstraint
		Volumes           []v1.Volume
		HostNetwork       bool
		NodeName, Profile string
		Labels            map[string]string
	}{
		containers(spec.Containers), containers(spec.InitContainers), spec.Overhead, spec.Resources, spec.NodeSelector,
		spec.Affinity, spec.Tolerations, spec.TopologySpreadConstraints, claims(spec.Volumes), spec.HostNetwork,
		spec.NodeName, spec.SchedulerName, nil,
	}
	if labels {
		key.Labels = pod.Labels
	}
	text, err := json.Marshal(key)
	if err != nil {
		return string(pod.UID) // it is like no other
	}
	return string(text)
}

// claims returns the volumes that matter to scheduling.
func claims(volumes []v1.Volume) (out []v1.Volume) {
	for _, v := range volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			out = append(out, v)
		}
	}
	return out
}
