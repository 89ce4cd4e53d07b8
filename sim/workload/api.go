package workload

import (
	"context"
	"fmt"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/node"
	nodeconversion "k8s.io/kubernetes/pkg/apis/node/v1"
	nodevalidation "k8s.io/kubernetes/pkg/apis/node/validation"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
	resourcedefaults "k8s.io/kubernetes/pkg/apis/resource/v1"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"
	schedulingdefaults "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	groupdefaults "k8s.io/kubernetes/pkg/apis/scheduling/v1beta1"
	storagedefaults "k8s.io/kubernetes/pkg/apis/storage/v1"
	"k8s.io/kubernetes/pkg/capabilities"
	registrypod "k8s.io/kubernetes/pkg/registry/core/pod"

	"github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/workload/admission"
)

// defaults applies the API server's own defaults.
var defaults = newDefaults()

func newDefaults() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, register := range []func(*runtime.Scheme) error{
		coredefaults.RegisterDefaults, schedulingdefaults.RegisterDefaults, groupdefaults.RegisterDefaults,
		storagedefaults.RegisterDefaults, resourcedefaults.RegisterDefaults,
	} {
		if err := register(s); err != nil {
			panic(fmt.Sprintf("register API defaults: %v", err))
		}
	}
	return s
}

// setDefaults gives a pod that a reader made the API's defaults and the priority of a pod without a priority class.
func setDefaults(pod *corev1.Pod) {
	defaults.Default(pod)
	if pod.Spec.Priority == nil && pod.Spec.PriorityClassName == "" {
		zero := int32(0)
		pod.Spec.Priority = &zero
	}
}

// validateMeta checks an object's name, namespace, labels and annotations.
func validateMeta(o metav1.Object, namespaced bool) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(o, namespaced, apivalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
}

// validate checks an object as the API server would, for the most frequent kinds. A container may have no image, since
// nothing is run.
func validate(object eventlog.Object) field.ErrorList {
	if list := validateAPI(object); len(list) > 0 {
		return list
	}
	if err := checkAmounts(object); err != nil {
		return field.ErrorList{err}
	}
	return nil
}

// validateAPI performs the checks of the API server.
func validateAPI(object eventlog.Object) field.ErrorList {
	switch o := object.(type) {
	case *corev1.Pod:
		return validatePod(o)
	case *corev1.Node:
		var in core.Node
		if err := coredefaults.Convert_v1_Node_To_core_Node(o, &in, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return corevalidation.ValidateNode(&in)
	case *corev1.PersistentVolume:
		var in core.PersistentVolume
		if err := coredefaults.Convert_v1_PersistentVolume_To_core_PersistentVolume(o, &in, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return corevalidation.ValidatePersistentVolume(&in,
			corevalidation.ValidationOptionsForPersistentVolume(&in, nil))
	case *corev1.PersistentVolumeClaim:
		var in core.PersistentVolumeClaim
		if err := coredefaults.Convert_v1_PersistentVolumeClaim_To_core_PersistentVolumeClaim(o, &in, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return corevalidation.ValidatePersistentVolumeClaim(&in,
			corevalidation.ValidationOptionsForPersistentVolumeClaimCreate())
	case *corev1.LimitRange:
		var in core.LimitRange
		if err := coredefaults.Convert_v1_LimitRange_To_core_LimitRange(o, &in, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return corevalidation.ValidateLimitRange(&in)
	case *corev1.ResourceQuota:
		var in core.ResourceQuota
		if err := coredefaults.Convert_v1_ResourceQuota_To_core_ResourceQuota(o, &in, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return corevalidation.ValidateResourceQuota(&in)
	case *nodev1.RuntimeClass:
		var in node.RuntimeClass
		if err := nodeconversion.Convert_v1_RuntimeClass_To_node_RuntimeClass(o, &in, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return nodevalidation.ValidateRuntimeClass(&in)
	case *resourcev1.ResourceClaim, *resourcev1.ResourceSlice, *resourcev1.DeviceClass, *resourcev1.DeviceTaintRule:
		return validateDevices(object)
	case *schedulingv1beta1.PodGroup:
		return validatePodGroup(o)
	case *v1alpha1.PodGroup:
		if o.Spec.MinMember < 0 {
			return field.ErrorList{
				field.Invalid(field.NewPath("spec", "minMember"), o.Spec.MinMember, "must not be negative")}
		}
	}
	return nil
}

// create gives a pod what the API server gives it on create. First the admission plugins of the chain may change it or
// refuse it; a nil chain leaves them out. Then the pod's storage merges matchLabelKeys and mismatchLabelKeys into
// selectors, and makes requests of the pod from its limits. All other fields stay as they are in the file. create
// returns the names of the plugins that have changed this pod; see admission.Chain.
func create(pod *corev1.Pod, chain *admission.Chain) (changed []string, err error) {
	var in core.Pod
	if err := coredefaults.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), &in, nil); err != nil {
		return nil, err
	}
	if chain != nil {
		if changed, err = chain.AdmitPod(&in); err != nil {
			return nil, err
		}
	}
	registrypod.Strategy.PrepareForCreate(context.Background(), &in)
	if chain != nil {
		if err := chain.ValidatePod(&in); err != nil {
			return nil, err
		}
	}
	var out corev1.Pod
	if err := coredefaults.Convert_core_Pod_To_v1_Pod(&in, &out, nil); err != nil {
		return nil, err
	}
	was, is := &pod.Spec, &out.Spec
	was.Affinity, was.TopologySpreadConstraints, was.Resources = is.Affinity, is.TopologySpreadConstraints, is.Resources
	if chain == nil {
		return nil, nil
	}
	pod.Annotations = out.Annotations
	was.NodeSelector, was.Tolerations, was.Overhead = is.NodeSelector, is.Tolerations, is.Overhead
	was.Priority, was.PriorityClassName = is.Priority, is.PriorityClassName
	was.PreemptionPolicy = is.PreemptionPolicy
	for i := range was.Containers {
		was.Containers[i].Resources = is.Containers[i].Resources
	}
	for i := range was.InitContainers {
		was.InitContainers[i].Resources = is.InitContainers[i].Resources
	}
	return changed, nil
}

// createClaim gives a claim what the API server gives it on create. It returns the name of the admission plugin that
// has changed it, "" for none.
func createClaim(claim *corev1.PersistentVolumeClaim, chain *admission.Chain) (changed string, err error) {
	var in core.PersistentVolumeClaim
	err = coredefaults.Convert_v1_PersistentVolumeClaim_To_core_PersistentVolumeClaim(claim.DeepCopy(), &in, nil)
	if err != nil {
		return "", err
	}
	changed, err = chain.AdmitClaim(&in)
	claim.Spec.StorageClassName = in.Spec.StorageClassName
	return changed, err
}

// validatePod checks a pod that has its defaults.
func validatePod(pod *corev1.Pod) field.ErrorList {
	capabilities.Setup(true, 0) // privileged containers are for the cluster's admission to refuse
	var in core.Pod
	if err := coredefaults.Convert_v1_Pod_To_core_Pod(pod, &in, nil); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	// They are added to running pods only and take no part in scheduling.
	in.Spec.EphemeralContainers = nil
	opts := podapi.GetValidationOptionsFromPodSpecAndMeta(&in.Spec, nil, &in.ObjectMeta, nil)
	opts.ResourceIsPod = true
	var list field.ErrorList
	for _, e := range corevalidation.ValidatePodCreate(&in, opts) {
		if e.Type != field.ErrorTypeRequired || !strings.HasSuffix(e.Field, ".image") {
			list = append(list, e)
		}
	}
	return list
}

// validatePodGroup performs the checks of the API's declarative validation.
func validatePodGroup(g *schedulingv1beta1.PodGroup) field.ErrorList {
	policy, path := g.Spec.SchedulingPolicy, field.NewPath("spec", "schedulingPolicy")
	switch {
	case (policy.Basic == nil) == (policy.Gang == nil):
		return field.ErrorList{field.Invalid(path, "", "must have exactly one of basic and gang")}
	case policy.Gang != nil && policy.Gang.MinCount < 1:
		return field.ErrorList{
			field.Invalid(path.Child("gang", "minCount"), policy.Gang.MinCount, "must be at least 1")}
	}
	names := map[string]bool{}
	for i, c := range g.Spec.ResourceClaims {
		path := field.NewPath("spec", "resourceClaims").Index(i)
		switch {
		case (c.ResourceClaimName == nil) == (c.ResourceClaimTemplateName == nil):
			return field.ErrorList{
				field.Invalid(path, c.Name, "must have exactly one of resourceClaimName and resourceClaimTemplateName")}
		case names[c.Name]:
			return field.ErrorList{field.Duplicate(path.Child("name"), c.Name)}
		}
		names[c.Name] = true
	}
	return nil
}

// badQuantity finds a resource quantity that cannot be read: the decoder does not say which it was.
func badQuantity(n *yamlv3.Node) (bad *yamlv3.Node, reason error) {
	if n == nil || n.Kind == yamlv3.AliasNode {
		return nil, nil
	}
	for i, child := range n.Content {
		isList := n.Kind == yamlv3.MappingNode && i%2 == 1 && child.Kind == yamlv3.MappingNode
		if isList && quantityLists[n.Content[i-1].Value] {
			for k := 1; k < len(child.Content); k += 2 {
				value := child.Content[k]
				if _, err := resource.ParseQuantity(value.Value); value.Kind == yamlv3.ScalarNode && err != nil {
					return value, err
				}
			}
		}
		if bad, reason := badQuantity(child); bad != nil {
			return bad, reason
		}
	}
	return nil, nil
}

// quantityLists are the fields that are lists of quantities by resource.
var quantityLists = map[string]bool{
	"requests": true, "limits": true, "capacity": true, "allocatable": true, "overhead": true, "minResources": true,
}

// validateDevices checks an object of resource.k8s.io, including its CEL expressions and their cost.
func validateDevices(object runtime.Object) field.ErrorList {
	failed := func(err error) field.ErrorList { return field.ErrorList{field.InternalError(nil, err)} }
	switch o := object.(type) {
	case *resourcev1.ResourceClaim:
		var in resourceapi.ResourceClaim
		if err := resourcedefaults.Convert_v1_ResourceClaim_To_resource_ResourceClaim(o, &in, nil); err != nil {
			return failed(err)
		}
		return resourcevalidation.ValidateResourceClaim(&in)
	case *resourcev1.ResourceClaimTemplate:
		var in resourceapi.ResourceClaimTemplate
		err := resourcedefaults.Convert_v1_ResourceClaimTemplate_To_resource_ResourceClaimTemplate(o, &in, nil)
		if err != nil {
			return failed(err)
		}
		return resourcevalidation.ValidateResourceClaimTemplate(&in)
	case *resourcev1.ResourceSlice:
		var in resourceapi.ResourceSlice
		if err := resourcedefaults.Convert_v1_ResourceSlice_To_resource_ResourceSlice(o, &in, nil); err != nil {
			return failed(err)
		}
		return resourcevalidation.ValidateResourceSlice(&in)
	case *resourcev1.DeviceClass:
		var in resourceapi.DeviceClass
		if err := resourcedefaults.Convert_v1_DeviceClass_To_resource_DeviceClass(o, &in, nil); err != nil {
			return failed(err)
		}
		return resourcevalidation.ValidateDeviceClass(&in)
	case *resourcev1.DeviceTaintRule:
		var in resourceapi.DeviceTaintRule
		if err := resourcedefaults.Convert_v1_DeviceTaintRule_To_resource_DeviceTaintRule(o, &in, nil); err != nil {
			return failed(err)
		}
		return resourcevalidation.ValidateDeviceTaintRule(&in)
	}
	return nil
}
