package eventlog

// Resource names an API resource: its plural name, with the API group behind a dot unless it is core.
type Resource string

// The resources that scheduling reads.
const (
	Pods                   Resource = "pods"
	Nodes                  Resource = "nodes"
	Namespaces             Resource = "namespaces"
	Services               Resource = "services"
	ReplicationControllers Resource = "replicationcontrollers"
	PersistentVolumes      Resource = "persistentvolumes"
	PersistentVolumeClaims Resource = "persistentvolumeclaims"
	ReplicaSets            Resource = "replicasets.apps"
	StatefulSets           Resource = "statefulsets.apps"
	PodDisruptionBudgets   Resource = "poddisruptionbudgets.policy"
	PriorityClasses        Resource = "priorityclasses.scheduling.k8s.io"
	PodGroups              Resource = "podgroups.scheduling.k8s.io"
	XPodGroups             Resource = "podgroups.scheduling.x-k8s.io"
	VolcanoPodGroups       Resource = "podgroups.scheduling.volcano.sh"
	KAIPodGroups           Resource = "podgroups.scheduling.run.ai"
	CompositePodGroups     Resource = "compositepodgroups.scheduling.k8s.io"
	StorageClasses         Resource = "storageclasses.storage.k8s.io"
	CSINodes               Resource = "csinodes.storage.k8s.io"
	CSIDrivers             Resource = "csidrivers.storage.k8s.io"
	CSIStorageCapacities   Resource = "csistoragecapacities.storage.k8s.io"
	VolumeAttachments      Resource = "volumeattachments.storage.k8s.io"
	ResourceClaims         Resource = "resourceclaims.resource.k8s.io"
	ResourceSlices         Resource = "resourceslices.resource.k8s.io"
	DeviceClasses          Resource = "deviceclasses.resource.k8s.io"
	DeviceTaintRules       Resource = "devicetaintrules.resource.k8s.io"
)
