package status

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

// counter is a plugin that records how many nodes it is shown.
type counter struct{ handle fwk.Handle }

func (*counter) Name() string { return "Counter" }

func (c *counter) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	c.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeNormal, "Counted", "Scheduling", "%d nodes", len(nodes))
	return nil, nil
}
func (*counter) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// withCounter is a configuration and a registry with the plugin.
func withCounter(t *testing.T) (*framework.Config, framework.Registry) {
	t.Helper()
	cfg, err := framework.LoadConfig([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Counter}]}}
`), "config")
	if err != nil {
		t.Fatal(err)
	}
	registry := plugins.NewRegistry()
	registry.Factories["Counter"] = func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return &counter{h}, nil
	}
	return cfg, registry
}

// TestEventsOfPluginsAreWritten has a plugin record an event in each cycle of a pod that finds no node.
func TestEventsOfPluginsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, registry := withCounter(t)
		w := newWorldWith(t, cfg, registry)
		w.status.Listen(w.engine.Machine().Seq())
		w.step(node("n1", "4"), pod("wide", "16", "", 0))
		expect(t, w.written(),
			"patch wide/status of uid-wide PodScheduled=False Unschedulable: "+tooWide,
			"create event Warning FailedScheduling of wide by default-scheduler: "+tooWide,
			"create event Normal Counted of wide by default-scheduler: 1 nodes")
		w.step(cordoned("n2", "16"))
		expect(t, w.written(),
			"create event Normal Counted of wide by default-scheduler: 2 nodes",
			"patch wide/status of uid-wide PodScheduled=False Unschedulable: "+tooWideAndCordoned,
			"create event Warning FailedScheduling of wide by default-scheduler: "+tooWideAndCordoned)
		w.step(cordoned("n2", "17")) // it is tried again, and counts the same
		expect(t, w.written(), "patch event of wide: 2 times", "patch event of wide: 2 times")
	})
}

// TestEventsOfPluginsWaitForTheirDecision records events of entries before they are durable. Events that were recorded
// before Listen are of the recovery.
func TestEventsOfPluginsWaitForTheirDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sink := w.status.PluginEvents()
		of := corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "node-n1"}
		record := func(after uint64) {
			sink.Record(framework.Event{Regarding: of, Type: "Normal", Reason: "Seen", Action: "Scheduling",
				Note: fmt.Sprintf("after %d", after), Reporter: "default-scheduler", After: after})
		}
		durable := func(seq uint64) {
			entries := []eventlog.Entry{{Seq: seq, Payload: &eventlog.Tick{}}}
			w.status.Observe(engine.Ready{Commits: []engine.Commit{{Entries: entries}}, State: w.engine.Machine()})
		}
		said := func(after ...uint64) {
			t.Helper()
			var want []string
			for _, seq := range after {
				want = append(want,
					fmt.Sprintf("create event Normal Seen of n1 by default-scheduler: after %d", seq))
			}
			expect(t, w.written(), want...)
			for _, a := range w.client.Actions() {
				if a.GetNamespace() != metav1.NamespaceDefault {
					t.Errorf("an event of a node is written to namespace %q", a.GetNamespace())
				}
			}
		}
		record(5)
		w.status.Listen(9)
		record(9)
		record(10)
		record(12)
		said(9)
		durable(11)
		said(10)
		durable(12)
		said(12)
		for i := range uint64(maxEvents + 3) {
			record(13 + i)
		}
		if c := w.status.Counts(); c.Dropped != 3 || c.Waiting != maxEvents {
			t.Errorf("the counts are %+v, want 3 dropped and %d waiting", c, maxEvents)
		}
	})
}

// TestDroppedEventsOfPluginsAreCountedAndReportedOnce drops many for two reasons.
func TestDroppedEventsOfPluginsAreCountedAndReportedOnce(t *testing.T) {
	var reported []string
	s := New(Options{Report: func(m string) { reported = append(reported, m) }})
	sink := s.PluginEvents()
	s.Listen(1)
	for i := range 10 {
		sink.Drop(fmt.Errorf("reason %d", i%2))
	}
	if c := s.Counts(); c.Dropped != 10 || strings.Join(reported, ", ") != "reason 0, reason 1" {
		t.Errorf("the counts are %+v, reported %q", c, reported)
	}
}
