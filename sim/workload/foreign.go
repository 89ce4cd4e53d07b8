package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Advice on kinds that make pods and are not supported.
const (
	asPods = "put its pods into the file instead, and a PodGroup for each gang of them"
	asJobs = "put a Job with the annotation rollcall.dev/arrival into the file for each of its runs"
	asRuns = asJobs + ", or give it the annotation rollcall.dev/runs with their number"
	asNode = "put a Pod with the node's name in spec.nodeName into the file instead, for each node that has one"
	// Advice on kinds that make no pods themselves.
	asTrainJobs = "leave it out: the pods are those of its TrainJobs"
	asWorkflows = "leave it out: the pods are those of its Workflows"
	asFlows     = "put a Job of Volcano into the file for each of its flows, with the annotation " +
		"rollcall.dev/arrival where it waits for others"
	asJobFlows   = "leave it out: the pods are those of its JobFlows"
	asRayCluster = "put a RayCluster with its spec.rayClusterConfig as spec into the file instead"
	asQuota      = "leave it out: queues and their quotas are not simulated, ResourceQuotas are"
)

// kindAdvice is the advice on an unsupported kind; "" is for any version and kind of a group.
var kindAdvice = map[schema.GroupKind]string{
	{Group: "apps", Kind: "DaemonSet"}:                              asNode,
	{Group: "batch", Kind: "CronJob"}:                               asRuns,
	{Group: "batch.volcano.sh"}:                                     asPods,
	{Group: "jobset.x-k8s.io"}:                                      asPods,
	{Group: "leaderworkerset.x-k8s.io"}:                             asPods,
	{Group: "kueue.x-k8s.io", Kind: "Workload"}:                     asPods,
	{Group: "kueue.x-k8s.io"}:                                       asQuota,
	{Group: "scheduling.volcano.sh", Kind: "Queue"}:                 asQuota,
	{Group: "scheduling.run.ai", Kind: "Queue"}:                     asQuota,
	{Group: "kubeflow.org"}:                                         asPods,
	{Group: "trainer.kubeflow.org"}:                                 asPods,
	{Group: "trainer.kubeflow.org", Kind: "TrainingRuntime"}:        asTrainJobs,
	{Group: "trainer.kubeflow.org", Kind: "ClusterTrainingRuntime"}: asTrainJobs,
	{Group: "ray.io"}:                                               asPods,
	{Group: "ray.io", Kind: "RayService"}:                           asRayCluster,
	{Group: "flow.volcano.sh", Kind: "JobFlow"}:                     asFlows,
	{Group: "flow.volcano.sh", Kind: "JobTemplate"}:                 asJobFlows,
	{Group: "sparkoperator.k8s.io"}:                                 asPods,
	{Group: "argoproj.io"}:                                          asPods,
	{Group: "argoproj.io", Kind: "WorkflowTemplate"}:                asWorkflows,
	{Group: "argoproj.io", Kind: "ClusterWorkflowTemplate"}:         asWorkflows,
	{Group: "workload.codeflare.dev"}:                               asPods,
	{Group: "scheduling.volcano.sh", Kind: "PodGroup"}:              asOwnGroup,
	{Group: "scheduling.run.ai", Kind: "PodGroup"}:                  asOwnGroup,
	{Group: "scheduling.sigs.k8s.io", Kind: "PodGroup"}:             asOwnGroup,
	{Group: "scheduling.koordinator.sh", Kind: "Reservation"}:       "put a Pod that holds the room into the file",
	{Group: "kubescheduler.config.k8s.io"}:                          "give it with --config",
	{Group: "scheduling.godel.kubewharf.io", Kind: "PodGroup"}:      asOwnGroup,
	{Group: "scheduling.k8s.io", Kind: "Workload"}:                  asOwnGroup,
	{Group: "scheduler.x-k8s.io", Kind: "PodGroup"}:                 asOwnGroup,
	{Group: "scheduling.k8s.io", Kind: "PodGroup"}:                  asOwnGroup,
	{Group: "scheduling.x-k8s.io", Kind: "PodGroup"}:                asOwnGroup,
	{Group: "resource.k8s.io", Kind: "ResourceClaimTemplate"}:       "use resource.k8s.io/v1",
}

const asOwnGroup = "put a PodGroup of scheduling.k8s.io/v1beta1 or scheduling.x-k8s.io/v1alpha1 into the file"

// adviceOn returns the advice on an object of an unsupported kind.
func adviceOn(kind schema.GroupVersionKind) string {
	for _, key := range []schema.GroupKind{kind.GroupKind(), {Group: kind.Group}} {
		if advice, ok := kindAdvice[key]; ok {
			return advice
		}
	}
	return "leave it out"
}

// meaningless are kinds that play no part in scheduling: their objects are left out, with a note. "" is for all kinds
// of a group.
var meaningless = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}: true, {Kind: "Secret"}: true, {Kind: "Service"}: true, {Kind: "ServiceAccount"}: true,
	{Kind: "Endpoints"}: true, {Kind: "Event"}: true, {Kind: "ComponentStatus"}: true, {Kind: "PodTemplate"}: true,
	{Group: "apps", Kind: "ControllerRevision"}: true,

	{Group: "admissionregistration.k8s.io"}: true, {Group: "apiextensions.k8s.io"}: true,
	{Group: "apiregistration.k8s.io"}: true, {Group: "authentication.k8s.io"}: true,
	{Group: "authorization.k8s.io"}: true, {Group: "autoscaling"}: true, {Group: "autoscaling.k8s.io"}: true,
	{Group: "certificates.k8s.io"}: true, {Group: "cert-manager.io"}: true, {Group: "coordination.k8s.io"}: true,
	{Group: "discovery.k8s.io"}: true, {Group: "events.k8s.io"}: true, {Group: "flowcontrol.apiserver.k8s.io"}: true,
	{Group: "gateway.networking.k8s.io"}: true, {Group: "helm.sh"}: true, {Group: "kustomize.config.k8s.io"}: true,
	{Group: "metrics.k8s.io"}: true, {Group: "monitoring.coreos.com"}: true, {Group: "networking.istio.io"}: true,
	{Group: "networking.k8s.io"}: true, {Group: "rbac.authorization.k8s.io"}: true,
	{Group: "snapshot.storage.k8s.io"}: true,
}

// isMeaningless reports whether the kind plays no part in scheduling.
func isMeaningless(kind schema.GroupVersionKind) bool {
	return meaningless[kind.GroupKind()] || meaningless[schema.GroupKind{Group: kind.Group}] && kind.Group != ""
}

// leaveOut leaves an object out if it plays no part in scheduling, and refuses it otherwise.
func (m *manifest) leaveOut(d *document, kind schema.GroupVersionKind) error {
	if isMeaningless(kind) {
		m.leftOut[kind.Kind]++
		return nil
	}
	return d.errorf("kind", "kind %s of %s plays no part in a simulation%s: %s", cut(kind.Kind, 40),
		cut(kind.GroupVersion().String(), 40), d.named(), adviceOn(kind))
}

// noteMeaningless notes how many objects were left out.
func (m *manifest) noteMeaningless() {
	var counts []string
	for _, kind := range slices.Sorted(maps.Keys(m.leftOut)) {
		counts = append(counts, fmt.Sprintf("%s (%d)", kind, m.leftOut[kind]))
	}
	if len(counts) > 0 {
		m.in.note("objects that play no part in scheduling are left out: %s", strings.Join(counts, ", "))
	}
}

// Advice on annotations that instruct another scheduler.
const (
	asResource = "which is not simulated: request a resource that nodes offer, such as nvidia.com/gpu or " +
		"rollcall.dev/gpu-milli"
	asTopology = "which is not read: give the pod's PodGroup the annotation rollcall.dev/topology-required"
	asGang     = "which is not read: name the gang by the label scheduling.x-k8s.io/pod-group, and add a PodGroup"
	asAffinity = "which is not simulated: use the pod's nodeSelector or affinity"
)

// foreign are annotations that tell other schedulers about needs that a pod's spec does not have: the pod would be
// placed as if it needed less. A key with * at the end matches all keys with this beginning.
var foreign = []struct{ key, scheduler, advice string }{
	{"gpu-fraction", "KAI Scheduler", asResource},
	{"gpu-memory", "KAI Scheduler", asResource},
	{"gpu-fraction-num-devices", "KAI Scheduler", asResource},
	{"gpu-fraction-container-name", "KAI Scheduler", asResource},
	{"runai/gpu-*", "Run:ai", asResource},
	{"run.ai/gpu-*", "Run:ai", asResource},
	{"runai.dgx.nvidia.com/gpu-*", "Run:ai", asResource},
	{"kai.scheduler/topology*", "KAI Scheduler", asTopology},
	{"kai.scheduler/batch-min-member", "KAI Scheduler", asGang},
	{"kai.scheduler/min-member", "KAI Scheduler", asGang},
	{"hami.io/*", "HAMi", asResource},
	{"nvidia.com/use-gputype", "HAMi", asAffinity},
	{"nvidia.com/nouse-gputype", "HAMi", asAffinity},
	{"nvidia.com/use-gpuuuid", "HAMi", asAffinity},
	{"nvidia.com/nouse-gpuuuid", "HAMi", asAffinity},
	{"nvidia.com/vgpu-mode", "HAMi", asResource},
	{"volcano.sh/vgpu-*", "Volcano", asResource},
	{"volcano.sh/gpu-*", "Volcano", asResource},
	{"volcano.sh/numa-topology-policy", "Volcano", asAffinity},
	{"volcano.sh/network-topology-*", "Volcano", asTopology},
	{"aliyun.com/gpu-*", "the GPU share scheduler of Alibaba", asResource},
	{"ALIYUN_COM_GPU_*", "the GPU share scheduler of Alibaba", asResource},
	{"scheduling.koordinator.sh/device-*", "Koordinator", asResource},
	{"scheduling.koordinator.sh/gpu-*", "Koordinator", asResource},
	{"scheduling.koordinator.sh/resource-spec", "Koordinator", asAffinity},
	{"scheduling.koordinator.sh/numa-topology-spec", "Koordinator", asAffinity},
	{"scheduling.koordinator.sh/reservation-affinity", "Koordinator", asAffinity},
	{"gang.scheduling.koordinator.sh/network-topology-spec", "Koordinator", asTopology},
	{"kueue.x-k8s.io/podset-required-topology", "Kueue", asTopology},
	{"kueue.x-k8s.io/podset-preferred-topology", "Kueue", asTopology},
	{"kueue.x-k8s.io/podset-slice-*", "Kueue", asTopology},
	{"yunikorn.apache.org/task-group*", "YuniKorn", asGang},
	{"godel.bytedance.com/pod-group-name", "Gödel", asGang},
	{"alpha.jobset.sigs.k8s.io/exclusive-topology", "JobSet", asTopology},
	{"leaderworkerset.sigs.k8s.io/exclusive-topology", "LeaderWorkerSet", asTopology},
	{"leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology", "LeaderWorkerSet", asTopology},
}

// foreignResources are resources with which pods ask other schedulers for a part of a device. The sum of the pods'
// requests does not show how much of it a node has left.
var foreignResources = []struct{ key, scheduler string }{
	{"nvidia.com/gpumem*", "HAMi"},
	{"nvidia.com/gpucores", "HAMi"},
	{"volcano.sh/vgpu-*", "Volcano"},
	{"volcano.sh/gpu-*", "Volcano"},
	{"koordinator.sh/gpu*", "Koordinator"},
	{"aliyun.com/gpu-*", "the GPU share scheduler of Alibaba"},
}

// matchesKey reports whether name is the key, or has the beginning of a key with * at the end.
func matchesKey(key, name string) bool {
	if prefix, many := strings.CutSuffix(key, "*"); many {
		return strings.HasPrefix(name, prefix)
	}
	return key == name
}

// checkForeign refuses a pod that asks another scheduler for things that this one would not provide.
func (d *document) checkForeign(pod *corev1.Pod, prefix string) error {
	if err := d.checkForeignAnnotations(pod.Annotations, prefix, podName(pod, prefix)); err != nil {
		return err
	}
	for _, list := range []struct {
		path       string
		containers []corev1.Container
	}{{"spec.containers", pod.Spec.Containers}, {"spec.initContainers", pod.Spec.InitContainers}} {
		for i, c := range list.containers {
			path := fmt.Sprintf("%s%s[%d].resources", prefix, list.path, i)
			if err := d.checkForeignResources(pod, prefix, path, c.Resources); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkForeignAnnotations refuses annotations that ask another scheduler, or a controller, for things that pods would
// not get. object names the object with the annotations.
func (d *document) checkForeignAnnotations(annotations map[string]string, prefix, object string) error {
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		for _, f := range foreign {
			if matchesKey(f.key, name) {
				return d.errorf(prefix+"metadata.annotations."+name, "annotation %s: %s asks %s for something %s",
					cut(name, 60), object, f.scheduler, f.advice)
			}
		}
	}
	return nil
}

// checkForeignResources refuses resources that are shares of a device.
func (d *document) checkForeignResources(pod *corev1.Pod, prefix, path string, r corev1.ResourceRequirements) error {
	for _, list := range []struct {
		name string
		of   corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(list.of)) {
			for _, f := range foreignResources {
				if matchesKey(f.key, string(name)) {
					field := fmt.Sprintf("%s.%s[%s]", path, list.name, name)
					return d.errorf(field, "%s: %s asks %s for a share of a device, %s", field, podName(pod, prefix),
						f.scheduler, asResource)
				}
			}
		}
	}
	return nil
}

// podName names the pod in a message; for a template, it says only that it is one.
func podName(pod *corev1.Pod, prefix string) string {
	if prefix != "" {
		return "the template's pod"
	}
	return "pod " + ObjectName(pod)
}
