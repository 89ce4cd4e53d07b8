package eventlog

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kaiv2alpha2 "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	xschedulingv1alpha1 "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcanov1beta1 "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
)

// resourceInfo has all facts about a resource.
type resourceInfo struct {
	resource Resource
	// code is the resource's number in the log: it is never reused or renumbered.
	code       byte
	namespaced bool
	version    schema.GroupVersion
	kind       string
	// object makes an empty object of the one Go type that the resource has in a log.
	object func() Object
}

// registry is the table of all resources, sorted by name.
var registry = []resourceInfo{
	{
		CompositePodGroups,
		22,
		true,
		schedulingv1alpha3.SchemeGroupVersion,
		"CompositePodGroup",
		func() Object { return new(schedulingv1alpha3.CompositePodGroup) },
	},
	{
		CSIDrivers,
		18,
		false,
		storagev1.SchemeGroupVersion,
		"CSIDriver",
		func() Object { return new(storagev1.CSIDriver) },
	},
	{CSINodes, 17, false, storagev1.SchemeGroupVersion, "CSINode", func() Object { return new(storagev1.CSINode) }},
	{
		CSIStorageCapacities,
		19,
		true,
		storagev1.SchemeGroupVersion,
		"CSIStorageCapacity",
		func() Object { return new(storagev1.CSIStorageCapacity) },
	},
	{
		DeviceClasses,
		15,
		false,
		resourcev1.SchemeGroupVersion,
		"DeviceClass",
		func() Object { return new(resourcev1.DeviceClass) },
	},
	{
		DeviceTaintRules,
		23,
		false,
		resourcev1.SchemeGroupVersion,
		"DeviceTaintRule",
		func() Object { return new(resourcev1.DeviceTaintRule) },
	},
	{Namespaces, 3, false, corev1.SchemeGroupVersion, "Namespace", func() Object { return new(corev1.Namespace) }},
	{Nodes, 2, false, corev1.SchemeGroupVersion, "Node", func() Object { return new(corev1.Node) }},
	{
		PersistentVolumeClaims,
		7,
		true,
		corev1.SchemeGroupVersion,
		"PersistentVolumeClaim",
		func() Object { return new(corev1.PersistentVolumeClaim) },
	},
	{
		PersistentVolumes,
		6,
		false,
		corev1.SchemeGroupVersion,
		"PersistentVolume",
		func() Object { return new(corev1.PersistentVolume) },
	},
	{
		PodDisruptionBudgets,
		10,
		true,
		policyv1.SchemeGroupVersion,
		"PodDisruptionBudget",
		func() Object { return new(policyv1.PodDisruptionBudget) },
	},
	{
		PodGroups,
		12,
		true,
		schedulingv1beta1.SchemeGroupVersion,
		"PodGroup",
		func() Object { return new(schedulingv1beta1.PodGroup) },
	},
	{
		KAIPodGroups,
		25,
		true,
		kaiv2alpha2.SchemeGroupVersion,
		"PodGroup",
		func() Object { return new(kaiv2alpha2.PodGroup) },
	},
	{
		VolcanoPodGroups,
		24,
		true,
		volcanov1beta1.SchemeGroupVersion,
		"PodGroup",
		func() Object { return new(volcanov1beta1.PodGroup) },
	},
	{
		XPodGroups,
		13,
		true,
		xschedulingv1alpha1.SchemeGroupVersion,
		"PodGroup",
		func() Object { return new(xschedulingv1alpha1.PodGroup) },
	},
	{Pods, 1, true, corev1.SchemeGroupVersion, "Pod", func() Object { return new(corev1.Pod) }},
	{
		PriorityClasses,
		11,
		false,
		schedulingv1.SchemeGroupVersion,
		"PriorityClass",
		func() Object { return new(schedulingv1.PriorityClass) },
	},
	{ReplicaSets, 8, true, appsv1.SchemeGroupVersion, "ReplicaSet", func() Object { return new(appsv1.ReplicaSet) }},
	{
		ReplicationControllers,
		5,
		true,
		corev1.SchemeGroupVersion,
		"ReplicationController",
		func() Object { return new(corev1.ReplicationController) },
	},
	{
		ResourceClaims,
		20,
		true,
		resourcev1.SchemeGroupVersion,
		"ResourceClaim",
		func() Object { return new(resourcev1.ResourceClaim) },
	},
	{
		ResourceSlices,
		21,
		false,
		resourcev1.SchemeGroupVersion,
		"ResourceSlice",
		func() Object { return new(resourcev1.ResourceSlice) },
	},
	{Services, 4, true, corev1.SchemeGroupVersion, "Service", func() Object { return new(corev1.Service) }},
	{StatefulSets, 9, true, appsv1.SchemeGroupVersion, "StatefulSet", func() Object { return new(appsv1.StatefulSet) }},
	{
		StorageClasses,
		14,
		false,
		storagev1.SchemeGroupVersion,
		"StorageClass",
		func() Object { return new(storagev1.StorageClass) },
	},
	{
		VolumeAttachments,
		16,
		false,
		storagev1.SchemeGroupVersion,
		"VolumeAttachment",
		func() Object { return new(storagev1.VolumeAttachment) },
	},
}

// The registry by each of its keys.
var (
	infoByResource = make(map[Resource]*resourceInfo)
	infoByType     = make(map[reflect.Type]*resourceInfo)
	infoByCode     [256]*resourceInfo
)

func init() {
	for i := range registry {
		info := &registry[i]
		infoByResource[info.resource] = info
		infoByType[reflect.TypeOf(info.object())] = info
		infoByCode[info.code] = info
	}
}

// Resources returns all resources, sorted by name.
func Resources() []Resource {
	all := make([]Resource, len(registry))
	for i := range registry {
		all[i] = registry[i].resource
	}
	return all
}

// ResourceOf returns the resource of obj, by its Go type. It returns false if obj is nil or of a type that no entry
// carries.
func ResourceOf(obj Object) (Resource, bool) {
	info := infoOf(obj)
	if info == nil {
		return "", false
	}
	return info.resource, true
}

// infoOf returns the facts about obj's resource, or nil.
func infoOf(obj Object) *resourceInfo {
	if obj == nil {
		return nil
	}
	info := infoByType[reflect.TypeOf(obj)]
	if info == nil || reflect.ValueOf(obj).IsNil() {
		return nil
	}
	return info
}

// NewObject returns an empty object of the resource's Go type, nil for an unknown resource.
func NewObject(res Resource) Object {
	info := infoByResource[res]
	if info == nil {
		return nil
	}
	return info.object()
}

// KindFor returns the group, version and kind that the resource's objects have in JSON; empty for an
// unknown resource.
func KindFor(res Resource) schema.GroupVersionKind {
	info := infoByResource[res]
	if info == nil {
		return schema.GroupVersionKind{}
	}
	return info.version.WithKind(info.kind)
}

// Namespaced reports whether the resource's objects live in a namespace; false for an unknown resource.
func Namespaced(res Resource) bool {
	info := infoByResource[res]
	return info != nil && info.namespaced
}
