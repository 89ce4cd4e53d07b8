package redact

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// This file says what is not replaced by its pseudonym. Fields of API objects have the names of their Go types.

// keptFields are the fields of type string that are kept: keys of labels and taints, names that the API or a driver
// defines, and expressions. Fields of named string types have constants of the API and are kept too, except UIDs.
var keptFields = set(
	// The API's own words, and names of resources.
	"OwnerReference.APIVersion", "OwnerReference.Kind", "ObjectReference.APIVersion", "ObjectReference.Kind",
	"TypedLocalObjectReference.APIGroup", "TypedLocalObjectReference.Kind", "TypedObjectReference.APIGroup",
	"TypedObjectReference.Kind", "ResourceClaimConsumerReference.APIGroup", "ResourceClaimConsumerReference.Resource",
	"VolumeMount.BindMountOptions", "NodeStatus.DeclaredFeatures", "Condition.Type",
	"DeviceClassSpec.ExtendedResourceName",
	"Device.BindingConditions", "Device.BindingFailureConditions", "DeviceRequestAllocationResult.BindingConditions",
	"DeviceRequestAllocationResult.BindingFailureConditions",
	// Keys of labels and taints.
	"TopologySpreadConstraint.TopologyKey", "TopologySpreadConstraint.MatchLabelKeys", "PodAffinityTerm.TopologyKey",
	"PodAffinityTerm.MatchLabelKeys", "PodAffinityTerm.MismatchLabelKeys", "Toleration.Key", "Taint.Key",
	"DeviceTaint.Key", "DeviceToleration.Key", "LabelSelectorRequirement.Key", "NodeSelectorRequirement.Key",
	"TopologySelectorLabelRequirement.Key", "TopologyConstraint.Key", "TopologyConstraint.RequiredTopologyLevel",
	"TopologyConstraint.PreferredTopologyLevel", "SubGroupPolicySpec.MatchLabelKeys", "SubGroupPolicy.MatchLabelKeys",
	// Drivers: Kubernetes knows some of them by name.
	"CSINodeDriver.Name", "CSIVolumeSource.Driver", "CSIPersistentVolumeSource.Driver", "StorageClass.Provisioner",
	"VolumeAttachmentSpec.Attacher", "DeviceTaintSelector.Driver", "ResourceSliceSpec.Driver",
	"DeviceRequestAllocationResult.Driver", "AllocatedDeviceStatus.Driver",
)

// namedFields are the fields of type string whose kind is another one than Object.
var namedFields = map[string]Kind{
	"ObjectMeta.Namespace": Namespace, "ObjectReference.Namespace": Namespace, "PodAffinityTerm.Namespaces": Namespace,
	"TypedObjectReference.Namespace": Namespace,

	"PodSpec.NodeName": Node, "PodStatus.NominatedNodeName": Node, "VolumeAttachmentSpec.NodeName": Node,
	"Device.NodeName": Node, "ResourceSliceSpec.NodeName": Node,

	"PodSpec.SchedulerName": Scheduler, "PodSchedulingGroup.PodGroupName": Gang,
	"PodGroupSpec.ParentCompositePodGroupName": Gang, "CompositePodGroupSpec.ParentCompositePodGroupName": Gang,
	"Taint.Value": LabelValue, "Toleration.Value": LabelValue, "DeviceTaint.Value": LabelValue,
	"DeviceToleration.Value": LabelValue, "AllocatedDeviceStatus.ShareID": UID,

	"Container.Name": Part, "ContainerStatus.Name": Part, "PodResourceClaim.Name": Part, "ResourceClaim.Name": Part,
	"Volume.Name": Part, "PodSchedulingGate.Name": Part, "PodResourceClaimStatus.Name": Part,
	"ContainerPort.HostIP": Part, "PodCondition.Reason": Free, "PodStatus.Reason": Free,
	"NodeCondition.Reason": Free, "ContainerStateTerminated.Reason": Free, "PodGroupSpec.Preemptibility": Free,
	"NetworkTopology.Mode": Free,
}

// messageFields are texts for people. They are dropped.
var messageFields = set("PodStatus.Message", "PodCondition.Message", "NodeCondition.Message")

// expressionFields have CEL expressions. They are kept.
var expressionFields = set("CELDeviceSelector.Expression", "DerivedAttribute.Expression",
	"DeviceDerivedAttribute.Expression")

// resourceFields have names of resources.
var resourceFields = set("ContainerExtendedResourceRequest.ResourceName")

// requestFields name a request for devices, or one of its alternatives as REQUEST/ALTERNATIVE.
var requestFields = set("ResourceClaim.Request", "DeviceRequest.Name", "DeviceSubRequest.Name",
	"DeviceConstraint.Requests", "DeviceRequestAllocationResult.Request",
	"ContainerExtendedResourceRequest.RequestName")

// constants are the texts that are kept in a field: Kubernetes gives them a meaning there. Another text in such a field
// is replaced.
var constants = map[string]map[string]bool{
	"ContainerPort.HostIP": set("0.0.0.0", "::"),
	"PodCondition.Reason": set("Deferred", "Infeasible", "PreemptionByScheduler", "TerminationByKubelet",
		"EvictionByEvictionAPI", "DeletionByTaintManager", "DeletionByPodGC", "Unschedulable", "SchedulingGated",
		"SchedulerError"),
	"PodStatus.Reason": set("Evicted", "NodeLost", "DeadlineExceeded", "NodeAffinity", "NodeShutdown", "Terminated",
		"Preempting", "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods"),
	"ContainerStateTerminated.Reason": set("OOMKilled", "Error", "Completed", "ContainerCannotRun", "StartError",
		"DeadlineExceeded", "ContainerStatusUnknown"),
	"NodeCondition.Reason": set("KubeletReady", "KubeletNotReady", "NodeStatusUnknown", "NodeStatusNeverUpdated",
		"KubeletHasInsufficientMemory", "KubeletHasSufficientMemory", "KubeletHasDiskPressure",
		"KubeletHasNoDiskPressure", "KubeletHasInsufficientPID", "KubeletHasSufficientPID"),
	"PodGroupSpec.Preemptibility": set("preemptible", "non-preemptible"),
	"NetworkTopology.Mode":        set("hard", "soft"),
}

// claimInMemory is the name of a claim that is in no cluster.
const claimInMemory = "<extended-resources>"

// madeRequest are the names of requests that a scheduler makes for extended resources.
var madeRequest = regexp.MustCompile(`^container-[0-9]+-request-[0-9]+$`)

// plainValue are values of annotations that are kept: numbers, times and amounts.
var plainValue = regexp.MustCompile(`^([-+]?[0-9.]+([a-zA-Z]{1,2}([0-9.]+[a-z]{1,2})*)?|` +
	`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[-+][0-9:]+))$`)

// annotationWords are the values with a meaning of some annotations.
var annotationWords = map[string]map[string]bool{
	"rollcall.dev/below-minimum":                       set("Evict", "Keep"),
	"gang.scheduling.koordinator.sh/mode":              set("Strict", "NonStrict"),
	"gang.scheduling.koordinator.sh/match-policy":      set("only-waiting", "waiting-and-running", "once-satisfied"),
	"pv.kubernetes.io/bind-completed":                  set("yes"),
	"pv.kubernetes.io/bound-by-controller":             set("yes"),
	"storageclass.kubernetes.io/is-default-class":      set("true", "false"),
	"storageclass.beta.kubernetes.io/is-default-class": set("true", "false"),
	"resource.kubernetes.io/extended-resource-claim":   set("true"),
}

// keptAnnotations are the annotations whose values are kept: keys of labels, and drivers.
var keptAnnotations = set("rollcall.dev/topology-required", "rollcall.dev/topology-preferred",
	"pv.kubernetes.io/migrated-to", "pv.kubernetes.io/provisioned-by", "storage.alpha.kubernetes.io/migrated-plugins")

// gangsAnnotation lists gangs as a JSON list of NAMESPACE/NAME.
const gangsAnnotation = "gang.scheduling.koordinator.sh/groups"

// namingAnnotations are the annotations, besides gangKeys, whose values are names. A number is replaced there too.
var namingAnnotations = map[string]Kind{
	"volume.kubernetes.io/selected-node": Node, "volume.beta.kubernetes.io/storage-class": Object,
	"volcano.sh/task-spec": Object,
}

// gangKeys are the labels and annotations that name a gang.
var gangKeys = set("scheduling.k8s.io/group-name", "pod-group-name", "gang.scheduling.koordinator.sh/name",
	"pod-group.scheduling.sigs.k8s.io", "kueue.x-k8s.io/pod-group-name", "scheduling.x-k8s.io/pod-group")

// zoneSeparator joins the zones of a volume in several zones.
const zoneSeparator = "__"

// hasZones reports whether the values of a label may be several zones.
func hasZones(key string) bool {
	return slices.Contains([]string{"topology.kubernetes.io/zone", "topology.kubernetes.io/region",
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"}, key)
}

// apiWords are texts of custom resources that are kept.
var apiWords = set("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "NoSchedule", "PreferNoSchedule",
	"NoExecute", "Always", "Never", "PreemptLowerPriority")

// quantity is a number or an amount in an object of another API.
var quantity = regexp.MustCompile(`^[-+]?[0-9]*[.]?[0-9]+([eE][-+]?[0-9]+|m|k|[KMGTPE]i?|s|h)?$`)

// kindOf returns the kind of the names of a resource's objects.
func kindOf(res eventlog.Resource) Kind {
	switch res {
	case eventlog.Pods:
		return Pod
	case eventlog.Nodes, eventlog.CSINodes:
		return Node
	case eventlog.Namespaces:
		return Namespace
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups,
		eventlog.CompositePodGroups:
		return Gang
	}
	return Object
}

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, word := range words {
		m[word] = true
	}
	return m
}

// normalImage returns the name of an image as ImageLocality looks for it.
func normalImage(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		return name + ":latest"
	}
	return name
}
