package workload

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
)

// podKind is a row of the table of kinds that make pods. It has the paths of their pod templates and counts, and of
// other fields that matter for scheduling. Paths are paths of fields in the object; [] means each element of a list.
type podKind struct {
	kind schema.GroupKind
	// needs is an annotation; objects of the kind without it are not read.
	needs string
	// called is the kind's name in messages, if that differs.
	called string
	// versions are the supported versions.
	versions []string
	// sets are the parts with templates, in the order in which the pods come.
	sets []podSet
	// passed are the fields without a meaning for a scheduler.
	passed []string
	// refused are the fields with a meaning that is not supported.
	refused []refusal
	// suspend is the field that stops the making of pods.
	suspend string
	// deadline is the field with the seconds after which the remaining pods are deleted.
	deadline string
	// priority and scheduler are defaults for pods whose template has none.
	priority, scheduler string
	// ended gives the conditions, or the values of a field of the status, with which the object has ended.
	ended ending
	// gang selects the pods that are a gang.
	gang gangRule
}

// podSet is the set of pods from one template. In its patterns $name means the object's name, $set the set's name in
// lower case, $group and $index numbers, $cluster the name of the Ray cluster, and a ? at the end five letters.
type podSet struct {
	// at is the path of the set: a field, or the elements of a list.
	at string
	// name is the set's name; without it, the field key of an element, or unnamed and the element's number.
	name, key, unnamed string
	// template and count are fields below at. If there is no template, otherwise names another one, by its whole path.
	// Without count there is one pod; absent is the count if the field is missing.
	template, otherwise, count string
	absent                     int
	// first is the number of the first pod, and less is subtracted from count.
	first, less int
	// groups is the field with the number of groups of such pods, 1 if it is missing.
	groups string
	// lowest, highest, times and off are fields below at: limits of the count, a factor of it, and a switch for no
	// pods.
	lowest, highest, times, off string
	// least is the field below at with a minimum of the set's own in the gang.
	least string
	// job says that the template belongs to a Job; indexed, that the Job is Indexed by default.
	job, indexed bool
	// schedule is the field below at with the schedule of a CronJob. Each of its runs makes a group: $run is its time.
	schedule string
	// only is a field, and its values with which there are such pods; missing makes the default template of an object
	// without one.
	only    string
	values  []string
	missing bool
	// pod is the pattern of the pods' names. owner is the kind of their controller and the pattern of its name; the
	// default is the object itself.
	pod   string
	owner setOwner
	// labels are patterns.
	labels map[string]string
	// init is the init container that the controller adds; nil for none.
	init *initialiser
	// apart says that the pods do not belong to the object's gang.
	apart bool
	// passed are fields below at without a meaning for a scheduler.
	passed []string
}

// setOwner is the kind of the controller of a set's pods, with its version, and the pattern of its name.
type setOwner struct{ version, kind, name string }

// refusal is an unsupported field, unless it is empty or has one of the values of except, with | between them.
type refusal struct{ path, except, advice string }

// ending tells from the status of an object whether it no longer makes pods.
type ending struct {
	conditions []string
	path       string
	values     []string
}

// gangRule says whether the pods of an object are a gang, and its requirements.
type gangRule struct {
	// name is the pattern of the gang's name. A name with $group makes a gang of each group. "" is for a kind without
	// a gang of its own: the templates may name one.
	name string
	// by is the label, or the annotation, with which the pods name it.
	by    string
	label bool
	// always says that every object of the kind is a gang. Otherwise the presence of the field asked, or of the
	// object's label askedLabel, asks for it, and so may GangAnnotation.
	always            bool
	asked, askedLabel string
	// minimum is the field with the minimum: by default all pods count. timeout and resources go to the PodGroup.
	minimum, timeout, resources string
}

// GangAnnotation, with the value "true", asks for a gang where in a cluster the controller's configuration does.
const GangAnnotation = "rollcall.dev/gang"

// RunsAnnotation is the number of runs of a CronJob, from its arrival on.
const RunsAnnotation = "rollcall.dev/runs"

const volcanoGroup = "scheduling.k8s.io/group-name"

// Advice on unsupported fields.
const (
	asTemplates = "put it into the pod templates"
	asArrival   = "put the pods that come later into an object of their own with the annotation rollcall.dev/arrival"
	asRequired  = "give the pod templates the annotation rollcall.dev/topology-required"
	asClaims    = "put the claims into the file, and volumes that name them into the pod templates"
)

// podKinds is the table.
var podKinds = slices.Concat(kubeflowKinds(), rayKinds(), []podKind{
	{
		kind: schema.GroupKind{Group: "batch", Kind: "CronJob"}, versions: []string{"v1"}, needs: RunsAnnotation,
		sets: []podSet{{at: "spec", name: "run", template: "jobTemplate", schedule: "schedule", job: true,
			pod: "$name-$run"}},
		suspend: "spec.suspend",
		passed: []string{"spec.startingDeadlineSeconds", "spec.successfulJobsHistoryLimit",
			"spec.failedJobsHistoryLimit"},
		refused: []refusal{
			{"spec.concurrencyPolicy", "Allow", asJobs},
			{"spec.timeZone", "Etc/UTC|UTC", "write the schedule in UTC"},
		},
	},
	{
		kind: schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}, versions: []string{"v1alpha2"},
		sets: []podSet{{
			at: "spec.replicatedJobs[]", key: "name", template: "template", groups: "replicas",
			job: true, indexed: true, pod: "$name-$set-$group", passed: []string{"groupName"},
			labels: map[string]string{
				"jobset.sigs.k8s.io/jobset-name":        "$name",
				"jobset.sigs.k8s.io/replicatedjob-name": "$set",
				"jobset.sigs.k8s.io/job-index":          "$group",
			},
		}},
		suspend: "spec.suspend",
		passed: []string{"spec.network", "spec.successPolicy", "spec.failurePolicy", "spec.coordinator",
			"spec.managedBy", "spec.ttlSecondsAfterFinished"},
		refused: []refusal{
			{"spec.startupPolicy.startupPolicyOrder", "AnyOrder", asArrival},
			{"spec.replicatedJobs[].dependsOn", "", asArrival},
			{"spec.volumeClaimPolicies", "", asClaims},
		},
		ended: ending{conditions: []string{"Completed", "Failed"}},
	},
	{
		kind: schema.GroupKind{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}, versions: []string{"v1"},
		sets: []podSet{{
			at: "spec.leaderWorkerTemplate", name: "leader", template: "leaderTemplate",
			otherwise: "spec.leaderWorkerTemplate.workerTemplate", groups: "spec.replicas", pod: "$name-$group",
			owner: setOwner{"apps/v1", "StatefulSet", "$name"}, labels: leaderWorkerLabels,
		}, {
			at: "spec.leaderWorkerTemplate", name: "worker", template: "workerTemplate", groups: "spec.replicas",
			count: "size", absent: 1, less: 1, first: 1, pod: "$name-$group-$index",
			owner: setOwner{"apps/v1", "StatefulSet", "$name-$group"}, labels: leaderWorkerLabels,
			passed: []string{"restartPolicy", "subGroupPolicy", "persistentVolumeClaimRetentionPolicy"},
		}},
		passed: []string{"spec.rolloutStrategy", "spec.networkConfig"},
		refused: []refusal{
			{"spec.leaderWorkerTemplate.volumeClaimTemplates", "", asClaims},
			{"spec.startupPolicy", "LeaderCreated", "leave it out: the workers come with their leader"},
		},
		gang: gangRule{name: "$name-$group", by: volcanoGroup},
	},
	{
		kind: schema.GroupKind{Group: "batch.volcano.sh", Kind: "Job"}, called: "Volcano Job",
		versions: []string{"v1alpha1"},
		sets: []podSet{{
			at: "spec.tasks[]", key: "name", unnamed: "default", template: "template", count: "replicas",
			least: "minAvailable", pod: "$name-$set-$index", passed: []string{"policies", "maxRetry"},
			labels: map[string]string{
				"volcano.sh/job-name": "$name", "volcano.sh/task-spec": "$set", "volcano.sh/task-index": "$index",
				"volcano.sh/job-namespace": "$namespace",
			},
		}},
		passed: []string{"spec.policies", "spec.plugins", "spec.runningEstimate", "spec.maxRetry", "spec.queue",
			"spec.ttlSecondsAfterFinished", "spec.minSuccess"},
		refused: []refusal{
			{"spec.volumes", "", asClaims},
			{"spec.networkTopology", "", asRequired},
			{"spec.tasks[].dependsOn", "", asArrival},
			{"spec.tasks[].topologyPolicy", "none", "leave it out: NUMA nodes are not simulated"},
			{"spec.tasks[].partitionPolicy", "", "make a Job of each partition"},
		},
		priority: "spec.priorityClassName", scheduler: "spec.schedulerName",
		ended: ending{path: "status.state.phase", values: []string{"Aborted", "Completed", "Failed", "Terminated"}},
		gang:  gangRule{name: "$name", by: volcanoGroup, always: true, minimum: "spec.minAvailable"},
	},
})

var leaderWorkerLabels = map[string]string{
	"leaderworkerset.sigs.k8s.io/name": "$name", "leaderworkerset.sigs.k8s.io/group-index": "$group",
	"leaderworkerset.sigs.k8s.io/worker-index": "$index",
}

// kubeflowKinds are the rows of the training operator (kubeflow.org/v1) and of the MPI operator (v2beta1).
func kubeflowKinds() []podKind {
	var kinds []podKind
	for _, k := range []struct {
		kind, specs string
		sets        []string
		passed      []string
	}{
		{"PyTorchJob", "pytorchReplicaSpecs", []string{"Master", "Worker"}, []string{"spec.elasticPolicy",
			"spec.nprocPerNode"}},
		{"TFJob", "tfReplicaSpecs", []string{"PS", "Worker", "Chief", "Master", "Evaluator"},
			[]string{"spec.successPolicy", "spec.enableDynamicWorker"}},
		{"XGBoostJob", "xgbReplicaSpecs", []string{"Master", "Worker"}, nil},
		{"PaddleJob", "paddleReplicaSpecs", []string{"Master", "Worker"}, []string{"spec.elasticPolicy"}},
		{"JAXJob", "jaxReplicaSpecs", []string{"Worker"}, nil},
	} {
		var sets []podSet
		for _, name := range k.sets {
			labels := kubeflowLabels("$set", "$index")
			if name == "Master" || name == "Chief" {
				labels["training.kubeflow.org/job-role"] = "master"
			}
			set := kubeflowSet(k.specs, name, "$name-$set-$index", labels)
			if k.kind == "PyTorchJob" && name == "Worker" {
				set.init = &waitForMaster
			}
			sets = append(sets, set)
		}
		kinds = append(kinds, kubeflowKind(k.kind, "v1", sets, k.passed))
	}
	launcher, worker := kubeflowLabels("", ""), kubeflowLabels("", "$index")
	launcher["training.kubeflow.org/job-role"], worker["training.kubeflow.org/job-role"] = "launcher", "worker"
	workers := kubeflowSet("mpiReplicaSpecs", "Worker", "$name-worker-$index", worker)
	first := kubeflowSet("mpiReplicaSpecs", "Launcher", "$name-launcher", launcher)
	first.init = &deliverKubectl
	second := kubeflowSet("mpiReplicaSpecs", "Launcher", "$name-launcher-?", launcher)
	second.owner = setOwner{"batch/v1", "Job", "$name-launcher"}
	optional := workers // the MPI operator has another default than the training operator
	optional.absent = 0
	passed := []string{"spec.slotsPerWorker", "spec.cleanPodPolicy"}
	v2 := kubeflowKind("MPIJob", "v2beta1", []podSet{second, optional}, slices.Concat(passed,
		[]string{"spec.runLauncherAsWorker", "spec.sshAuthMountPath", "spec.mpiImplementation"}))
	v2.refused = append(v2.refused, refusal{"spec.launcherCreationPolicy", "AtStartup",
		"leave it out: the launcher comes with the workers"})
	v1 := kubeflowKind("MPIJob", "v1", []podSet{first, workers}, append(passed, "spec.mainContainer"))
	return append(kinds, v1, v2)
}

// kubeflowKind is a row with the fields that all these kinds have in common.
func kubeflowKind(kind, version string, sets []podSet, passed []string) podKind {
	const policy = "spec.runPolicy.schedulingPolicy"
	return podKind{
		kind: schema.GroupKind{Group: "kubeflow.org", Kind: kind}, versions: []string{version}, sets: sets,
		passed: slices.Concat(passed, []string{"spec.runPolicy.cleanPodPolicy", "spec.runPolicy.backoffLimit",
			"spec.runPolicy.ttlSecondsAfterFinished", "spec.runPolicy.managedBy", policy + ".queue"}),
		refused: []refusal{{policy + ".priorityClass", "", "put priorityClassName into the pod templates"}},
		suspend: "spec.runPolicy.suspend", deadline: "spec.runPolicy.activeDeadlineSeconds",
		ended: ending{conditions: []string{"Succeeded", "Failed"}},
		gang: gangRule{
			name: "$name", by: v1alpha1.PodGroupLabel, label: true, asked: policy, minimum: policy + ".minAvailable",
			timeout: policy + ".scheduleTimeoutSeconds", resources: policy + ".minResources",
		},
	}
}

func kubeflowSet(specs, name, pod string, labels map[string]string) podSet {
	return podSet{
		at: "spec." + specs + "." + name, name: name, template: "template", count: "replicas", absent: 1, pod: pod,
		labels: labels, passed: []string{"restartPolicy"},
	}
}

func kubeflowLabels(set, index string) map[string]string {
	labels := map[string]string{"training.kubeflow.org/job-name": "$name"}
	if set != "" {
		labels["training.kubeflow.org/replica-type"] = set
	}
	if index != "" {
		labels["training.kubeflow.org/replica-index"] = index
	}
	return labels
}

// rayKinds are the rows of KubeRay.
func rayKinds() []podKind {
	var kinds []podKind
	for _, k := range []struct{ kind, spec string }{{"RayCluster", "spec"}, {"RayJob", "spec.rayClusterSpec"}} {
		head := podSet{
			at: k.spec + ".headGroupSpec", name: "headgroup", template: "template", pod: "$cluster-head-?",
			owner: setOwner{"ray.io/v1", "RayCluster", "$cluster"}, labels: rayLabels("head"),
			passed: []string{"headService", "enableIngress", "ingressOptions", "rayStartParams", "serviceType"},
		}
		workers := podSet{
			at: k.spec + ".workerGroupSpecs[]", key: "groupName", template: "template", count: "replicas",
			lowest: "minReplicas", highest: "maxReplicas", times: "numOfHosts", off: "suspend",
			pod: "$cluster-$set-worker-?", owner: setOwner{"ray.io/v1", "RayCluster", "$cluster"},
			labels: rayLabels("worker"), init: &waitForHead,
			passed: []string{"rayStartParams", "scaleStrategy", "idleTimeoutSeconds", "priority"},
		}
		row := podKind{
			kind: schema.GroupKind{Group: "ray.io", Kind: k.kind}, versions: []string{"v1", "v1alpha1"},
			sets: []podSet{head, workers}, suspend: "spec.suspend", passed: []string{"spec.managedBy"},
			gang: gangRule{name: "$cluster", by: v1alpha1.PodGroupLabel, label: true,
				askedLabel: "ray.io/gang-scheduling-enabled"},
		}
		for _, field := range []string{"upgradeStrategy", "authOptions", "autoscalerOptions", "headServiceAnnotations",
			"gcsFaultToleranceOptions", "networkPolicy", "tlsOptions", "rayVersion"} {
			row.passed = append(row.passed, k.spec+"."+field)
		}
		row.refused = []refusal{
			{k.spec + ".enableInTreeAutoscaling", "", "leave it out: replicas says how many workers there are"},
			{k.spec + ".historyServerOptions.collectorOptions", "", "put its container into the pod templates"},
			{k.spec + ".headGroupSpec.resources", "", asTemplates}, {k.spec + ".headGroupSpec.labels", "", asTemplates},
			{k.spec + ".workerGroupSpecs[].resources", "", asTemplates},
			{k.spec + ".workerGroupSpecs[].labels", "", asTemplates},
		}
		if k.kind == "RayJob" {
			row = rayJob(row)
		}
		kinds = append(kinds, row)
	}
	return kinds
}

// rayJob adds to the row of a RayCluster's template the additional part of a RayJob: the pod that submits.
func rayJob(row podKind) podKind {
	row.sets = append(row.sets, podSet{
		at: "spec", name: "submitter", template: "submitterPodTemplate", missing: true, only: "spec.submissionMode",
		values: []string{"", "K8sJobMode"}, pod: "$name-?", owner: setOwner{"batch/v1", "Job", "$name"},
		apart: true,
	})
	for _, field := range []string{"backoffLimit", "metadata", "submitterConfig", "deletionStrategy", "entrypoint",
		"runtimeEnvYAML", "jobId", "entrypointResources", "entrypointNumCpus", "entrypointNumGpus",
		"ttlSecondsAfterFinished", "preRunningDeadlineSeconds", "shutdownAfterJobFinishes"} {
		row.passed = append(row.passed, "spec."+field)
	}
	row.passed = append(row.passed, "spec.rayClusterSpec.managedBy")
	row.refused = append(row.refused,
		refusal{"spec.submissionMode", "K8sJobMode|HTTPMode|InteractiveMode",
			"put the submitter's container into the template of the head"},
		refusal{"spec.clusterSelector", "", "put the RayCluster into the file, and leave the RayJob out"},
		refusal{"spec.rayClusterSpec.suspend", "", "leave the RayJob out"})
	row.deadline = "spec.activeDeadlineSeconds"
	row.ended = ending{path: "status.jobDeploymentStatus", values: []string{"Complete", "Failed"}}
	return row
}

func rayLabels(node string) map[string]string {
	return map[string]string{"ray.io/is-ray-node": "yes", "ray.io/cluster": "$cluster", "ray.io/node-type": node,
		"ray.io/group": "$set"}
}
