package render_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// hostileNames are names of gangs, tasks and parts as annotations and fields may have them: nothing checks those.
var hostileNames = []string{"", "g", "a", "b", " ", "../../x", "a/b", "a,b", `"quoted'\`, "{{.}} %s%d%!", "\x1b[2J\x1b]0;x\a",
	"g\nPod ml/x is fine.\r", "\u202egnp", strings.Repeat("L", 5000), "漢字", "-1", "null"}

func drawName(t *rapid.T, label string) string { return rapid.SampledFrom(hostileNames).Draw(t, label) }

func drawCount(t *rapid.T, label string) int32 {
	return rapid.SampledFrom([]int32{0, 1, 1, 2, 3, -1, math.MinInt32, math.MaxInt32, 1 << 20}).Draw(t, label)
}

// drawGroup is a PodGroup of Volcano or of KAI.
func drawGroup(t *rapid.T, uid string) eventlog.Payload {
	meta := metav1.ObjectMeta{Namespace: "ml", Name: rapid.SampledFrom([]string{"g", "a", "b"}).Draw(t, "object"),
		UID: types.UID(uid)}
	if rapid.Bool().Draw(t, "evicts") {
		meta.Annotations = map[string]string{"rollcall.dev/below-minimum": "Evict",
			"rollcall.dev/topology-required": drawName(t, "label")}
	}
	if rapid.Bool().Draw(t, "volcano") {
		g := &volcano.PodGroup{ObjectMeta: meta}
		g.Spec.MinMember, g.Spec.PriorityClassName = drawCount(t, "minimum"), drawName(t, "class")
		g.Spec.MinTaskMember = map[string]int32{}
		for range rapid.IntRange(0, 4).Draw(t, "tasks") {
			g.Spec.MinTaskMember[drawName(t, "task")] = drawCount(t, "of the task")
		}
		if rapid.Bool().Draw(t, "asks") {
			g.Spec.MinResources = v1.ResourceList{v1.ResourceName(drawName(t, "resource")): *resource.NewQuantity(
				rapid.SampledFrom([]int64{-1, 0, 1, math.MaxInt64}).Draw(t, "amount"), resource.DecimalSI)}
		}
		return &eventlog.Upserted{Resource: eventlog.VolcanoPodGroups, Object: g}
	}
	g := &kai.PodGroup{ObjectMeta: meta}
	count := func(label string) *int32 {
		if n := drawCount(t, label); rapid.Bool().Draw(t, "gives "+label) {
			return &n
		}
		return nil
	}
	g.Spec.MinMember, g.Spec.MinSubGroup = count("minimum"), count("subgroups needed")
	g.Spec.Preemptibility = rapid.SampledFrom([]string{"", "preemptible", "no\x1b"}).Draw(t, "stays")
	constraint := &g.Spec.TopologyConstraint
	constraint.RequiredTopologyLevel = rapid.SampledFrom([]string{"", "zone", "a b\x1b"}).Draw(t, "level")
	constraint.Topology = drawName(t, "topology")
	for range rapid.IntRange(0, 4).Draw(t, "subgroups") {
		sub := kai.SubGroup{Name: drawName(t, "subgroup"), MinMember: count("of the subgroup")}
		if parent := drawName(t, "parent"); rapid.IntRange(0, 4).Draw(t, "is below") == 0 {
			sub.Parent = &parent
		}
		g.Spec.SubGroups = append(g.Spec.SubGroups, sub)
	}
	return &eventlog.Upserted{Resource: eventlog.KAIPodGroups, Object: g}
}

// drawMember is a pod that names a gang, or two, and a part of it.
func drawMember(t *rapid.T, name string) eventlog.Payload {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
	pod.Annotations, pod.Labels = map[string]string{}, map[string]string{}
	of := rapid.SampledFrom([]string{"g", "g", "a", drawName(t, "names")}).Draw(t, "gang")
	switch rapid.IntRange(0, 3).Draw(t, "way") {
	case 0:
		pod.Annotations[volcano.PodGroupAnnotation], pod.Annotations[kai.PodGroupAnnotation] = of, drawName(t, "other")
	case 1:
		pod.Annotations[kai.PodGroupAnnotation] = of
	default:
		pod.Annotations[volcano.PodGroupAnnotation] = of
	}
	pod.Labels[volcano.TaskLabel], pod.Labels[kai.SubGroupLabel] = drawName(t, "task"), drawName(t, "subgroup")
	if rapid.Bool().Draw(t, "by annotation") {
		pod.Annotations[volcano.TaskAnnotation] = drawName(t, "role")
		pod.Annotations["scheduling.volcano.sh/group-min-member"] = fmt.Sprint(drawCount(t, "minimum"))
	}
	pod.Spec.SchedulerName = "default-scheduler"
	pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}}}
	return &eventlog.Upserted{Resource: eventlog.Pods, Object: pod}
}

// PodGroups of Volcano and of KAI, and pods, have random content. The log is decided again in the same way, and a
// Machine that is restored from its state is the same. The text about each pod and gang has a few lines, without
// anything that a terminal would obey.
func TestPodGroupsThatSayAnythingAreScheduledAndExplained(t *testing.T) {
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		ctx, log, now := context.Background(), eventlog.NewMemory(), time.Unix(1_800_000_000, 0).UTC()
		e, err := engine.Open(ctx, log, now,
			engine.Options{Registry: plugins.NewRegistry(), Config: config, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{"zone": "z"}}}
		node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("3"), "pods": resource.MustParse("100")}
		inputs := []eventlog.Payload{&eventlog.Upserted{Resource: eventlog.Nodes, Object: node}}
		pods := rapid.IntRange(1, 6).Draw(t, "pods")
		for i := range pods {
			inputs = append(inputs, drawMember(t, fmt.Sprint("p", i)))
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "groups") {
			inputs = append(inputs, drawGroup(t, fmt.Sprint("u", i)))
		}
		inputs = rapid.Permutation(inputs).Draw(t, "inputs")
		for len(inputs) > 0 {
			n := rapid.IntRange(1, len(inputs)).Draw(t, "at once")
			now = now.Add(time.Minute)
			if _, err := e.Step(ctx, now, inputs[:n]); err != nil {
				t.Fatal(err)
			}
			inputs = inputs[n:]
		}
		checkAgain(t, e.Machine(), log)
		for i := range pods {
			checkExplained(t, log, fmt.Sprint("p", i))
		}
	})
}

// checkAgain compares a Machine with one made from its log, and with one made from its state.
func checkAgain(t *rapid.T, m *scheduler.Machine, log *eventlog.Memory) {
	report, err := replay.Verify(context.Background(), log.Read(context.Background(), 1),
		replay.Options{Registry: plugins.NewRegistry()})
	if err != nil || len(report.Divergences) > 0 {
		t.Fatalf("decided again: %v, %+v", err, report.Divergences)
	}
	state, err := m.AppendState(nil)
	if err != nil {
		t.Fatal(err)
	}
	restored, err := scheduler.Restore(plugins.NewRegistry(), state)
	if err != nil {
		t.Fatal(err)
	}
	if restored.Hash() != m.Hash() {
		t.Fatal("the restored Machine is another one")
	}
}

// checkExplained looks at the texts about a pod, and about its gang.
func checkExplained(t *rapid.T, log *eventlog.Memory, name string) {
	past, opts := history.New(history.Plain(log, plugins.NewRegistry()), history.Options{}), explain.Options{}
	pod, err := explain.Pod(context.Background(), past, "ml", name, opts)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := render.Pod(&b, pod); err != nil {
		t.Fatal(err)
	}
	if of, ok := strings.CutPrefix(pod.Group, "ml/"); ok {
		group, err := explain.Group(context.Background(), past, "ml", of, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := render.Group(&b, group); err != nil {
			t.Fatal(err)
		}
	}
	text := b.String()
	if strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
	}) || strings.Contains(text, "\nPod ml/x") {
		t.Fatalf("the text is %q", text)
	}
	if lines := strings.Count(text, "\n"); lines > 100 || len(text) > 200_000 {
		t.Fatalf("the text has %d lines and %d bytes", lines, len(text))
	}
}
