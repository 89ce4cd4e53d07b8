package app

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/choices"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// recordedNode returns a node. Its size depends on its number.
func recordedNode(i int) eventlog.Payload {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%02d", i), UID: types.UID(fmt.Sprintf("n-%d", i))}}
	n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(strconv.Itoa(4 + i%4*4)),
		v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110")}
	return &eventlog.Upserted{Resource: eventlog.Nodes, Object: n}
}

// recordedPod returns a pod, on a node if one is named.
func recordedPod(i int, node string) eventlog.Payload {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: fmt.Sprintf("p%03d", i),
		UID: types.UID(fmt.Sprintf("p-%d", i))}}
	p.Spec.SchedulerName, p.Spec.NodeName = v1.DefaultSchedulerName, node
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}}
	return &eventlog.Upserted{Resource: eventlog.Pods, Object: p}
}

// recordingOf writes a recording with snapshots: 12 nodes, and pods that somebody binds to nodes without a plan.
func recordingOf(t *testing.T, pods int) string {
	t.Helper()
	cfg := framework.DefaultConfig()
	cfg.Recording = true
	config, err := framework.EncodeConfig(cfg)
	must(t, err)
	name := filepath.Join(t.TempDir(), "recording.db")
	log, err := logs.KeepOptions{SegmentBytes: 40_000}.Create(t.Context(), name)
	must(t, err)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e, err := engine.Open(t.Context(), log, now, engine.Options{Registry: plugins.NewRegistry(), Config: config,
		Version: "test", Snapshots: log.Snapshots(50), SnapshotEvery: 50})
	must(t, err)
	step := func(inputs ...eventlog.Payload) {
		now = now.Add(time.Second)
		_, err := e.Step(t.Context(), now, inputs)
		must(t, err)
	}
	for i := range 12 {
		step(recordedNode(i))
	}
	urgent := recordedPod(999, "").(*eventlog.Upserted)
	urgent.Object.(*v1.Pod).Spec.Priority = new(int32)
	*urgent.Object.(*v1.Pod).Spec.Priority = 1000
	step(urgent) // it is never bound
	for i := range pods {
		step(recordedPod(i, ""))
		step(recordedPod(i, fmt.Sprintf("n%02d", i*7%12)))
	}
	must(t, e.Close())
	must(t, log.Close())
	return name
}

// packed is a configuration that prefers full nodes, as a scheduler of batch jobs may have it.
const packed = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
`

// TestBindsOfOthersAreCompared has the counts of diff --with rollcall, and counts the rows again. With the
// configuration of --config the ranks are others. Some nodes are full: their binds are refused by NodeResourcesFit.
func TestBindsOfOthersAreCompared(t *testing.T) {
	t.Parallel()
	log := recordingOf(t, 60)
	type binds struct {
		Undecided string
		Binds     []answer.Choice
		Summary   choices.Summary
	}
	given, _ := factsOf[binds](t, "diff", log, "--with", "rollcall")
	if given.Summary.Binds != 60 || len(given.Binds) != 60 || given.Summary.Infeasible == 0 ||
		!strings.Contains(given.Undecided, "it has no decisions") {
		t.Errorf("%+v, %d binds, %q", given.Summary, len(given.Binds), given.Undecided)
	}
	counted := choices.Summary{}
	for i := range given.Binds {
		counted.Add(&given.Binds[i])
	}
	counted.Close(0)
	if fmt.Sprint(counted.Ranks, counted.Refused, counted.Same) !=
		fmt.Sprint(given.Summary.Ranks, given.Summary.Refused, given.Summary.Same) {
		t.Errorf("the rows give %+v, the summary is %+v", counted, given.Summary)
	}

	rows, err := csv.NewReader(strings.NewReader(string(rollcall(t, "diff", log, "--with", "rollcall", "-o",
		"csv")))).ReadAll()
	must(t, err)
	if len(rows) != 61 {
		t.Errorf("there are %d rows", len(rows))
	}
	for i, row := range rows[1:] {
		b := &given.Binds[i]
		if row[0] != strconv.FormatUint(b.Seq, 10) || row[2] != b.Pod || row[7] != string(b.Verdict) ||
			row[8] != strconv.Itoa(b.Rank) {
			t.Errorf("row %d is %q, the JSON has %+v", i, row, b)
		}
	}
	text := string(rollcall(t, "diff", log, "--with", "rollcall", "--show", "3"))
	for _, want := range []string{"binds        60 by others\n", "NodeResourcesFit: Insufficient cpu\n",
		"\nENTRY  POD", "it has no decisions"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has no %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, " ml/p"); n != 3 {
		t.Errorf("%d binds are shown, want 3:\n%s", n, text)
	}
	if _, _, code := ran(t, "diff", log, "--with", "rollcall", "--exit-code"); code != exitDiverged {
		t.Errorf("--exit-code ends with %d", code)
	}

	config := filepath.Join(t.TempDir(), "packed.yaml")
	must(t, os.WriteFile(config, []byte(packed), 0o600))
	other, _ := factsOf[binds](t, "diff", log, "--with", "rollcall", "--config", config)
	if other.Summary.Ranks == given.Summary.Ranks || other.Binds[0].Configuration != config {
		t.Errorf("with --config: %+v, without: %+v", other.Summary, given.Summary)
	}
	// The ranges begin with a snapshot, which has the log's configuration.
	part, _ := factsOf[binds](t, "diff", log, "--with", "rollcall", "--config", config, "--from", "110")
	for i := range part.Binds {
		whole := &other.Binds[len(other.Binds)-len(part.Binds)+i]
		if p := &part.Binds[i]; p.Seq != whole.Seq || p.Rank != whole.Rank || p.Verdict != whole.Verdict {
			t.Errorf("from entry 110: %+v, from the first entry: %+v", p, whole)
		}
	}
	x, _ := factsOf[answer.Pod](t, "explain", log, "pod", "ml/p050", "--config", config)
	if c := x.Choice; c == nil || c.Rank != other.Binds[50].Rank || !strings.Contains(c.Message, "of "+config) {
		t.Errorf("explain has %+v, diff %+v", c, other.Binds[50])
	}
	if x, _ := factsOf[answer.Pod](t, "explain", log, "pod", "ml/p050"); x.Choice.Rank != given.Binds[50].Rank ||
		x.Decision != nil {
		t.Errorf("explain has %+v, diff %+v", x.Choice, given.Binds[50])
	}
}

// TestAuditsFindNothingInARecording asks each audit about a log in which Rollcall has decided nothing. A pod of high
// priority waits while others are bound, which would be a violation if Rollcall had done it.
func TestAuditsFindNothingInARecording(t *testing.T) {
	t.Parallel()
	log := recordingOf(t, 30)
	for _, audit := range []string{"order", "loops", "victims"} {
		out, complaint, code := ran(t, "audit", audit, log)
		if code != exitDone || audit != "loops" && !strings.Contains(out, "0 in VIOLATION") {
			t.Errorf("audit %s ends with %d:\n%s%s", audit, code, out, complaint)
		}
	}
}

func TestFlagsOfDiffThatNeedOthersAreRefused(t *testing.T) {
	t.Parallel()
	log := recordingOf(t, 1)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{log, "--with", "volcano"}, `--with is "volcano": want "rollcall"`},
		{[]string{log, log, "-o", "csv"}, "-o csv is for --with rollcall"},
		{[]string{log, log, "--config", "x.yaml"}, "--config is for --with rollcall"},
		{[]string{log, log, "--with", "rollcall"}, "2 arguments were given"},
		{[]string{log}, "1 argument was given"},
	} {
		_, complaint, code := ran(t, append([]string{"diff"}, test.args...)...)
		if code != exitUsage || !strings.Contains(complaint, test.want) {
			t.Errorf("diff %q: exit code %d, %s; want %q", test.args, code, complaint, test.want)
		}
	}
}
