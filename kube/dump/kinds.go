package dump

import (
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// order has all resources in the order of a live run's first lists: first the objects that others refer to, nodes
// before pods, pods last.
var order = []eventlog.Resource{
	eventlog.Namespaces, eventlog.PriorityClasses, eventlog.Services, eventlog.ReplicationControllers,
	eventlog.ReplicaSets, eventlog.StatefulSets, eventlog.PodDisruptionBudgets, eventlog.StorageClasses,
	eventlog.CSIDrivers, eventlog.CSINodes, eventlog.CSIStorageCapacities, eventlog.PersistentVolumes,
	eventlog.PersistentVolumeClaims, eventlog.VolumeAttachments, eventlog.DeviceClasses, eventlog.DeviceTaintRules,
	eventlog.ResourceSlices, eventlog.ResourceClaims, eventlog.CompositePodGroups, eventlog.PodGroups,
	eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups, eventlog.Nodes, eventlog.Pods,
}

// places are the places of resources in order.
var places = func() map[eventlog.Resource]int {
	m := map[eventlog.Resource]int{}
	for i, res := range order {
		m[res] = i
	}
	return m
}()

// typed says how to read the objects of a version and kind.
type typed struct {
	resource eventlog.Resource
	// older says that it is an older version, of the same form as the one that is read.
	older bool
	// adapt changes an object of an older version that means something else; nil for none.
	adapt func(eventlog.Object)
}

// sameForm are the older versions whose objects have the same fields as the ones that the log has.
var sameForm = map[eventlog.Resource][]string{
	eventlog.PodDisruptionBudgets: {"policy/v1beta1"},
	eventlog.PriorityClasses:      {"scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha1"},
	eventlog.StorageClasses:       {"storage.k8s.io/v1beta1"},
	eventlog.CSIDrivers:           {"storage.k8s.io/v1beta1"},
	eventlog.CSINodes:             {"storage.k8s.io/v1beta1"},
	eventlog.CSIStorageCapacities: {"storage.k8s.io/v1beta1"},
	eventlog.VolumeAttachments:    {"storage.k8s.io/v1beta1"},
	eventlog.DeviceClasses:        {"resource.k8s.io/v1beta2"},
	eventlog.ResourceSlices:       {"resource.k8s.io/v1beta2"},
	eventlog.ResourceClaims:       {"resource.k8s.io/v1beta2"},
}

// kindsRead are the known versions and kinds, by apiVersion and kind with a space between them.
var kindsRead = func() map[string]typed {
	m := map[string]typed{}
	for _, res := range order {
		kind := eventlog.KindFor(res)
		m[kind.GroupVersion().String()+" "+kind.Kind] = typed{resource: res}
		for _, version := range sameForm[res] {
			older := typed{resource: res, older: true}
			if res == eventlog.PodDisruptionBudgets {
				older.adapt = emptyMatchesNothing
			}
			m[version+" "+kind.Kind] = older
		}
	}
	return m
}()

// emptyMatchesNothing gives an empty selector of policy/v1beta1, which matches nothing, its meaning in policy/v1.
func emptyMatchesNothing(obj eventlog.Object) {
	budget, ok := obj.(*policyv1.PodDisruptionBudget)
	if ok && budget.Spec.Selector != nil && len(budget.Spec.Selector.MatchLabels) == 0 &&
		len(budget.Spec.Selector.MatchExpressions) == 0 {
		budget.Spec.Selector = (*metav1.LabelSelector)(nil)
	}
}

// folders are the folders of the resources in a must-gather: the group, core for the core group, and the plural name.
var folders = func() map[string]bool {
	m := map[string]bool{}
	for _, res := range order {
		name, group, _ := strings.Cut(string(res), ".")
		if group == "" {
			group = "core"
		}
		m[group+"/"+name] = true
	}
	return m
}()

// Resources returns the resources that a dump should have, as kubectl get names them, in the order of a live run. The
// optional ones are served only by some API servers.
func Resources() (needed, optional []string) {
	for _, res := range order {
		switch group := eventlog.KindFor(res).Group; group {
		case "", "apps", "policy", "storage.k8s.io":
			needed = append(needed, string(res))
		default:
			if res == eventlog.PriorityClasses {
				needed = append(needed, string(res))
				continue
			}
			optional = append(optional, string(res))
		}
	}
	return needed, optional
}

// A Kind is a resource of a dump.
type Kind struct {
	Resource eventlog.Resource
	// Versions are the versions that are read, the one of today first.
	Versions []schema.GroupVersionResource
	// Optional: only some API servers have it.
	Optional bool
}

// Kinds returns the resources that a dump should have, in the order of Resources.
func Kinds() (kinds []Kind) {
	_, optional := Resources()
	for _, res := range order {
		name, _, _ := strings.Cut(string(res), ".")
		k := Kind{Resource: res, Optional: slices.Contains(optional, string(res)),
			Versions: []schema.GroupVersionResource{eventlog.KindFor(res).GroupVersion().WithResource(name)}}
		for _, older := range sameForm[res] {
			if version, err := schema.ParseGroupVersion(older); err == nil {
				k.Versions = append(k.Versions, version.WithResource(name))
			}
		}
		kinds = append(kinds, k)
	}
	return kinds
}
