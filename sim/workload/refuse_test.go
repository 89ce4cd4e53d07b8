package workload

import (
	"strings"
	"testing"
)

const (
	podHead  = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n"
	podTail  = "spec: {containers: [{name: c}]}\n"
	composed = "apiVersion: scheduling.k8s.io/v1alpha3\nkind: CompositePodGroup\nmetadata: {name: c}\nspec:\n  " +
		"schedulingPolicy: {gang: {minGroupCount: 1}}\n"
	group   = "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata:\n  name: g\n"
	jobHead = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template: {spec: {containers: " +
		"[{name: c}]}}\n"
	gangs = "spec:\n  schedulingPolicy:\n    gang:\n      minCount: "
)

// TestWhatIsNotCarriedOutIsRefusedByName: input that would be dropped, or that means more than would be done, is an
// error with the line, the name and what to do.
func TestWhatIsNotCarriedOutIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name, text, start, reason string
	}{
		{"daemon set", pod + podTail + "---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d, namespace: x}\n",
			"F:7: ", "(x/d): put a Pod with the node's name"},
		{"cron job", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: d}\n", "F:2: ", "(d): put a Job with"},
		{"job set", "apiVersion: jobset.x-k8s.io/v9\nkind: JobSet\nmetadata: {name: d}\n", "F:2: ",
			"(d): put its pods into the file"},
		{"leader worker set", "apiVersion: leaderworkerset.x-k8s.io/v9\nkind: LeaderWorkerSet\nmetadata: {name: d}\n",
			"F:2: ", "(d): put its pods into the file"},
		{"kueue workload", "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Workload\nmetadata: {name: d}\n", "F:2: ",
			"(d): put its pods into the file"},
		{"volcano job", "apiVersion: batch.volcano.sh/v9\nkind: Job\nmetadata: {name: d}\n", "F:2: ",
			"(d): put its pods into the file"},
		{"pytorch job", "apiVersion: kubeflow.org/v9\nkind: PyTorchJob\nmetadata: {name: d}\n", "F:2: ",
			"(d): put its pods into the file"},
		{"other group", "apiVersion: scheduling.run.ai/v2alpha1\nkind: PodGroup\nmetadata: {name: d}\n", "F:2: ",
			"(d): put a PodGroup of scheduling.k8s.io/v1beta1"},
		{"any kind", "apiVersion: foo.dev/v1\nkind: Whatever\nmetadata: {name: d}\n", "F:2: ", "(d): leave it out"},
		{"job beside its pod", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: {spec: " +
			"{containers: [{name: c}]}}}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: j-x\n  " +
			"ownerReferences: [" +
			"{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]\n" + podTail, "F:3: ",
			"Job default/j and its pod default/j-x are both in the file"},
		{"paused deployment", strings.Replace(replicas("apps/v1", "Deployment", "w", 2), "spec:",
			"spec:\n  paused: true",
			1), "F:5: ", "a paused Deployment makes no pods"},
		{"selector of others", strings.Replace(replicas("apps/v1", "ReplicaSet", "w", 2), "matchLabels: {app: w}",
			"matchLabels: {app: v}", 1), "F:6: ", "does not match the labels of the template of ReplicaSet default/w"},
		{"negative replicas", replicas("apps/v1", "ReplicaSet", "w", -1), "F:5: ", "spec.replicas: -1 lies outside"},
		{"too many replicas", replicas("apps/v1", "StatefulSet", "w", 2147483647), "F:5: ",
			"spec.replicas: 2147483647 lies outside"},

		{"gpu fraction", podHead + "    gpu-fraction: '0.5'\n" + podTail, "F:6: ",
			"annotation gpu-fraction: pod default/a asks KAI Scheduler for something which is not simulated"},
		{"gpu memory", podHead + "    gpu-memory: '2000'\n" + podTail, "F:6: ", "KAI Scheduler"},
		{"runai", podHead + "    runai/gpu-fraction: '0.5'\n" + podTail, "F:6: ", "Run:ai"},
		{"hami", podHead + "    nvidia.com/use-gputype: A100\n" + podTail, "F:6: ", "HAMi"},
		{"volcano vgpu", podHead + "    volcano.sh/vgpu-mode: hami-core\n" + podTail, "F:6: ", "Volcano"},
		{"koordinator device", podHead + "    scheduling.koordinator.sh/device-allocate-hint: '{}'\n" + podTail,
			"F:6: ",
			"Koordinator"},
		{"kueue topology", podHead + "    kueue.x-k8s.io/podset-required-topology: rack\n" + podTail, "F:6: ",
			"rollcall.dev/topology-required"},
		{"yunikorn gang", podHead + "    yunikorn.apache.org/task-group-name: g\n" + podTail, "F:6: ",
			"scheduling.x-k8s.io/pod-group"},
		{"volcano share", pod + "spec:\n  containers:\n  - name: c\n    resources:\n      limits:\n        " +
			"volcano.sh/vgpu-memory: 1000\n", "F:9: ", "asks Volcano for a share of a device"},
		{"hami share", pod + "spec:\n  containers:\n  - name: c\n    resources:\n      limits:\n        " +
			"nvidia.com/gpumem: 1000\n", "F:9: ", "asks HAMi for a share of a device"},
		{"in a template", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template:\n    " +
			"metadata:\n      " +
			"annotations:\n        gpu-fraction: '0.5'\n    spec: {containers: [{name: c}]}\n", "F:8: ",
			"the template's pod asks KAI Scheduler"},

		{"composite below itself", composed + "  parentCompositePodGroupName: c\n", "F:6: ",
			`spec.parentCompositePodGroupName "c", which is its own name`},
		{"composite with a topology", composed + "  schedulingConstraints: {topology: [{key: a//b}]}\n", "F:6: ",
			`topology[0].key "a//b"`},
		{"topology of nothing", group + "  annotations:\n    rollcall.dev/topology-required: ','\n" + gangs + "2\n",
			"F:6: ",
			"want a list of different label keys"},
		{"topology of a member", podHead + "    scheduling.k8s.io/group-name: g\n    " +
			"rollcall.dev/topology-preferred: 'a,,b'\n" +
			podTail, "F:7: ", "want a list of different label keys"},
		{"below minimum", group + "  annotations:\n    rollcall.dev/below-minimum: evict\n" + gangs + "2\n", "F:6: ",
			"want Keep or Evict"},
		{"groups", podHead + "    gang.scheduling.koordinator.sh/name: g\n    " +
			"gang.scheduling.koordinator.sh/min-available: '1'\n    gang.scheduling.koordinator.sh/groups: '[a'\n" +
			podTail,
			"F:8: ", "want a JSON list"},
		{"minimum of Volcano", podHead + "    scheduling.k8s.io/group-name: g\n    " +
			"scheduling.volcano.sh/group-min-member: many\n" + podTail, "F:7: ", "want a number from 1"},
		{"two groups", podHead + "    scheduling.k8s.io/group-name: g\n    gang.scheduling.koordinator.sh/name: " +
			"h\n" + podTail,
			"F:1: ", "names two pod groups"},
		{"minCount", group + gangs + "2147483647\n", "F:1: ", "a gang of 2147483647"},
		{"minMember", "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: " +
			"{minMember: " +
			"2147483647}\n", "F:1: ", "a gang of 2147483647"},
		{"total", podHead + "    kueue.x-k8s.io/pod-group-total-count: '2147483647'\n  labels: " +
			"{kueue.x-k8s.io/pod-group-name: g}\n" + podTail, "F:1: ", "a gang of 2147483647"},
		{"negative minMember", "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\n" +
			"spec: {minMember: -1}\n", "F:4: ", "must not be negative"},
		{"replicas of nothing", "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: w}\n" +
			"spec: {replicas: 2, selector: {app: w}}\n", "F:4: ", "has no template to make pods of"},
		{"replicas that end", strings.Replace(replicas("apps/v1", "ReplicaSet", "w", 2), "spec: {containers",
			"spec: {restartPolicy: Never, containers", 1), "F:9: ", "the pods of a ReplicaSet restart Always"},
		{"ordinals below 0", strings.Replace(replicas("apps/v1", "StatefulSet", "w", 2), "spec:",
			"spec:\n  ordinals: {start: -1}", 1), "F:5: ", "spec.ordinals.start: -1 lies outside"},
		{"ordinals without end", strings.Replace(replicas("apps/v1", "StatefulSet", "w", 2), "spec:",
			"spec:\n  ordinals: {start: 2147483647}", 1), "F:5: ", "spec.ordinals.start: 2147483647 lies outside"},
		{"job without time", jobHead + "  activeDeadlineSeconds: 0\n", "F:6: ", "0 lies outside 1 and"},
		{"job of all times", jobHead + "  activeDeadlineSeconds: 9223372036854775807\n", "F:6: ", "lies outside 1 and"},
		{"job beyond all times", strings.Replace(jobHead, "{name: j}",
			"{name: j, annotations: {rollcall.dev/arrival: 1h}}", 1) + "  activeDeadlineSeconds: 3153600000\n", "F:6: ",
			"the deadline lies beyond"},
		{"job of no pod", jobHead + "  completions: 0\n", "F:6: ", "spec.completions: 0 lies outside 1 and"},
		{"job of too many pods", jobHead + "  completions: 2147483647\n", "F:6: ",
			"spec.completions: 2147483647 lies outside"},
		{"priority of another class", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: c}\n" +
			"value: 10\n---\n" + pod + "spec: {priorityClassName: c, priority: 5, containers: [{name: c}]}\n", "F:",
			"computed 10 from the given PriorityClass name (admission plugin Priority)"},
		{"job without a number", "-1 0 -1 5 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", "F:1: ", "job number unknown"},
		{"suggestion", podHead + "    rollcall.dev/arival: 1s\n" + podTail, "F:6: ", "is rollcall.dev/arrival meant?"},
		{"suggestion for a gang", podHead + "    scheduling.k8s.io/group-name: g\n    " +
			"rollcall.dev/topologyrequired: a\n" +
			podTail, "F:7: ", "is rollcall.dev/topology-required meant?"},
		{"label instead of annotation", strings.Replace(podHead, "annotations", "labels", 1) +
			"    rollcall.dev/duration: 10m\n" + podTail, "F:6: ",
			"label rollcall.dev/duration has no meaning here: it is an annotation"},
		{"label of a template", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template:\n    " +
			"metadata:\n" +
			"      labels: {rollcall.dev/duration: 10m}\n    spec: {containers: [{name: c}]}\n", "F:7: ",
			"label rollcall.dev/duration has no meaning here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readText(c.text)
			if err == nil || !strings.HasPrefix(err.Error(), c.start) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got  %v\nwant %s… %s", err, c.start, c.reason)
			}
		})
	}
}
