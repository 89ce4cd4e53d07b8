package sim_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// contested draws a few nodes, of which some fail, and more work of three priorities than they hold: gangs with and
// without controller, Jobs, single pods.
func contested(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("---\n")
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"---\n", args...) }
	for i := range rapid.IntRange(2, 4).Draw(t, "nodes") {
		fails := ""
		if rapid.IntRange(0, 2).Draw(t, "fails") == 0 {
			fails = fmt.Sprintf(", annotations: {rollcall.dev/fails: %dm}", rapid.IntRange(5, 90).Draw(t, "at"))
		}
		add("{apiVersion: v1, kind: Node, metadata: {name: n%d%s}, "+
			"status: {allocatable: {cpu: 64, nvidia.com/gpu: 8}}}\n", i, fails)
	}
	for i, name := range []string{"low", "mid", "high"} {
		add("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %s}, value: %d}\n", name, 10*i)
	}
	times := func() string {
		text := fmt.Sprintf("rollcall.dev/arrival: %dm", rapid.IntRange(0, 60).Draw(t, "arrival"))
		if rapid.IntRange(0, 5).Draw(t, "endless") > 0 {
			text += fmt.Sprintf(", rollcall.dev/duration: %dm", rapid.IntRange(1, 60).Draw(t, "duration"))
		}
		return text
	}
	spec := func() string {
		deadline := ""
		if rapid.IntRange(0, 5).Draw(t, "limited") == 0 {
			deadline = "activeDeadlineSeconds: 600, "
		}
		return fmt.Sprintf("{%spriorityClassName: %s, "+
			"containers: [{name: c, resources: {limits: {nvidia.com/gpu: %d}}}]}", deadline,
			rapid.SampledFrom([]string{"low", "mid", "high"}).Draw(t, "priority"),
			rapid.SampledFrom([]int{1, 3, 4, 8}).Draw(t, "gpus"))
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "gangs") {
		minimum := rapid.IntRange(1, 3).Draw(t, "minimum")
		below := rapid.SampledFrom([]string{"Keep", "Evict"}).Draw(t, "below")
		add("{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g%d, annotations: "+
			"{rollcall.dev/below-minimum: %s}}, spec: {minMember: %d}}\n", i, below, minimum)
		members := max(1, minimum+rapid.IntRange(-1, 2).Draw(t, "more"))
		label, at, what := fmt.Sprintf("labels: {scheduling.x-k8s.io/pod-group: g%d}", i), times(), spec()
		if rapid.Bool().Draw(t, "job") {
			add("{apiVersion: batch/v1, kind: Job, metadata: {name: g%d, annotations: {%s}}, spec: {parallelism: %d, "+
				"template: {metadata: {%s}, spec: %s}}}\n", i, at, members, label, what)
			continue
		}
		for k := range members {
			add("{apiVersion: v1, kind: Pod, metadata: {name: g%d-%d, %s, annotations: {%s}}, spec: %s}\n", i, k, label,
				at, what)
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "jobs") {
		parallelism := rapid.IntRange(1, 2).Draw(t, "parallelism")
		add("{apiVersion: batch/v1, kind: Job, metadata: {name: job%d, annotations: {%s}}, spec: {parallelism: %d, "+
			"completions: %d, activeDeadlineSeconds: %d, template: {spec: %s}}}\n", i, times(), parallelism,
			parallelism+rapid.IntRange(0, 3).Draw(t, "completions"), rapid.IntRange(60, 5000).Draw(t, "deadline"),
			spec())
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
		owner := rapid.SampledFrom([]string{"", "StatefulSet", "ReplicaSet", "DaemonSet"}).Draw(t, "owner")
		if owner != "" {
			owner = fmt.Sprintf(", ownerReferences: [{apiVersion: apps/v1, kind: %s, name: o%d, uid: o%d, "+
				"controller: true}]", owner, i, i)
		}
		add("{apiVersion: v1, kind: Pod, metadata: {name: p%d, annotations: {%s}%s}, spec: %s}\n", i, times(), owner,
			spec())
	}
	return b.String()
}

// TestEachPodAndGangHasOneOutcomeAndTheLogSaysTheSame counts again, from the entries of the log alone, what became of
// contested workloads.
func TestEachPodAndGangHasOneOutcomeAndTheLogSaysTheSame(t *testing.T) {
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[report.Outcome]int{}
	again := 0
	rapid.Check(t, func(t *rapid.T) {
		text := contested(t)
		nodes, work, err := workload.Parse("drawn.yaml", strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		opts := sim.Options{
			Requeue: sim.Requeue(rapid.IntRange(0, 2).Draw(t, "requeue")), Singles: true,
			Until: time.Duration(rapid.SampledFrom([]int{0, 0, 40, 90}).Draw(t, "until")) * time.Minute,
		}
		c, err := sim.New(nodes, work, opts)
		if err != nil {
			t.Fatal(err)
		}
		s := story{config: config}
		log := eventlog.NewMemory()
		eng, err := s.engine(log, workload.Start)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := c.Run(context.Background(), sim.Stepping(eng), nil)
		if err != nil {
			t.Fatal(err)
		}
		n := recount(t, log, work)
		n.compare(t, sum, c.Report(), opts.Requeue)
		again += n.again
		for _, outcome := range n.gangs {
			seen[outcome]++
		}
	})
	if testing.Short() {
		return // with -short rapid draws too few workloads for all that follows
	}
	for _, outcome := range []report.Outcome{
		report.Completed, report.Running, report.Preempted, report.Lost, report.Failed, report.Pending,
		report.PendingAgain, report.NotArrived,
	} {
		if seen[outcome] == 0 {
			t.Errorf("no gang is %s: the test shows less than it should", outcome)
		}
	}
	if again == 0 {
		t.Error("no pod came again: the test shows less than it should")
	}
}

// naivePod has the facts in the log about the pod of one UID.
type naivePod struct {
	name    types.NamespacedName
	group   string
	planned bool
	gpus    float64
	runs    time.Duration
	limited bool // runs until its own deadline
	bound   bool
	boundAt time.Time
	node    string
	phase   corev1.PodPhase
	asked   report.Outcome // of a decision that evicts it
	by      string
	ended   bool
	how     report.Outcome
}

// naiveGang has the facts in the log about a gang.
type naiveGang struct {
	minimum, members, arrived, running, completed, pending, pendingAgain int
	stands, stood, deleted                                               bool
	cause                                                                report.Outcome
}

// naiveCount has the facts in a log about a simulation.
type naiveCount struct {
	pods           map[types.UID]*naivePod
	ended          map[report.Outcome]int
	running, waits int
	arrived, again int
	lost           map[report.Outcome]float64 // GPU-seconds
	gangs          map[string]report.Outcome
	by             map[string]map[string]bool // by gang
}

// recount reads the log from its beginning to its end.
func recount(t *rapid.T, log engine.Log, work *workload.Workload) *naiveCount {
	n := &naiveCount{
		pods: map[types.UID]*naivePod{}, ended: map[report.Outcome]int{}, lost: map[report.Outcome]float64{},
		gangs: map[string]report.Outcome{}, by: map[string]map[string]bool{},
	}
	gangs := map[string]*naiveGang{}
	for _, o := range work.Objects {
		if minimum, gang := workload.GroupMinimum(o.Object); gang {
			gangs["default/"+o.Object.GetName()] = &naiveGang{minimum: minimum}
		}
	}
	planned := map[types.UID]bool{}
	for i := range work.Pods {
		planned[work.Pods[i].EffectiveUID()] = true
		if key, ok := work.Pods[i].Group(); ok {
			gangs[key.String()].members++
		}
	}
	gone := map[string]bool{}
	names := map[types.NamespacedName]types.UID{}
	for e, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		switch p := e.Payload.(type) {
		case *eventlog.Upserted:
			if pod, ok := p.Object.(*corev1.Pod); ok {
				n.upserted(t, pod, planned[pod.UID], names, gangs)
			}
		case *eventlog.Decision:
			for _, uid := range p.Victims {
				pod := n.pods[uid]
				pod.asked, pod.by = report.Preempted, p.Namespace+"/"+p.Group
				if p.Group == "" {
					pod.by = p.Namespace + "/" + p.Name
				}
				if p.Outcome == eventlog.Evicted {
					pod.asked, pod.by = report.Evicted, ""
				}
			}
		case *eventlog.BindResult:
			if pod := n.pods[p.UID]; p.Outcome == eventlog.BindBound && !pod.ended {
				pod.bound, pod.boundAt, pod.node = true, e.Time.Std(), p.Node
				if g := gangs[pod.group]; g != nil {
					g.pendingAgain -= toInt(!pod.planned)
					g.pending--
					g.running++
				}
			}
		case *eventlog.Deleted:
			switch p.Resource {
			case eventlog.Nodes:
				gone[p.Name] = true
			case eventlog.XPodGroups:
				gangs[p.Namespace+"/"+p.Name].deleted = true
			case eventlog.Pods:
				pod := n.pods[p.UID]
				delete(names, pod.name)
				n.deleted(pod, e.Time.Std(), gone[pod.node], gangs[pod.group])
			}
		}
		for _, g := range gangs { // any order: each by itself
			if g.arrived >= g.minimum && g.running+g.completed >= g.minimum {
				g.stands, g.stood = true, true
			}
		}
	}
	for _, pod := range n.pods { // any order: counts
		n.running += toInt(pod.bound && !pod.ended)
		n.waits += toInt(!pod.bound && !pod.ended)
	}
	for name, g := range gangs { // any order: each by itself
		n.gangs[name] = g.outcome()
	}
	return n
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (n *naiveCount) upserted(t *rapid.T, pod *corev1.Pod, planned bool, names map[types.NamespacedName]types.UID,
	gangs map[string]*naiveGang) {
	if known := n.pods[pod.UID]; known != nil {
		known.phase = pod.Status.Phase
		return
	}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if other, taken := names[name]; taken {
		t.Fatalf("pod %s comes as %s while %s is there", name, pod.UID, other)
	}
	names[name] = pod.UID
	gpus := pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
	p := &naivePod{name: name, planned: planned, gpus: float64(gpus.Value())}
	p.runs, _ = time.ParseDuration(pod.Annotations[workload.DurationAnnotation])
	if s := pod.Spec.ActiveDeadlineSeconds; s != nil && (p.runs == 0 || time.Duration(*s)*time.Second < p.runs) {
		p.runs, p.limited = time.Duration(*s)*time.Second, true
	}
	if planned {
		n.arrived++
	} else {
		n.again++
	}
	if group := pod.Labels["scheduling.x-k8s.io/pod-group"]; group != "" {
		p.group = pod.Namespace + "/" + group
		g := gangs[p.group]
		if g.deleted {
			t.Fatalf("pod %s comes after its gang %s was deleted", name, p.group)
		}
		g.pending++
		g.arrived += toInt(planned)
		g.pendingAgain += toInt(!planned)
	}
	n.pods[pod.UID] = p
}

// deleted says how a pod went.
func (n *naiveCount) deleted(pod *naivePod, at time.Time, nodeGone bool, g *naiveGang) {
	pod.ended = true
	switch {
	case pod.asked != 0:
		pod.how = pod.asked
	case pod.bound && nodeGone:
		pod.how = report.Lost
	case pod.bound && at.Sub(pod.boundAt) == pod.runs && pod.limited:
		pod.how = report.Failed
	case pod.bound && at.Sub(pod.boundAt) == pod.runs:
		pod.how = report.Completed
	default:
		pod.how = report.Withdrawn
	}
	n.ended[pod.how]++
	if pod.bound && pod.how.IsDisruption() {
		n.lost[pod.how] += pod.gpus * at.Sub(pod.boundAt).Seconds()
	}
	if g == nil {
		return
	}
	if pod.bound {
		g.running--
	} else {
		g.pending--
		g.pendingAgain -= toInt(!pod.planned)
	}
	if pod.how == report.Completed {
		g.completed++
		return
	}
	if pod.by != "" {
		if n.by[pod.group] == nil {
			n.by[pod.group] = map[string]bool{}
		}
		n.by[pod.group][pod.by] = true
	}
	if below := g.running+g.completed < g.minimum; !g.stood || g.stands && below {
		g.stands, g.cause = false, pod.how
	}
}

// outcome is the outcome of a gang at the end of the log.
func (g *naiveGang) outcome() report.Outcome {
	switch {
	case g.arrived == 0:
		return report.NotArrived
	case g.running == 0 && g.completed >= g.minimum:
		return report.Completed
	case g.running > 0 && g.stands:
		return report.Running
	case !g.stood && (g.pending > 0 || g.arrived < g.members):
		return report.Pending
	case g.stood && g.pendingAgain > 0:
		return report.PendingAgain
	}
	return g.cause
}

// compare compares the count with the simulation's own figures.
func (n *naiveCount) compare(t *rapid.T, sum report.Summary, rows []report.Row, requeue sim.Requeue) {
	pods := sum.Pods
	if all := pods.Completed + pods.Running + pods.Preempted + pods.Lost + pods.Evicted + pods.Failed + pods.Withdrawn +
		pods.Pending + pods.PendingAgain + pods.NotArrived; all != pods.Total {
		t.Fatalf("the outcomes of pods do not add up: %+v", pods)
	}
	disruptions := n.ended[report.Preempted] + n.ended[report.Lost] + n.ended[report.Evicted]
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"arrived", pods.Total - pods.NotArrived, n.arrived},
		{"completed", pods.Completed, n.ended[report.Completed]},
		{"failed", pods.Failed, n.ended[report.Failed]},
		{"withdrawn", pods.Withdrawn, n.ended[report.Withdrawn]},
		{"running", pods.Running, n.running},
		{"pending, for the first time or again", pods.Pending + pods.PendingAgain, n.waits},
		{"gone for good before their end", pods.Preempted + pods.Lost + pods.Evicted, disruptions - n.again},
	} {
		if c.got != c.want {
			t.Fatalf("pods %s: %d, by the log %d\n%+v", c.what, c.got, c.want, pods)
		}
	}
	if requeue == sim.RequeueNone && (n.again > 0 || pods.Preempted != n.ended[report.Preempted] ||
		pods.Lost != n.ended[report.Lost] || pods.Evicted != n.ended[report.Evicted]) {
		t.Fatalf("by the log %v, and %d came again; the summary has %+v", n.ended, n.again, pods)
	}
	if requeue == sim.RequeueAll && pods.Preempted > 0 {
		t.Fatalf("%d pods were preempted and did not come again", pods.Preempted)
	}
	inRows := 0.0
	for _, r := range rows {
		inRows += r.GPUSeconds
	}
	for _, c := range []struct{ got, want float64 }{
		{sum.GPUSecondsLost.Preempted, n.lost[report.Preempted]}, {sum.GPUSecondsLost.Node, n.lost[report.Lost]},
		{sum.GPUSecondsLost.Evicted, n.lost[report.Evicted]}, {inRows, sum.GPUSecondsLost.Total()},
	} {
		if math.Abs(c.got-c.want) > 1e-6 {
			t.Fatalf("GPU-seconds lost: %+v, %v in the rows; by the log %v", sum.GPUSecondsLost, inRows, n.lost)
		}
	}
	n.compareGangs(t, sum, rows)
}

func (n *naiveCount) compareGangs(t *rapid.T, sum report.Summary, rows []report.Row) {
	var want report.Outcomes
	for _, outcome := range n.gangs { // any order: counts
		want.Add(outcome)
	}
	want.Placed = sum.Gangs.Placed
	if sum.Gangs != want {
		t.Fatalf("gangs: %+v, by the log %+v: %v", sum.Gangs, want, n.gangs)
	}
	for _, r := range rows {
		outcome, gang := n.gangs[r.Name]
		if gang && r.Outcome != outcome {
			t.Fatalf("gang %s is %s, by the log %s", r.Name, r.Outcome, outcome)
		}
		if r.Finished.Happened != (r.Outcome == report.Completed && r.Ended.Happened) {
			t.Fatalf("%s is %s and has finished: %s", r.Name, r.Outcome, r.Finished)
		}
		if gang && (len(r.By) != len(n.by[r.Name]) ||
			slices.ContainsFunc(r.By, func(by string) bool { return !n.by[r.Name][by] })) {
			t.Fatalf("gang %s was preempted by %q, by the log %v", r.Name, r.By, n.by[r.Name])
		}
	}
}
