package sim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// parse reads a manifest that must be right.
func parse(t testing.TB, text string) ([]workload.NodePlan, *workload.Workload) {
	t.Helper()
	nodes, w, err := workload.Parse("test.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return nodes, w
}

// podOf is a pod of one container, nodeOf a node.
func podOf(requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}},
	}}
}

func nodeOf(name string, resources corev1.ResourceList) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
}

// run simulates with s.
func run(t testing.TB, s Scheduler, nodes []workload.NodePlan, w *workload.Workload, opts Options) report.Summary {
	t.Helper()
	c, err := New(nodes, w, opts)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := c.Run(context.Background(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// tell simulates with first fit and compares its transcript, and the summary, with testdata/NAME.txt. REWRITE=1 writes
// the file: look at the difference before you commit it.
func tell(t *testing.T, f *firstFit, nodes []workload.NodePlan, w *workload.Workload, opts Options) report.Summary {
	t.Helper()
	sum := run(t, f, nodes, w, opts)
	var text strings.Builder
	text.WriteString(f.text() + "\n")
	if err := sum.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", strings.TrimPrefix(t.Name(), "Test")+".txt")
	if os.Getenv("REWRITE") != "" {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := text.String(); got != string(want) {
		t.Errorf("differs from %s (REWRITE=1 writes it anew):\n%s", path, got)
	}
	return sum
}

const twoNodes = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: 4}}}
---
`

func TestPodsRunFromBindForTheirDuration(t *testing.T) {
	nodes, w := parse(t, twoNodes+`
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: a, annotations: {rollcall.dev/duration: 10s}}
  spec: &four {containers: [{name: c, resources: {requests: {cpu: 4}}}]}
- {apiVersion: v1, kind: Pod, metadata: {name: b, annotations: {rollcall.dev/duration: 1m}}, spec: *four}
- {apiVersion: v1, kind: Pod, metadata: {name: c, annotations: {rollcall.dev/arrival: 5s, rollcall.dev/duration: 20s}}, spec: *four}
- {apiVersion: v1, kind: Pod, metadata: {name: d, annotations: {rollcall.dev/arrival: "2026-01-01T00:00:07Z"}}, spec: *four}
- apiVersion: v1
  kind: Pod
  metadata: {name: limited, annotations: {rollcall.dev/arrival: 2m, rollcall.dev/duration: 1h}}
  spec: {activeDeadlineSeconds: 30, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
`)
	sum := tell(t, newFirstFit(t), nodes, w, Options{})
	if sum.Pods != (report.Outcomes{Total: 5, Placed: 5, Running: 1, Completed: 3, Failed: 1}) {
		t.Errorf("pods: %+v", sum.Pods)
	}
}

func TestNodesJoinFailAndAreCordoned(t *testing.T) {
	nodes, w := parse(t, `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {rollcall.dev/fails: 1m}}, status: {allocatable: {cpu: 4}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, annotations: {rollcall.dev/joins: 30s, rollcall.dev/cordoned: 40s, rollcall.dev/uncordoned: 2m}}, status: {allocatable: {cpu: 4}}}
- {apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {rollcall.dev/duration: 10m}}, spec: &two {containers: [{name: c, resources: {requests: {cpu: 2}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: b, annotations: {rollcall.dev/duration: 1m}}, spec: *two}
- {apiVersion: v1, kind: Pod, metadata: {name: c, annotations: {rollcall.dev/arrival: 70s, rollcall.dev/duration: 10m}}, spec: *two}
`)
	sum := tell(t, newFirstFit(t), nodes, w, Options{})
	// b ends in the instant in which its node fails: its end comes first.
	if sum.Pods.Lost != 1 || sum.Pods.Completed != 2 || sum.Nodes != 2 {
		t.Errorf("%+v", sum)
	}
}

func TestAGroupGoesWithItsLastMember(t *testing.T) {
	nodes, w := parse(t, twoNodes+`
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: x}
spec: {minMember: 3}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: g-0, annotations: {rollcall.dev/duration: 10s}}, spec: &g {schedulingGroup: {podGroupName: g}, containers: [{name: c, resources: {requests: {cpu: 4}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: g-1, annotations: {rollcall.dev/arrival: 5s, rollcall.dev/duration: 20s}}, spec: *g}
- {apiVersion: v1, kind: Pod, metadata: {name: x-0, labels: &x {scheduling.x-k8s.io/pod-group: x}, annotations: &m {rollcall.dev/duration: 1m}}, spec: &one {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: x-1, labels: *x, annotations: *m}, spec: *one}
- {apiVersion: v1, kind: Pod, metadata: {name: x-2, labels: *x, annotations: {rollcall.dev/arrival: 7s, rollcall.dev/duration: 2m}}, spec: *one}
`)
	sum := tell(t, newFirstFit(t), nodes, w, Options{})
	if sum.Gangs != (report.Outcomes{Total: 2, Placed: 2, Completed: 2}) || sum.GangWait.MaxSeconds != 8 {
		t.Errorf("gangs: %+v, wait %+v", sum.Gangs, sum.GangWait)
	}
}

func TestAJobsPodsComeAtItsParallelismUntilItsDeadline(t *testing.T) {
	nodes, w := parse(t, twoNodes+`
apiVersion: batch/v1
kind: Job
metadata: {name: sweep, annotations: {rollcall.dev/arrival: 10s, rollcall.dev/duration: 20s}}
spec:
  parallelism: 2
  completions: 7
  completionMode: Indexed
  activeDeadlineSeconds: 50
  template:
    spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
`)
	sum := tell(t, newFirstFit(t), nodes, w, Options{})
	if sum.Pods.Completed != 4 || sum.Pods.Withdrawn != 2 || sum.Pods.NotArrived != 1 || sum.Pods.Total != 7 {
		t.Errorf("pods: %+v", sum.Pods)
	}
}

func TestBindsThatCannotBeAreAnswered(t *testing.T) {
	nodes, w := parse(t, twoNodes+`
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {rollcall.dev/duration: 30s}}, spec: &one {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: b, annotations: {rollcall.dev/arrival: 10s}}, spec: *one}
`)
	f := newFirstFit(t)
	f.effects = func(f *firstFit) []scheduler.Effect {
		a := workload.UID(eventlog.Pods, "default", "a")
		switch f.steps {
		case 1:
			return []scheduler.Effect{f.bindEffect(a, "nowhere"), f.bindEffect("nobody", "n1"), f.bindEffect(a, "n1"),
				f.bindEffect(a, "n1"), f.bindEffect(a, "n2")}
		case 3: // b has arrived
			return []scheduler.Effect{
				{Kind: scheduler.Evict, UID: a}, {Kind: scheduler.Evict, UID: a}, f.bindEffect(f.pod("b"), "n2"),
			}
		}
		return nil
	}
	sum := tell(t, f, nodes, w, Options{})
	if sum.Pods.Preempted != 1 || sum.Pods.Placed != 2 {
		t.Errorf("pods: %+v", sum.Pods)
	}
}

func TestAPlacementsClaimsAreBoundBeforeThePod(t *testing.T) {
	nodes, w := parse(t, twoNodes+`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: example.com/local
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], storageClassName: local, hostPath: {path: /d}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: static}
spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 5Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: dynamic}
spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {rollcall.dev/duration: 1m}}
spec:
  containers: [{name: c}]
  volumes: [{name: s, persistentVolumeClaim: {claimName: static}}, {name: d, persistentVolumeClaim: {claimName: dynamic}}]
`)
	f := newFirstFit(t)
	f.effects = func(f *firstFit) []scheduler.Effect {
		if f.steps > 2 {
			return nil
		}
		e := f.bindEffect(f.pod("a"), "n2")
		e.Volumes = []eventlog.VolumeClaim{{Claim: "static", Volume: "disk"}, {Claim: "missing"}}
		if f.steps == 2 {
			e.Volumes[1].Claim = "dynamic"
		}
		return []scheduler.Effect{e}
	}
	tell(t, f, nodes, w, Options{})
}

func TestPodsThatArriveBoundRunAtOnce(t *testing.T) {
	nodes, w := parse(t, twoNodes+`
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: there, annotations: {rollcall.dev/duration: 10s}}, spec: {nodeName: n2, containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: lost}, spec: {nodeName: n9, containers: [{name: c}]}}
`)
	sum := tell(t, newFirstFit(t), nodes, w, Options{})
	if sum.Pods != (report.Outcomes{Total: 2, Placed: 1, Completed: 1, Lost: 1}) || sum.PodWait.Count != 0 {
		t.Errorf("%+v", sum)
	}
}

func TestUnboundPodsChangeAndReachTheirDeadline(t *testing.T) {
	nodes, err := workload.ParseNodeSpec("1x4cpu")
	if err != nil {
		t.Fatal(err)
	}
	huge := podOf(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")})
	small := podOf(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")})
	larger := podOf(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")})
	w := &workload.Workload{Pods: []workload.PodPlan{
		{Namespace: "default", Name: "given-up", Template: huge, Arrival: time.Second, Deadline: time.Minute},
		{Namespace: "default", Name: "shrunk", Template: huge, Duration: time.Hour, Updates: []workload.PodUpdate{
			{At: 10 * time.Second, Pod: small},
			{At: 20 * time.Second, Pod: huge}, // bound by then, and larger than the node: skipped
			{At: 30 * time.Second, Pod: larger},
		}},
	}}
	sum := tell(t, newFirstFit(t), nodes, w, Options{})
	if sum.Pods.Withdrawn != 1 || sum.Pods.Completed != 1 {
		t.Errorf("%+v", sum.Pods)
	}
}

func TestASimulationEndsWhenOnlyTimeMovesTheScheduler(t *testing.T) {
	nodes, w := parse(
		t,
		twoNodes+`{apiVersion: v1, kind: Pod, metadata: {name: huge}, spec: {containers: [{name: c, resources: {requests: {cpu: 64}}}]}}`,
	)
	f := newFirstFit(t)
	f.retry = time.Minute
	sum := run(t, f, nodes, w, Options{IdleLimit: 10 * time.Minute})
	if f.steps != 11 || sum.Pods.Pending != 1 || sum.SpanSeconds != 0 {
		t.Errorf("%d steps, %+v", f.steps, sum)
	}

	f = newFirstFit(t)
	f.retry = time.Minute
	sum = run(t, f, nodes, w, Options{Until: 3*time.Minute + time.Second})
	if f.steps != 4 || sum.SpanSeconds != 181 {
		t.Errorf("%d steps, %+v", f.steps, sum)
	}
}

func TestASchedulerThatSpinsIsStopped(t *testing.T) {
	nodes, w := parse(
		t,
		twoNodes+`{apiVersion: v1, kind: Pod, metadata: {name: huge}, spec: {containers: [{name: c, resources: {requests: {cpu: 64}}}]}}`,
	)
	c, err := New(nodes, w, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := newFirstFit(t)
	f.retry = -time.Second
	if _, err := c.Run(context.Background(), f, nil); err == nil || !strings.Contains(err.Error(), "did nothing") {
		t.Errorf("got error %v", err)
	}
}

func TestRunEndsWithTheContextAndWithTheSchedulersError(t *testing.T) {
	nodes, w := parse(t, twoNodes+`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}`)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c, _ := New(nodes, w, Options{})
	if _, err := c.Run(ctx, newFirstFit(t), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
	c, _ = New(nodes, w, Options{})
	if _, err := c.Run(context.Background(), failing{}, nil); !errors.Is(err, errFailing) {
		t.Errorf("got error %v", err)
	}
}

var errFailing = errors.New("disk full")

type failing struct{ blank }

func (failing) Step(context.Context, time.Time, []eventlog.Payload) (engine.Ready, error) {
	return engine.Ready{}, errFailing
}

func TestPlansThatMakeNoSenseAreRefused(t *testing.T) {
	node := func(name string) *corev1.Node { return nodeOf(name, nil) }
	template := podOf(nil)
	for _, c := range []struct {
		name  string
		nodes []workload.NodePlan
		pods  []workload.PodPlan
		want  string
	}{
		{"negative offset", []workload.NodePlan{{Node: node("a"), Joins: -1}}, nil, "node a: offset"},
		{"fails before it joins", []workload.NodePlan{{Node: node("a"), Joins: 5, Fails: 5}}, nil,
			"not after it joins"},
		{"twice there", []workload.NodePlan{{Node: node("a")}, {Node: node("a"), Joins: 5}}, nil,
			"while a node of that name is there"},
		{"an outage in an outage", []workload.NodePlan{{Node: node("a"), Outages: []workload.Outage{{From: 7},
			{From: 2, Until: 7, Unreachable: true}}}}, nil, "node a: the outage from 2ns has not ended before"},
		{"an outage ends before it begins", []workload.NodePlan{{Node: node("a"),
			Outages: []workload.Outage{{From: 7, Until: 6}}}}, nil, "node a: the outage from 7ns ends at 6ns"},
		{"deadline", nil, []workload.PodPlan{{Name: "p", Template: template, Arrival: 7, Deadline: 7}},
			"pod /p: deadline"},
		{"batch", nil, []workload.PodPlan{{Name: "p", Template: template, Batch: &workload.Batch{}}}, "parallelism 0"},
		{"too long", nil, []workload.PodPlan{{Name: "p", Template: template, Duration: workload.MaxOffset + 1}},
			"lies outside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := New(c.nodes, &workload.Workload{Pods: c.pods}, Options{}); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestANodeMayComeBackAsAnotherOne(t *testing.T) {
	plan := func(joins, fails time.Duration) workload.NodePlan {
		return workload.NodePlan{Node: nodeOf("a", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("9")}),
			Joins: joins, Fails: fails}
	}
	var uids []types.UID
	f := newFirstFit(t)
	f.effects = func(f *firstFit) []scheduler.Effect {
		if n := f.nodes["a"]; n != nil {
			uids = append(uids, n.UID)
		}
		return nil
	}
	run(t, f, []workload.NodePlan{plan(0, time.Second), plan(2*time.Second, 0)}, &workload.Workload{}, Options{})
	if len(uids) != 2 || uids[0] == uids[1] {
		t.Errorf("UIDs %v", uids)
	}
}

func TestUtilisationIsWeightedByTimeAndSize(t *testing.T) {
	// Half of 8 cores is used for 10 s, then, without n2, all of 4 cores for 10 s more: 80 of 120 core-seconds. The
	// time before the first arrival and after the last end does not count.
	nodes, w := parse(t, `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {rollcall.dev/fails: 1h}}, status: {allocatable: {cpu: 4}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, annotations: {rollcall.dev/fails: 30s}}, status: {allocatable: {cpu: 4}}}
- {apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {rollcall.dev/arrival: 20s, rollcall.dev/duration: 20s}}, spec: {containers: [{name: c, resources: {requests: {cpu: 4}}}]}}
`)
	sum := run(t, newFirstFit(t), nodes, w, Options{})
	if len(sum.Utilisation) != 1 || sum.Utilisation[0].Resource != "cpu" || sum.Utilisation[0].Mean < 0.6666 ||
		sum.Utilisation[0].Mean > 0.6667 {
		t.Errorf("%+v", sum.Utilisation)
	}
	if sum.SpanSeconds != 3600 {
		t.Errorf("span %v", sum.SpanSeconds)
	}
}

func TestTheDemoTellsItsStory(t *testing.T) {
	nodes, w, err := workload.Demo()
	if err != nil {
		t.Fatal(err)
	}
	f := newFirstFit(t)
	f.retry = 5 * time.Minute
	sum := tell(t, f, nodes, w, Options{})
	if sum.Pods.Pending != 1 || sum.Gangs != (report.Outcomes{Total: 4, Placed: 4, Completed: 4}) ||
		sum.SpanSeconds > 2*3600 {
		t.Errorf("%+v", sum)
	}
}

func TestTheSamePlansGiveTheSameInputs(t *testing.T) {
	var stories [2]string
	for i := range stories {
		nodes, w, err := workload.Demo()
		if err != nil {
			t.Fatal(err)
		}
		f := newFirstFit(t)
		run(t, f, nodes, w, Options{})
		stories[i] = f.text()
	}
	if stories[0] != stories[1] {
		t.Error("two runs differ")
	}
}
