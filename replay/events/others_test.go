package events_test

import (
	"context"
	"slices"
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
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/events"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
)

var recordedAt = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// recorder makes the log of a recorder, an input a second.
type recorder struct {
	t      *testing.T
	log    *eventlog.Memory
	engine *engine.Engine
	at     time.Time
}

func newRecorder(t *testing.T) *recorder {
	cfg := framework.DefaultConfig()
	cfg.Recording = true
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{t: t, log: eventlog.NewMemory(), at: recordedAt}
	r.engine, err = engine.Open(t.Context(), r.log, r.at, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *recorder) put(inputs ...eventlog.Payload) {
	r.t.Helper()
	for _, p := range inputs {
		r.at = r.at.Add(time.Second)
		if _, err := r.engine.Step(context.Background(), r.at, []eventlog.Payload{p}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func upsertedNode(change func(*v1.Node)) *eventlog.Upserted {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}}
	n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("110")}
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	change(n)
	return &eventlog.Upserted{Resource: eventlog.Nodes, Object: n}
}

func upsertedPod(name string, priority int32, change func(*v1.Pod)) *eventlog.Upserted {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	p.Spec.SchedulerName, p.Spec.Priority = "default-scheduler", &priority
	p.Spec.Containers = []v1.Container{{Name: "main", Image: "i"}}
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("2")}
	change(p)
	return &eventlog.Upserted{Resource: eventlog.Pods, Object: p}
}

func deletedPod(name string) *eventlog.Deleted {
	return &eventlog.Deleted{Resource: eventlog.Pods, Namespace: "default", Name: name, UID: types.UID("uid-" + name)}
}

func bound(p *v1.Pod) {
	p.Spec.NodeName = "n1"
	p.Annotations = map[string]string{eventlog.BoundByAnnotation: "kube-scheduler"}
}

func disrupted(reason, message string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		bound(p)
		p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason,
			Message: message}}
	}
}

// story has all that others do to pods and nodes.
func story(t *testing.T) *recorder {
	same := func(*v1.Pod) {}
	r := newRecorder(t)
	r.put(upsertedNode(func(*v1.Node) {}),
		upsertedPod("a", 0, same), upsertedPod("a", 0, bound),
		upsertedPod("b", 0, same), upsertedPod("b", 0, bound),
		upsertedPod("vip", 10, same),
		upsertedPod("vip", 10, func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse,
				Reason: "Unschedulable", Message: "0/1 nodes are available: 1 Insufficient cpu."}}
		}),
		upsertedPod("vip", 10, func(p *v1.Pod) {
			p.Status.NominatedNodeName = "n1"
			p.Annotations = map[string]string{eventlog.NominatedByAnnotation: "kube-scheduler"}
		}),
		upsertedPod("a", 0, disrupted("PreemptionByScheduler",
			"default-scheduler: preempting to accommodate a higher priority pod")),
		deletedPod("a"),
		upsertedPod("vip", 10, bound),
		upsertedPod("b", 0, func(p *v1.Pod) {
			bound(p)
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("3")
		}),
		upsertedPod("b", 0, func(p *v1.Pod) {
			bound(p)
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue,
				Reason: "Deferred", Message: "Node didn't have enough resource: cpu"}}
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("3")
		}),
		upsertedPod("b", 0, disrupted("EvictionByEvictionAPI", "Eviction API: evicting")),
		deletedPod("b"),
		upsertedPod("c", 0, bound),
		upsertedPod("c", 0, func(p *v1.Pod) {
			bound(p)
			p.Status.Phase = v1.PodFailed
			p.Status.Reason, p.Status.Message = "Evicted", "The node was low on resource: memory."
		}),
		deletedPod("c"),
		upsertedPod("d", 0, bound),
		upsertedPod("d", 0, func(p *v1.Pod) {
			bound(p)
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main"}}
		}),
		upsertedPod("d", 0, func(p *v1.Pod) {
			bound(p)
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", RestartCount: 1}}
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: 137,
				Reason: "OOMKilled"}
		}),
		upsertedPod("d", 0, func(p *v1.Pod) {
			bound(p)
			p.Status.Phase = v1.PodFailed
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main"}}
			p.Status.ContainerStatuses[0].State.Terminated = &v1.ContainerStateTerminated{ExitCode: 137,
				Reason: "OOMKilled"}
		}),
		upsertedNode(func(n *v1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: v1.NodeMemoryPressure,
				Status: v1.ConditionTrue, Reason: "KubeletHasInsufficientMemory"})
		}),
		&eventlog.Watched{Missing: []eventlog.Missing{
			{Resource: eventlog.Nodes, Since: eventlog.TimeOf(recordedAt), Reason: "x"},
			{Resource: eventlog.Pods, Since: eventlog.TimeOf(recordedAt), Reason: "x"}}},
		&eventlog.Watched{Missing: []eventlog.Missing{
			{Resource: eventlog.Services, Since: eventlog.TimeOf(recordedAt.Add(time.Second)), Reason: "x"}}})
	if err := r.engine.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *recorder) history() *history.Log {
	return replaytest.NewSource(r.log, plugins.NewRegistry()).Log()
}

// TestEventsSayWhatOthersHaveDone tells the story of a recording.
func TestEventsSayWhatOthersHaveDone(t *testing.T) {
	r := story(t)
	var got []string
	list := events.NewList(events.Filter{}, func(e *events.Event) error {
		got = append(got, e.Message)
		return nil
	})
	last, err := r.log.Last()
	if err == nil {
		err = events.NewReading(list).Range(t.Context(), r.history(), 2, last)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(`
node n1 joined
pod default/a created, priority 0
pod default/a placed on n1, bound by kube-scheduler
pod default/b created, priority 0
pod default/b placed on n1, bound by kube-scheduler
pod default/vip created, priority 10
pod default/vip not scheduled by default-scheduler: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.
pod default/vip nominated to n1 by kube-scheduler
pod default/a preempted by default-scheduler for default/vip
pod default/vip placed on n1, bound by kube-scheduler
pod default/b: container main asks for cpu 3, was 2
pod default/b: its resize is pending: Deferred: Node didn't have enough resource: cpu
pod default/b evicted by the eviction API
pod default/c created, priority 0
pod default/c failed: Evicted: The node was low on resource: memory.
pod default/d created, priority 0
pod default/d: container main was restarted (1 times so far): OOMKilled, exit code 137
pod default/d failed: container main: OOMKilled, exit code 137
node n1 condition MemoryPressure is True: KubeletHasInsufficientMemory
changes between 2026-01-02 03:00:00Z and 2026-01-02 03:00:25Z may be missing, of nodes, pods, services: x
`), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestExplainSaysWhoMadeAPodGo explains the pods of the story.
func TestExplainSaysWhoMadeAPodGo(t *testing.T) {
	r := story(t)
	for pod, want := range map[string][3]string{
		"a": {"was preempted by default-scheduler for default/vip", "kube-scheduler", ""},
		"b": {"was evicted by the eviction API", "kube-scheduler", ""},
		"c": {"", "kube-scheduler", "Evicted: The node was low on resource: memory."},
		"d": {"", "kube-scheduler", "container main: OOMKilled, exit code 137"},
	} {
		x, err := explain.Pod(t.Context(), r.history(), "default", pod, explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		message := ""
		if x.Removal != nil {
			message = x.Removal.Message
		}
		if got := [3]string{message, x.Placing.By, x.FailedFor}; got != want {
			t.Errorf("%s: %q, want %q", pod, got, want)
		}
		gone, err := explain.Eviction(t.Context(), r.history(), "default", pod, explain.Options{})
		switch {
		case want[0] == "" && err == nil:
			t.Errorf("%s: %+v, and nobody evicted it", pod, gone)
		case want[0] != "" && (err != nil || gone.Kind != "ByOthers" || !strings.HasPrefix(gone.Message, want[0])):
			t.Errorf("%s: %+v, %v", pod, gone, err)
		}
	}
}
