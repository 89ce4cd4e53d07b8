package eventlog

import (
	"slices"
)

// A keptField is a field that Trim keeps, with everything below it, and why. Paths are paths of the JSON form; {a,b}
// means a and b. Fields that no row names never reach a log: env, args and commands, probes, pull secrets, references
// to secrets, the contents of config volumes, managed fields.
type keptField struct {
	path string
	why  string
}

// keptOfAll are the fields kept of every object.
var keptOfAll = []keptField{
	{"metadata.name", "identity"},
	{"metadata.namespace", "identity"},
	{"metadata.uid", "identity: an object that is deleted and made again is another one"},
	{"metadata.creationTimestamp", "order of pods in the queue and of victims"},
	{"metadata.deletionTimestamp", "a terminating pod is not scheduled; a terminating volume is not matched"},
}

// keptRows are fields that are kept of a resource's objects.
type keptRows struct {
	resource Resource
	fields   []keptField
}

// keptFields are the fields kept of each resource's objects, besides keptOfAll. Where "read by" names a
// plugin, it is one of kube-scheduler's.
var keptFields = []keptRows{
	{
		Pods,
		[]keptField{
			{"metadata.labels", "selectors of affinity, spreading and disruption budgets; the PodGroup's label"},
			{"metadata.annotations", "only those in keptAnnotations"},
			{
				"metadata.ownerReferences.{apiVersion,kind,name,uid,controller}",
				"only the controller's: default constraints of PodTopologySpread",
			},
			{"spec.nodeName", "where the pod is"},
			{"spec.schedulerName", "which profile schedules the pod"},
			{"spec.{priority,priorityClassName,preemptionPolicy}", "queue order and preemption"},
			{"spec.{nodeSelector,affinity}", "read by NodeAffinity and InterPodAffinity"},
			{"spec.tolerations", "read by TaintToleration and NodeUnschedulable"},
			{"spec.topologySpreadConstraints", "read by PodTopologySpread"},
			{"spec.schedulingGates", "read by SchedulingGates"},
			{"spec.schedulingGroup", "names the pod's PodGroup"},
			{"spec.{overhead,resources}", "requests of the pod as a whole"},
			{"spec.resourceClaims", "read by DynamicResources"},
			{"spec.{hostNetwork,hostUsers}", "host ports of host-network pods; read by NodeDeclaredFeatures"},
			{
				"spec.{activeDeadlineSeconds,terminationGracePeriodSeconds,restartPolicy}",
				"when a pod's resources come free",
			},
			{"spec.{containers,initContainers}.name", "ties a container to its status"},
			{"spec.{containers,initContainers}.image", "read by ImageLocality"},
			{"spec.{containers,initContainers}.resources", "requests, and claims by request"},
			{"spec.{containers,initContainers}.ports.{hostPort,hostIP,protocol,containerPort}", "read by NodePorts"},
			{"spec.{containers,initContainers}.restartPolicy", "requests of sidecars add up"},
			{"spec.{containers,initContainers}.restartPolicyRules.action", "read by NodeDeclaredFeatures"},
			{
				"spec.{containers,initContainers,ephemeralContainers}.volumeMounts.bindMountOptions",
				"read by NodeDeclaredFeatures",
			},
			{"spec.volumes.name", "names an ephemeral volume's claim"},
			{
				"spec.volumes.persistentVolumeClaim",
				"read by VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits",
			},
			{"spec.volumes.ephemeral.volumeClaimTemplate.spec", "the claim that comes of it"},
			{"spec.volumes.emptyDir.{medium,sizeLimit}", "in memory only: read by NodeDeclaredFeatures"},
			{"spec.volumes.csi.driver", "which driver the node must run"},
			{
				"spec.volumes.gcePersistentDisk.{pdName,partition,readOnly}",
				"read by VolumeRestrictions and NodeVolumeLimits",
			},
			{
				"spec.volumes.awsElasticBlockStore.{volumeID,partition,readOnly}",
				"read by VolumeRestrictions and NodeVolumeLimits",
			},
			{"spec.volumes.azureDisk.{diskName,diskURI,kind,readOnly}", "read by NodeVolumeLimits"},
			{"spec.volumes.azureFile.{shareName,readOnly}", "read by NodeVolumeLimits"},
			{"spec.volumes.cinder.{volumeID,readOnly}", "read by NodeVolumeLimits"},
			{"spec.volumes.vsphereVolume.volumePath", "read by NodeVolumeLimits"},
			{"spec.volumes.portworxVolume.{volumeID,readOnly}", "read by NodeVolumeLimits"},
			{"spec.volumes.iscsi.{iqn,readOnly}", "read by VolumeRestrictions"},
			{"spec.volumes.rbd.{monitors,image,pool,readOnly}", "read by VolumeRestrictions"},
			{"status.phase", "a pod that has ended holds nothing"},
			{"status.nominatedNodeName", "room that preemption made for the pod"},
			{"status.startTime", "order of victims"},
			{"status.conditions.{type,status,reason}", "only those in keptPodConditions: resize and preemption"},
			{
				"status.{resourceClaimStatuses,extendedResourceClaimStatus,nodeAllocatableResourceClaimStatuses}",
				"read by DynamicResources",
			},
			{"status.{allocatedResources,resources}", "requests of the pod while it is resized in place"},
			{
				"status.{containerStatuses,initContainerStatuses}.{name,allocatedResources,resources}",
				"requests of a container while it is resized in place",
			},
		},
	},
	{Nodes, []keptField{
		{"metadata.labels", "read by NodeAffinity, PodTopologySpread, InterPodAffinity, VolumeBinding"},
		{"spec.unschedulable", "read by NodeUnschedulable"},
		{"spec.taints", "read by TaintToleration"},
		{"spec.podPreemptionPolicy", "which pods may be preempted on the node"},
		{"status.{capacity,allocatable}", "read by NodeResourcesFit; capacity in reports of use"},
		{"status.images.{names,sizeBytes}", "read by ImageLocality"},
		{"status.declaredFeatures", "read by NodeDeclaredFeatures"},
		{"status.conditions.{type,status}", "the event that a change of them is (UpdateNodeCondition)"},
	}},
	{Namespaces, []keptField{{"metadata.labels", "namespace selectors of InterPodAffinity"}}},
	{Services, []keptField{{"spec.selector", "default constraints of PodTopologySpread"}}},
	{ReplicationControllers, []keptField{{"spec.selector", "default constraints of PodTopologySpread"}}},
	{ReplicaSets, []keptField{{"spec.selector", "default constraints of PodTopologySpread"}}},
	{StatefulSets, []keptField{{"spec.selector", "default constraints of PodTopologySpread"}}},
	{PodDisruptionBudgets, []keptField{
		{"spec.selector", "which pods the budget covers"},
		{"status.{disruptionsAllowed,disruptedPods}", "how many victims it allows"},
	}},
	{PriorityClasses, []keptField{{"{value,globalDefault,preemptionPolicy}", "priority of pods that name the class"}}},
	{PodGroups, []keptField{
		{"metadata.labels", "queues of groups"},
		{"metadata.annotations", "only those in keptAnnotations"},
		{"spec", "what the group asks for; names and numbers only"},
		{"status.resourceClaimStatuses", "read by DynamicResources"},
	}},
	{CompositePodGroups, []keptField{
		{"metadata.labels", "queues of groups"},
		{"spec", "what the groups below it ask for together; names and numbers only"},
	}},
	{XPodGroups, []keptField{
		{"metadata.labels", "queues of groups"},
		{"metadata.annotations", "only those in keptAnnotations"},
		{"spec", "what the group asks for; numbers only"},
	}},
	{VolcanoPodGroups, []keptField{
		{"metadata.annotations", "only those in keptAnnotations"},
		{"spec.{minMember,minTaskMember,minResources}", "what the group needs"},
		{"spec.priorityClassName", "the group's priority"},
		{"spec.networkTopology", "a group that must have one is refused"},
		{"spec.subGroupPolicy", "a group that has one is refused; an element may have any one of its fields"},
	}},
	{KAIPodGroups, []keptField{
		{"metadata.annotations", "only those in keptAnnotations"},
		{"spec.{minMember,minSubGroup}", "what the group needs"},
		{"spec.subGroups.{name,minMember,minSubGroup,parent,topologyConstraint}", "what its parts need"},
		{"spec.topologyConstraint", "domains of the group's nodes"},
		{"spec.{priorityClassName,preemptibility}", "the group's priority; whether its pods may be preempted"},
	}},
	{
		PersistentVolumeClaims,
		[]keptField{
			{"metadata.annotations", "only those in keptAnnotations: how far binding has come"},
			{
				"metadata.ownerReferences.{apiVersion,kind,name,uid,controller}",
				"only the controller's: an ephemeral volume's claim is its pod's",
			},
			{"spec", "what the claim asks for and the volume that it has"},
			{"status.phase", "a lost claim makes its pod unschedulable"},
		},
	},
	{
		PersistentVolumes,
		[]keptField{
			{"metadata.labels", "read by VolumeZone; selectors of claims"},
			{"metadata.annotations", "only those in keptAnnotations: who bound the volume"},
			{
				"spec.{capacity,accessModes,storageClassName,volumeMode,volumeAttributesClassName,nodeAffinity}",
				"matching with claims and nodes",
			},
			{"spec.claimRef.{apiVersion,kind,namespace,name,uid}", "the claim that has the volume"},
			{"spec.csi.{driver,volumeHandle}", "read by NodeVolumeLimits"},
			{"spec.gcePersistentDisk.{pdName,partition,readOnly}", "its CSI form is read by NodeVolumeLimits"},
			{"spec.awsElasticBlockStore.{volumeID,partition,readOnly}", "its CSI form is read by NodeVolumeLimits"},
			{"spec.azureDisk.{diskName,diskURI,kind,readOnly}", "its CSI form is read by NodeVolumeLimits"},
			{"spec.azureFile.{shareName,readOnly}", "its CSI form is read by NodeVolumeLimits"},
			{"spec.cinder.{volumeID,readOnly}", "its CSI form is read by NodeVolumeLimits"},
			{"spec.vsphereVolume.volumePath", "its CSI form is read by NodeVolumeLimits"},
			{"spec.portworxVolume.{volumeID,readOnly}", "its CSI form is read by NodeVolumeLimits"},
			{"status.phase", "only an available volume is matched"},
		},
	},
	{StorageClasses, []keptField{
		{"metadata.annotations", "only those in keptAnnotations: the default class"},
		{"{provisioner,volumeBindingMode,allowedTopologies}", "read by VolumeBinding"},
	}},
	{CSINodes, []keptField{
		{"metadata.annotations", "only those in keptAnnotations: the drivers that volumes migrated to"},
		{"spec.drivers.{name,allocatable}", "read by NodeVolumeLimits"},
	}},
	{CSIDrivers, []keptField{
		{"spec.{storageCapacity,preventPodSchedulingIfMissing}", "read by VolumeBinding and NodeVolumeLimits"},
	}},
	{CSIStorageCapacities, []keptField{
		{"{nodeTopology,storageClassName,capacity,maximumVolumeSize}", "read by VolumeBinding"},
	}},
	{VolumeAttachments, []keptField{
		{"spec.{attacher,nodeName}", "read by NodeVolumeLimits"},
		{"spec.source.persistentVolumeName", "read by NodeVolumeLimits"},
	}},
	{
		ResourceClaims,
		[]keptField{
			{"metadata.annotations", "only those in keptAnnotations: a claim made for an extended resource"},
			{
				"metadata.ownerReferences.{apiVersion,kind,name,uid,controller}",
				"only the controller's: the pod that a claim was made for",
			},
			{"spec.devices.{requests,constraints}", "read by DynamicResources"},
			{"status.allocation.{nodeSelector,allocationTimestamp}", "read by DynamicResources"},
			{"status.allocation.devices.results", "which devices are taken"},
			{"status.reservedFor", "who uses the claim"},
			{"status.devices.{driver,pool,device,shareID}", "ties conditions to a device"},
			{"status.devices.conditions.{type,status}", "binding conditions of devices"},
		},
	},
	{ResourceSlices, []keptField{{"spec", "the devices there are: names, attributes, counters"}}},
	{DeviceClasses, []keptField{{"spec.{selectors,extendedResourceName}", "read by DynamicResources"}}},
	{DeviceTaintRules, []keptField{
		{"spec.deviceSelector", "the devices that have the taint"},
		{"spec.taint.{key,value,effect}", "read by DynamicResources"},
	}},
}

// cleanedRows are kept fields with a text, or a list of texts, that the API server lets users write as they like, and
// the function that cleans each text. WithoutCredentials cleans annotations. All other texts are kept unchanged: most
// are names and label values, in which the API server allows no @, ? and white space. TestNoCredentialReachesTheRecord
// lists them, with the reason for each.
type cleanedRows struct {
	resource Resource
	clean    func(string) string
	fields   []string
}

var cleanedFields = []cleanedRows{
	{Pods, imageWithoutCredentials, []string{"spec.{containers,initContainers}.image"}},
	{Pods, WithoutCredentials, []string{
		"spec.volumes.gcePersistentDisk.pdName", "spec.volumes.awsElasticBlockStore.volumeID",
		"spec.volumes.azureDisk.{diskName,diskURI}", "spec.volumes.azureFile.shareName",
		"spec.volumes.cinder.volumeID", "spec.volumes.vsphereVolume.volumePath",
		"spec.volumes.portworxVolume.volumeID", "spec.volumes.iscsi.iqn",
		"spec.volumes.rbd.{monitors,image,pool}",
		"status.conditions.reason",
	}},
	{Nodes, imageWithoutCredentials, []string{"status.images.names"}},
	{PersistentVolumes, WithoutCredentials, []string{
		"spec.csi.volumeHandle", "spec.gcePersistentDisk.pdName", "spec.awsElasticBlockStore.volumeID",
		"spec.azureDisk.{diskName,diskURI}", "spec.azureFile.shareName", "spec.cinder.volumeID",
		"spec.vsphereVolume.volumePath", "spec.portworxVolume.volumeID",
	}},
}

// keptAnnotations are the annotations kept of each resource's objects.
var keptAnnotations = map[Resource][]string{
	Pods: slices.Concat([]string{
		"scheduling.k8s.io/group-name",                 // the group, as Volcano names it
		"scheduling.volcano.sh/group-min-member",       // its minimum, as Volcano's controller reads it of owners
		"volcano.sh/task-spec",                         // the pod's part of it, which goes before its label
		"pod-group-name",                               // the group, as the KAI Scheduler names it
		"kueue.x-k8s.io/pod-group-total-count",         // the gang's size in Kueue's words
		"gang.scheduling.koordinator.sh/name",          // a gang in Koordinator's words
		"gang.scheduling.koordinator.sh/min-available", // …
		"gang.scheduling.koordinator.sh/waiting-time",
	}, koordinatorAnnotations, ownAnnotations),
	PodGroups:  slices.Concat(koordinatorAnnotations, ownAnnotations),
	XPodGroups: slices.Concat(koordinatorAnnotations, ownAnnotations),

	VolcanoPodGroups: ownAnnotations,
	KAIPodGroups:     ownAnnotations,
	PersistentVolumeClaims: {
		"volume.kubernetes.io/selected-node",
		"volume.beta.kubernetes.io/storage-class",
		"pv.kubernetes.io/bind-completed",
		"pv.kubernetes.io/bound-by-controller",
		"pv.kubernetes.io/migrated-to",
	},
	PersistentVolumes: {
		"volume.beta.kubernetes.io/storage-class",
		"pv.kubernetes.io/bound-by-controller",
		"pv.kubernetes.io/provisioned-by",
		"pv.kubernetes.io/migrated-to",
	},
	StorageClasses: {
		"storageclass.kubernetes.io/is-default-class",
		"storageclass.beta.kubernetes.io/is-default-class",
	},
	CSINodes:       {"storage.alpha.kubernetes.io/migrated-plugins"},
	ResourceClaims: {"resource.kubernetes.io/extended-resource-claim"},
}

// koordinatorAnnotations are the annotations that Koordinator reads from a gang's members and from its PodGroup.
var koordinatorAnnotations = []string{
	"gang.scheduling.koordinator.sh/total-number",
	"gang.scheduling.koordinator.sh/mode",
	"gang.scheduling.koordinator.sh/groups",
	"gang.scheduling.koordinator.sh/match-policy",
}

// ownAnnotations are Rollcall's annotations.
var ownAnnotations = []string{
	"rollcall.dev/arrival",
	"rollcall.dev/below-minimum",
	"rollcall.dev/duration",
	"rollcall.dev/topology-required",
	"rollcall.dev/topology-preferred",
}

// keptPodConditions are the types of the pod conditions that are kept.
var keptPodConditions = []string{
	"PodResizePending", // whether a resize counts yet
	"DisruptionTarget", // whether a terminating pod is a victim of preemption
}
