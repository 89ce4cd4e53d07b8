package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/engine/live"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/effect"
	"github.com/rollcall-sched/rollcall/kube/status"
	"github.com/rollcall-sched/rollcall/plugins"
)

// gathered returns the metrics that Prometheus would read, a line each: name{labels} value, for histograms the count
// and the sum.
func gathered(t *testing.T, x prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry() // it refuses what does not fit together
	if err := registry.Register(x); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			value := fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = fmt.Sprintf("%d times, %g", h.GetSampleCount(), h.GetSampleSum())
			}
			lines = append(lines, fmt.Sprintf("%s{%s} %s", f.GetName(), strings.Join(labels, ","), value))
		}
	}
	return lines
}

func pod(name, cpu string) eventlog.Payload {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return &eventlog.Upserted{Resource: eventlog.Pods, Object: p}
}

func TestAStandbySaysThatItIsOne(t *testing.T) {
	leads := false
	x := Leading(func() bool { return leads })
	for _, want := range []string{"rollcall_leading{} 0", "rollcall_leading{} 1"} {
		if got := gathered(t, x); !slices.Equal(got, []string{want}) {
			t.Errorf("%q, want %q", got, want)
		}
		leads = true
	}
}

func TestWhatHappensInTheLoopIsCounted(t *testing.T) {
	x := New(Sources{
		Stage:   func() live.Stage { return live.Scheduling },
		Effects: func() effect.Counts { return effect.Counts{Retries: 3, ReadBacks: 2, Outstanding: 1} },
		Status:  func() status.Counts { return status.Counts{PodStatuses: 4, Events: 1, Standing: 2, Waiting: 7} },
	})
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	e, err := engine.Open(t.Context(), eventlog.NewMemory(), start, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-n1"}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("110"),
	}
	elsewhere := pod("wide", "16") // another scheduler binds it
	elsewhere.(*eventlog.Upserted).Object.(*corev1.Pod).Spec.NodeName = "n1"
	for i, inputs := range [][]eventlog.Payload{
		{&eventlog.Upserted{Resource: eventlog.Nodes, Object: n}, pod("a", "1"), pod("wide", "16")},
		{&eventlog.BindResult{UID: "uid-a", Node: "n1", Outcome: eventlog.BindBound}, elsewhere,
			&eventlog.EvictResult{UID: "uid-a", Outcome: eventlog.EvictGivenUp, Decision: 5}},
	} {
		ready, err := e.Step(t.Context(), start.Add(time.Duration(i)*2*time.Second), inputs)
		if err != nil {
			t.Fatal(err)
		}
		x.Observe(ready)
	}
	if len(x.arrived) > 0 {
		t.Errorf("%d pods are remembered that are bound", len(x.arrived))
	}
	got := gathered(t, x)
	for _, want := range []string{
		"scheduler_schedule_attempts_total{scheduled} 1",
		"scheduler_schedule_attempts_total{unschedulable} 1",
		"scheduler_pending_pods{unschedulable} 0",
		"scheduler_pending_pods{active} 0",
		"scheduler_scheduler_cache_size{nodes} 1",
		"scheduler_scheduler_cache_size{pods} 2",
		"scheduler_pod_scheduling_sli_duration_seconds{} 2 times, 4",
		"rollcall_log_entries_total{Upserted} 4",
		"rollcall_log_entries_total{Decision} 2",
		"rollcall_log_entries_total{BindResult} 1",
		"rollcall_bind_results_total{bound} 1",
		"rollcall_eviction_results_total{givenup} 1",
		"rollcall_log_last_entry{} 9",
		"rollcall_stage{scheduling} 1",
		"rollcall_stage{draining} 0",
		"rollcall_effects_outstanding{} 1",
		"rollcall_effect_retries_total{} 3",
		"rollcall_effect_read_backs_total{} 2",
		"rollcall_status_writes_total{written} 5",
		"rollcall_status_writes_total{standing} 2",
		"rollcall_status_waiting{} 7",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}
