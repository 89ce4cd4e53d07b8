package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// told describes a workload, with a line for each PodGroup and pod: name, owner, gang, and the requested labels.
func told(w *Workload, labels ...string) string {
	var b strings.Builder
	for _, o := range w.Objects {
		if g, ok := o.Object.(*v1alpha1.PodGroup); ok {
			fmt.Fprintf(&b, "%s %s minMember %d", o.Resource, ObjectName(g), g.Spec.MinMember)
			if s := g.Spec.ScheduleTimeoutSeconds; s != nil {
				fmt.Fprintf(&b, " timeout %d", *s)
			}
			for _, name := range slices.Sorted(maps.Keys(g.Spec.MinResources)) {
				q := g.Spec.MinResources[name]
				fmt.Fprintf(&b, " %s %s", name, q.String())
			}
			for _, name := range slices.Sorted(maps.Keys(g.Annotations)) {
				fmt.Fprintf(&b, " %s=%s", name, g.Annotations[name])
			}
			b.WriteString("\n")
		} else if o.Resource == eventlog.VolcanoPodGroups {
			minimum, _ := GroupMinimum(o.Object)
			fmt.Fprintf(&b, "%s %s minMember %d\n", o.Resource, ObjectName(o.Object), minimum)
		}
	}
	for i := range w.Pods {
		p := w.Pods[i].Build(w.Pods[i].Template, "u", 0)
		fmt.Fprintf(&b, "%s", p.Name)
		if ref := metav1.GetControllerOf(p); ref != nil {
			fmt.Fprintf(&b, " of %s %s", ref.Kind, ref.Name)
		}
		if group, ok := w.Pods[i].Group(); ok {
			fmt.Fprintf(&b, " in %s", group.Name)
		}
		for _, label := range labels {
			fmt.Fprintf(&b, " %s", p.Labels[label])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestOwnersBecomeThePodsThatTheirControllersMake has a manifest of each kind, as people write it.
func TestOwnersBecomeThePodsThatTheirControllersMake(t *testing.T) {
	for _, c := range []struct {
		name, text string
		labels     []string
		want       string
	}{
		{"JobSet", `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: ml}
spec:
  failurePolicy: {maxRestarts: 3}
  network: {enableDNSHostnames: true}
  replicatedJobs:
  - name: driver
    template:
      spec: {template: {spec: {containers: [{name: c}]}}}
  - name: workers
    replicas: 2
    template:
      spec: {parallelism: 2, completions: 2, backoffLimit: 0, template: {spec: {containers: [{name: c}]}}}
`, []string{"jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index",
			"batch.kubernetes.io/job-completion-index"}, `train-driver-0-0 train driver 0 0
train-workers-0-0 train workers 0 0
train-workers-0-1 train workers 0 1
train-workers-1-0 train workers 1 0
train-workers-1-1 train workers 1 1
`},
		{"JobSet whose templates name a gang", `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: g}
spec:
  startupPolicy: {startupPolicyOrder: AnyOrder}
  replicatedJobs:
  - name: w
    replicas: 2
    template: {spec: {template: {spec: {schedulingGroup: {podGroupName: g}, containers: [{name: c}]}}}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
`, nil, "g-w-0-0 in g\ng-w-1-0 in g\n"},
		{"LeaderWorkerSet", `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec:
  replicas: 2
  rolloutStrategy: {type: RollingUpdate}
  startupPolicy: LeaderCreated
  leaderWorkerTemplate:
    size: 3
    restartPolicy: RecreateGroupOnPodRestart
    leaderTemplate: {metadata: {labels: {role: leader}}, spec: {containers: [{name: c}]}}
    workerTemplate: {spec: {containers: [{name: c}]}}
`, []string{"leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index",
			"leaderworkerset.sigs.k8s.io/worker-index", "role"}, `vllm-0 of StatefulSet vllm vllm 0 0 leader
vllm-1 of StatefulSet vllm vllm 1 0 leader
vllm-0-1 of StatefulSet vllm-0 vllm 0 1 
vllm-0-2 of StatefulSet vllm-0 vllm 0 2 
vllm-1-1 of StatefulSet vllm-1 vllm 1 1 
vllm-1-2 of StatefulSet vllm-1 vllm 1 2 
`},
		{"LeaderWorkerSet whose groups are gangs, without a leader's template", `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: v, annotations: {rollcall.dev/gang: "true", rollcall.dev/below-minimum: Evict}}
spec: {replicas: 2, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c}]}}}}
`, nil, `podgroups.scheduling.x-k8s.io default/v-0 minMember 2 rollcall.dev/below-minimum=Evict
podgroups.scheduling.x-k8s.io default/v-1 minMember 2 rollcall.dev/below-minimum=Evict
v-0 of StatefulSet v in v-0
v-1 of StatefulSet v in v-1
v-0-1 of StatefulSet v-0 in v-0
v-1-1 of StatefulSet v-1 in v-1
`},
		{"LeaderWorkerSet that says nothing", `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: v}
spec: {leaderWorkerTemplate: {workerTemplate: {spec: {containers: [{name: c}]}}}}
`, nil, "v-0 of StatefulSet v\n"},
		{"Volcano Job", `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: mpi}
spec:
  minAvailable: 3
  queue: default
  plugins: {ssh: [], svc: []}
  policies: [{event: PodEvicted, action: RestartJob}]
  tasks:
  - {replicas: 1, name: master, policies: [{event: TaskCompleted, action: CompleteJob}], template: {spec: {containers: [{name: c}]}}}
  - {replicas: 3, template: {spec: {containers: [{name: c}]}}}
`, []string{"volcano.sh/job-name", "volcano.sh/task-spec", "volcano.sh/task-index", "volcano.sh/job-namespace"},
			`podgroups.scheduling.x-k8s.io default/mpi minMember 3
mpi-master-0 of Job mpi in mpi mpi master 0 default
mpi-default1-0 of Job mpi in mpi mpi default1 0 default
mpi-default1-1 of Job mpi in mpi mpi default1 1 default
mpi-default1-2 of Job mpi in mpi mpi default1 2 default
`},
		{"Volcano Job without a minimum", `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a, uid: u-1}
spec: {tasks: [{replicas: 2, name: w, template: {spec: {containers: [{name: c}]}}}]}
`, nil, "podgroups.scheduling.x-k8s.io default/a-u-1 minMember 2\na-w-0 of Job a in a-u-1\na-w-1 of Job a in a-u-1\n"},
		{"Volcano Job beside its PodGroup", `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: a-u-1}
spec: {minMember: 2, minTaskMember: {w: 2}, queue: default, minResources: {cpu: 2}}
status: {phase: Pending}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a, uid: u-1}
spec: {tasks: [{replicas: 2, name: w, template: {spec: {containers: [{name: c}]}}}]}
`, nil, "podgroups.scheduling.volcano.sh default/a-u-1 minMember 2\na-w-0 of Job a in a-u-1\na-w-1 of Job a in a-u-1\n"},
		{"PyTorchJob", `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pt}
spec:
  runPolicy: {cleanPodPolicy: None}
  pytorchReplicaSpecs:
    Master: {restartPolicy: OnFailure, template: {spec: {containers: [{name: pytorch}]}}}
    Worker: {replicas: 2, restartPolicy: OnFailure, template: {spec: {containers: [{name: pytorch}]}}}
`, []string{"training.kubeflow.org/job-name", "training.kubeflow.org/replica-type",
			"training.kubeflow.org/replica-index", "training.kubeflow.org/job-role"},
			`pt-master-0 of PyTorchJob pt pt master 0 master
pt-worker-0 of PyTorchJob pt pt worker 0 
pt-worker-1 of PyTorchJob pt pt worker 1 
`},
		{"PyTorchJob with a scheduling policy", `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pt}
spec:
  runPolicy: {schedulingPolicy: {minAvailable: 2, queue: q, scheduleTimeoutSeconds: 60, minResources: {cpu: 3}}}
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: pytorch}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch}]}}}
`, nil, `podgroups.scheduling.x-k8s.io default/pt minMember 2 timeout 60 cpu 3
pt-master-0 of PyTorchJob pt in pt
pt-worker-0 of PyTorchJob pt in pt
pt-worker-1 of PyTorchJob pt in pt
`},
		{"TFJob, XGBoostJob, PaddleJob, JAXJob", `
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: tf}
spec: {tfReplicaSpecs: {Chief: {template: {spec: {containers: [{name: c}]}}}, PS: {template: {spec: {containers: [{name: c}]}}}}}
---
apiVersion: kubeflow.org/v1
kind: XGBoostJob
metadata: {name: xgb}
spec: {xgbReplicaSpecs: {Master: {replicas: 1, template: {spec: {containers: [{name: c}]}}}}}
---
apiVersion: kubeflow.org/v1
kind: PaddleJob
metadata: {name: pd}
spec: {paddleReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: c}]}}}}}
---
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {name: jax}
spec: {runPolicy: {schedulingPolicy: {}}, jaxReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: c}]}}}}}
`, nil, `podgroups.scheduling.x-k8s.io default/jax minMember 2
tf-ps-0 of TFJob tf
tf-chief-0 of TFJob tf
xgb-master-0 of XGBoostJob xgb
pd-worker-0 of PaddleJob pd
pd-worker-1 of PaddleJob pd
jax-worker-0 of JAXJob jax in jax
jax-worker-1 of JAXJob jax in jax
`},
		{"MPIJob v2beta1", `
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  slotsPerWorker: 1
  runPolicy: {cleanPodPolicy: Running, schedulingPolicy: {}}
  sshAuthMountPath: /home/mpiuser/.ssh
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: {spec: {containers: [{name: c}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: c}]}}}
`, []string{"training.kubeflow.org/job-role", "training.kubeflow.org/replica-index"},
			`podgroups.scheduling.x-k8s.io default/pi minMember 3
pi-launcher-GGGGG of Job pi-launcher in pi launcher 
pi-worker-0 of MPIJob pi in pi worker 0
pi-worker-1 of MPIJob pi in pi worker 1
`},
		{"MPIJob v1", `
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: pi}
spec:
  slotsPerWorker: 1
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: c}]}}}
    Worker: {replicas: 1, template: {spec: {containers: [{name: c}]}}}
`, nil, "pi-launcher of MPIJob pi\npi-worker-0 of MPIJob pi\n"},
		{"RayCluster", `
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: ray, labels: {ray.io/gang-scheduling-enabled: "true"}}
spec:
  rayVersion: 2.46.0
  headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: ray-head}]}}}
  workerGroupSpecs:
  - {groupName: small, replicas: 1, minReplicas: 2, maxReplicas: 5, rayStartParams: {}, template: {spec: {containers: [{name: w}]}}}
  - {groupName: big, replicas: 9, maxReplicas: 1, numOfHosts: 2, template: {spec: {containers: [{name: w}]}}}
  - {groupName: none, replicas: 3, suspend: true, template: {spec: {containers: [{name: w}]}}}
status: {state: ready}
`, []string{"ray.io/cluster", "ray.io/node-type", "ray.io/group"}, `podgroups.scheduling.x-k8s.io default/ray minMember 5
ray-head-GGGGG of RayCluster ray in ray ray head headgroup
ray-small-worker-GGGGG of RayCluster ray in ray ray worker small
ray-small-worker-GGGGG of RayCluster ray in ray ray worker small
ray-big-worker-GGGGG of RayCluster ray in ray ray worker big
ray-big-worker-GGGGG of RayCluster ray in ray ray worker big
`},
		{"RayJob", `
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: rj}
spec:
  entrypoint: python /home/ray/samples/sample_code.py
  shutdownAfterJobFinishes: true
  rayClusterSpec:
    headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: ray-head}]}}}
    workerGroupSpecs: [{groupName: w, replicas: 1, template: {spec: {containers: [{name: w}]}}}]
`, nil, "rj-GGGGG-head-GGGGG of RayCluster rj-GGGGG\nrj-GGGGG-w-worker-GGGGG of RayCluster rj-GGGGG\nrj-GGGGG of Job rj\n"},
		{"RayJob that is sent over HTTP", `
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: rj, labels: {ray.io/gang-scheduling-enabled: ""}}
spec:
  submissionMode: HTTPMode
  rayClusterSpec: {headGroupSpec: {template: {spec: {containers: [{name: ray-head}]}}}}
`, nil, "podgroups.scheduling.x-k8s.io default/rj-GGGGG minMember 1\nrj-GGGGG-head-GGGGG of RayCluster rj-GGGGG in rj-GGGGG\n"},
		{"CronJob", `
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, annotations: {rollcall.dev/runs: "2", rollcall.dev/arrival: 1h, rollcall.dev/duration: 5m}}
spec:
  schedule: "30 1,3 * * *"
  concurrencyPolicy: Allow
  successfulJobsHistoryLimit: 3
  jobTemplate: {spec: {parallelism: 2, template: {spec: {containers: [{name: c}]}}}}
`, []string{"job-name"}, `nightly-29453850-0 nightly-29453850
nightly-29453850-1 nightly-29453850
nightly-29453970-0 nightly-29453970
nightly-29453970-1 nightly-29453970
`},
		{"a Kueue pod group with generated names", `
apiVersion: v1
kind: Pod
metadata: {generateName: sample-, labels: {kueue.x-k8s.io/pod-group-name: sample}, annotations: {kueue.x-k8s.io/pod-group-total-count: "2"}}
spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {generateName: sample-, labels: {kueue.x-k8s.io/pod-group-name: sample}, annotations: {kueue.x-k8s.io/pod-group-total-count: "2"}}
spec: {containers: [{name: c}]}
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: job-}
spec: {template: {spec: {containers: [{name: c}]}}}
`, nil, "sample-GGGGG in sample\nsample-GGGGG in sample\njob-GGGGG-0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, w := parse(t, c.text)
			if got := told(w, c.labels...); !sameNames(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			_, again := parse(t, c.text)
			if told(w) != told(again) {
				t.Error("read twice, the names differ")
			}
			names := map[string]bool{}
			for i := range w.Pods {
				if p := &w.Pods[i]; names[p.Name] {
					t.Errorf("two pods are named %s", p.Name)
				} else if err := p.Check(); err != nil {
					t.Error(err)
				}
				names[w.Pods[i].Name] = true
			}
		})
	}
}

// sameNames reports whether got is want, in which GGGGG means any five generated letters.
func sameNames(got, want string) bool {
	if len(got) != len(want) {
		return false
	}
	b := []byte(got)
	for i := 0; ; i += 5 {
		at := strings.Index(want[i:], "GGGGG")
		if at < 0 {
			return string(b) == want
		}
		i += at
		for k := range 5 {
			if !strings.ContainsRune(generatedLetters, rune(b[i+k])) {
				return false
			}
			b[i+k] = 'G'
		}
	}
}

func TestOwnersPodsArriveAndRunAsTheirAnnotationsSay(t *testing.T) {
	_, w := parse(t, `
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: tf, annotations: {rollcall.dev/arrival: 5m, rollcall.dev/duration: 10m}}
spec:
  runPolicy: {activeDeadlineSeconds: 60, schedulingPolicy: {}}
  tfReplicaSpecs:
    PS: {template: {metadata: {annotations: {rollcall.dev/duration: 1m}}, spec: {containers: [{name: c}]}}}
    Worker: {template: {spec: {containers: [{name: c}]}}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js, annotations: {rollcall.dev/arrival: 5m, rollcall.dev/duration: 10m}}
spec: {replicatedJobs: [{name: a, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}]}
`)
	for i, want := range []time.Duration{time.Minute, 10 * time.Minute, 10 * time.Minute} {
		p := &w.Pods[i]
		if p.Arrival != 5*time.Minute || p.Duration != want ||
			p.Template.Annotations[DurationAnnotation] != fmt.Sprintf("%dm", want/time.Minute) {
			t.Errorf("%s comes at %s and runs %s: %v", p.Name, p.Arrival, p.Duration, p.Template.Annotations)
		}
		if deadline := p.Deadline; i < 2 && deadline != 6*time.Minute {
			t.Errorf("%s is deleted at %s", p.Name, deadline)
		}
	}
	if o := w.Objects[0]; o.Resource != eventlog.XPodGroups || o.At != 5*time.Minute {
		t.Errorf("the PodGroup comes at %s", o.At)
	}
}

func TestACronJobRunsAtTheTimesOfItsSchedule(t *testing.T) {
	_, w := parse(t, "apiVersion: batch/v1\nkind: CronJob\n"+
		"metadata: {name: c, annotations: {rollcall.dev/runs: '3'}}\n"+
		"spec: {schedule: '0 */6 * * *', jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}}\n")
	var at []string
	for i := range w.Pods {
		at = append(at, w.Pods[i].Arrival.String())
	}
	// The first time is after the start, which is one of the schedule's.
	if !slices.Equal(at, []string{"6h0m0s", "12h0m0s", "18h0m0s"}) {
		t.Errorf("the runs: %v", at)
	}
}

func TestOwnersThatHaveEndedMakeNoPods(t *testing.T) {
	_, w := parse(t, pod+podTail+"---\n"+`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: a}
spec: {replicatedJobs: []}
status: {conditions: [{type: Completed, status: "True"}]}
---
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: a}
status: {conditions: [{type: Created, status: "True"}, {type: Succeeded, status: "True"}]}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
status: {state: {phase: Completed}}
---
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: a}
status: {jobDeploymentStatus: Failed}
`)
	want := []string{"1 JobSet that has ended is left out", "1 RayJob that has ended is left out",
		"1 TFJob that has ended is left out", "1 Volcano Job that has ended is left out"}
	if len(w.Pods) != 1 || !slices.Equal(w.Notes, want) {
		t.Errorf("pods %v, notes %q", podNames(w), w.Notes)
	}
}

// Suspended objects make no pods, and a note says so; the same holds for a suspended pod set of a cluster.
func TestSuspendedOwnersMakeNoPods(t *testing.T) {
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  suspend: true\n  template: {spec: " +
		"{containers: [{name: c}]}}\n"
	of := func(version, kind, spec string) string {
		return "apiVersion: " + version + "\nkind: " + kind +
			"\nmetadata: {name: a, annotations: {rollcall.dev/runs: '2'}}\nspec: {" + spec + "}\n"
	}
	objects := []string{
		pod + podTail, job, strings.Replace(job, "name: j", "name: k", 1),
		of("jobset.x-k8s.io/v1alpha2", "JobSet", "suspend: true, replicatedJobs: []"),
		of("kubeflow.org/v1", "PyTorchJob", "runPolicy: {suspend: true}"),
		of("ray.io/v1", "RayJob", "suspend: true"), of("batch/v1", "CronJob", "suspend: true, schedule: '1 2 3 * *'"),
	}
	_, w := parse(t, strings.Join(objects, "---\n"))
	var want []string
	const a, all = " that is suspended makes", " that are suspended make"
	for _, n := range []string{"1 CronJob" + a, "2 Jobs" + all, "1 JobSet" + a, "1 PyTorchJob" + a, "1 RayJob" + a} {
		want = append(want, n+" no pods: those of one that is resumed come with suspend: false at rollcall.dev/arrival")
	}
	if len(w.Pods) != 1 || !slices.Equal(w.Notes, want) {
		t.Errorf("pods %v, notes %q", podNames(w), w.Notes)
	}
}

// volcanoJob is a Job of two tasks; more fields of its spec can follow.
const volcanoJob = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: v}\nspec:\n  tasks:\n" +
	"  - name: a\n    replicas: 2\n    template: {spec: {containers: [{name: c}]}}\n" +
	"  - name: b\n    replicas: 2\n    template: {spec: {containers: [{name: c}]}}\n"

// ownersText is an object of a kind with two pods of one template.
func ownersText(version, kind string) string {
	text, _ := ownerOf(version, kind, "o", 2)
	return text
}

// TestWhatOwnersAskForAndDoNotGetIsRefusedByName is TestWhatIsNotCarriedOutIsRefusedByName for the kinds of the table.
func TestWhatOwnersAskForAndDoNotGetIsRefusedByName(t *testing.T) {
	lws := "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata:\n  name: l\nspec:\n" +
		"  leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c}]}}}\n"
	jobSet := "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata:\n  name: j\nspec:\n  replicatedJobs:\n" +
		"  - name: a\n    template:\n      spec:\n        template: {spec: {containers: [{name: c}]}}\n"
	pytorch := "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: p}\nspec:\n  pytorchReplicaSpecs:\n" +
		"    Worker:\n      replicas: 2\n      template:\n        spec: {containers: [{name: c}]}\n"
	ray := "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: r}\nspec:\n  rayClusterSpec:\n" +
		"    headGroupSpec: {template: {spec: {containers: [{name: c}]}}}\n"
	const cronJob = "apiVersion: batch/v1\nkind: CronJob\n" +
		"metadata: {name: c, annotations: {rollcall.dev/runs: '2'}}\nspec:\n  schedule: '1 2 3 * *'\n" +
		"  jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}\n"
	const tensorflow = "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: p}\n"
	const volcano = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n"
	const kaiGroup = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\n"
	for _, c := range []struct {
		name, text, start, reason string
	}{
		{"unknown field of a task", volcanoJob + "    replica: 2\n", "F:12: ", `unknown field "spec.tasks[1].replica"`},
		{"unknown field of a spec", volcanoJob + "  minAvailble: 2\n", "F:12: ", `unknown field "spec.minAvailble"`},
		{"unknown field of a template", strings.Replace(pytorch, "{containers", "{nodeNam: x, containers", 1), "F:9: ",
			`spec.pytorchReplicaSpecs.Worker.template: unknown field "spec.nodeNam"`},
		{"unknown type of replicas", strings.Replace(pytorch, "Worker", "worker", 1), "F:6: ",
			`unknown field "spec.pytorchReplicaSpecs.worker"`},
		{"bad value in a template", strings.Replace(pytorch, "{name: c}", "{name: C}", 1), "F:9: ",
			"spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].name: Invalid value"},
		{"no list", strings.Replace(volcanoJob[:strings.Index(volcanoJob, "tasks:")], "spec:", "spec: {tasks: 3}", 1),
			"F:4: ", "spec.tasks: a list is expected"},
		{"no object", tensorflow + "spec: {tfReplicaSpecs: {PS: 1}}\n", "F:4: ",
			"spec.tfReplicaSpecs.PS: an object is expected"},
		{"no templates", tensorflow + "spec: {tfReplicaSpecs: {}}\n", "F:4: ",
			"TFJob default/p has no template to make pods of"},
		{"no template", strings.Replace(pytorch, "      template:\n        spec: {containers: [{name: c}]}\n", "", 1),
			"F:6: ", "spec.pytorchReplicaSpecs.Worker.template: PyTorchJob default/p has no template"},
		{"metadata that is none", strings.Replace(pytorch, "{name: p}", "3", 1), "F:3: ", "metadata: number where"},
		{"no number", strings.Replace(pytorch, "replicas: 2", "replicas: two", 1), "F:7: ",
			"spec.pytorchReplicaSpecs.Worker.replicas: two is not a whole number"},
		{"negative", strings.Replace(pytorch, "replicas: 2", "replicas: -1", 1), "F:7: ", "-1 lies outside 0 and"},
		{"too many pods", strings.Replace(lws, "size: 2", "size: 5000", 1) + "  replicas: 5000\n", "F:6: ",
			"LeaderWorkerSet default/l makes 25000000 pods: one object can make 1000000"},
		{"unnamed jobs", strings.Replace(jobSet, "- name: a\n    template", "- template", 1), "F:7: ",
			"spec.replicatedJobs[0].name: it is missing"},
		{"a field of a job", strings.Replace(jobSet, "      spec:\n", "      spec:\n        parallelism: 0\n", 1),
			"F:10: ", "spec.replicatedJobs[0].template: spec.parallelism: 0 lies outside"},
		{"pods of a job", strings.Replace(jobSet, "{name: c}", "{name: C}", 1), "F:10: ",
			"spec.replicatedJobs[0].template: spec.template.spec.containers[0].name: Invalid value"},
		{"jobs in order", jobSet + "  startupPolicy: {startupPolicyOrder: InOrder}\n", "F:11: ",
			"spec.startupPolicy.startupPolicyOrder: it is not carried out in a simulation"},
		{"jobs that depend", jobSet + "    dependsOn: [{name: b, status: Ready}]\n", "F:11: ",
			"spec.replicatedJobs[0].dependsOn: it is not carried out"},
		{"a topology of its own", strings.Replace(jobSet, "  name: j\n",
			"  name: j\n  annotations:\n    alpha.jobset.sigs.k8s.io/exclusive-topology: rack\n", 1), "F:6: ",
			"JobSet default/j asks JobSet for something which is not read"},
		{"a gang of a job set", strings.Replace(jobSet, "  name: j\n",
			"  name: j\n  annotations:\n    rollcall.dev/gang: 'true'\n", 1), "F:6: ",
			"rollcall.dev/gang has no meaning here"},
		{"workers that wait for their leader", lws + "  startupPolicy: LeaderReady\n", "F:7: ",
			"the workers come with their leader"},
		{"gang or not", strings.Replace(lws, "  name: l\n",
			"  name: l\n  annotations:\n    rollcall.dev/gang: maybe\n", 1), "F:6: ",
			`annotation rollcall.dev/gang: "maybe": want "true"`},
		{"a minimum above the pods", volcanoJob + "  minAvailable: 5\n", "F:12: ",
			"spec.minAvailable: 5 is above the 4 pods of Volcano Job default/v"},
		{"a task's minimum above its pods", volcanoJob + "    minAvailable: 3\n", "F:12: ",
			"spec.tasks[1].minAvailable: 3 is above the 2 pods there are"},
		{"a minimum for each task", volcanoJob + "    minAvailable: 1\n  minAvailable: 3\n", "F:4: ",
			"a minimum for each of its sets of pods is not carried out"},
		{"tasks that depend", volcanoJob + "    dependsOn: {name: [a]}\n", "F:12: ",
			"spec.tasks[1].dependsOn: it is not"},
		{"volumes of volcano", volcanoJob + "  volumes: [{mountPath: /x, volumeClaimName: y}]\n", "F:12: ",
			"spec.volumes: it is not carried out"},
		{"two gangs", strings.Replace(volcanoJob, "template: {spec",
			"template: {metadata: {annotations: {scheduling.k8s.io/group-name: x}}, spec", 1), "F:8: ",
			"spec.tasks[0].template: its pods name the gang default/x, and Volcano Job default/v makes one of its own"},
		{"the same gang", volcanoJob + "---\n" + strings.Replace(strings.Replace(pytorch, "{name: p}", "{name: v}", 1),
			"spec:\n", "spec:\n  runPolicy: {schedulingPolicy: {}}\n", 1), "F:15: ",
			"Volcano Job default/v and PyTorchJob default/v both make the PodGroup default/v"},
		{"a class for the gang", pytorch + "  runPolicy: {schedulingPolicy: {priorityClass: high}}\n", "F:10: ",
			"spec.runPolicy.schedulingPolicy.priorityClass: it is not carried out"},
		{"an autoscaler", ray + "    enableInTreeAutoscaling: true\n", "F:7: ",
			"spec.rayClusterSpec.enableInTreeAutoscaling"},
		{"a sidecar", ray + "  submissionMode: SidecarMode\n", "F:7: ",
			"put the submitter's container into the template"},
		{"another cluster", ray + "  clusterSelector: {a: b}\n", "F:7: ", "put the RayCluster into the file"},
		{"its own pod", volcanoJob + owned("v-a-0", "batch.volcano.sh/v1alpha1", "Job", "v"), "F:3: ",
			"Volcano Job default/v and default/v-a-0, which it made, are both in the file"},
		{"its own job", jobSet + "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: j-a-0, ownerReferences: [" +
			"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: j, uid: u, controller: true}]}\n" +
			"spec: {template: {spec: {containers: [{name: c}]}}}\n", "F:4: ",
			"JobSet default/j and Job default/j-a-0, which it made, are both in the file"},
		{"a name that is too long", strings.Replace(volcanoJob, "{name: v}", "{name: "+strings.Repeat("v", 250)+"}", 1),
			"F:3: ", "must be no more than"},
		{"a cron job without an end", strings.Replace(cronJob, "{rollcall.dev/runs: '2'}", "{}", 1), "F:2: ",
			"or give it the annotation rollcall.dev/runs with their number"},
		{"no number of runs", strings.Replace(cronJob, "'2'", "two", 1), "F:3: ",
			`annotation rollcall.dev/runs: "two"`},
		{"runs without end", strings.Replace(cronJob, "'2'", "'100001'", 1), "F:3: ",
			"100001 lies outside 1 and 100000"},
		{"no schedule", strings.Replace(cronJob, "'1 2 3 * *'", "at noon", 1), "F:5: ", `spec.schedule: "at noon": `},
		{"a schedule with a time zone", strings.Replace(cronJob, "'1", "'TZ=UTC 1", 1), "F:5: ",
			"is not a schedule such as"},
		{"no schedule at all", strings.Replace(cronJob, "  schedule: '1 2 3 * *'\n", "", 1), "F:4: ",
			`spec.schedule: "" is not a schedule`},
		{"a schedule of no day", strings.Replace(cronJob, "1 2 3 *", "1 2 30 2", 1), "F:5: ", "comes only 0 times"},
		{"a time zone", cronJob + "  timeZone: Europe/Berlin\n", "F:7: ", "spec.timeZone: it is not carried out"},
		{"one run at a time", cronJob + "  concurrencyPolicy: Forbid\n", "F:7: ", "spec.concurrencyPolicy: it is not"},
		{"less than no task of a volcano group", volcano +
			"spec:\n  minMember: 3\n  minTaskMember: {a: -1}\n", "F:6: ",
			"has spec.minTaskMember[\"a\"] -1: want a number"},
		{"topology of a volcano group", volcano +
			"spec:\n  minMember: 3\n  networkTopology: {highestTierAllowed: 1}\n", "F:6: ",
			"has spec.networkTopology of the mode hard, which is not carried out"},
		{"a minimum of a volcano group that no number holds", volcano + "spec:\n  minMember: 3000000000\n", "F:5: ",
			"spec.minMember"},
		{"more members than a workload has pods", volcano + "spec:\n  minMember: 2000000000\n", "F:1: ",
			"a gang of 2000000000"},
		{"unknown field of a volcano group", volcano + "spec:\n  minMembers: 3\n", "F:5: ",
			`unknown field "spec.minMembers"`},
		{"parts of a KAI group below each other", kaiGroup +
			"spec:\n  subGroups:\n  - {name: a, minMember: 1}\n  - {name: b, minMember: 1, parent: a}\n", "F:7: ",
			"has spec.subGroups[1].parent \"a\": subgroups below each other are not carried out"},
		{"a KAI group of no whole number", kaiGroup + "spec: {minMember: many}\n", "F:4: ", "spec.minMember"},
		{"generated name of a node", "apiVersion: v1\nkind: Node\nmetadata: {generateName: n-}\n", "F:3: ",
			"metadata.name is missing"},
		{"bad generated name", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: N_}\n" + podTail, "F:3: ",
			"RFC 1123"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readText(c.text)
			if err == nil || !strings.HasPrefix(err.Error(), c.start) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got  %v\nwant %s… %s", err, c.start, c.reason)
			}
		})
	}
}
