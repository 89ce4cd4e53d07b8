package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// teller is a plugin that records an event at each of its extension points, and many of them in Filter if it is to.
type teller struct {
	handle fwk.Handle
	many   int
	beside bool // it wants the pod b tried at once, by another goroutine
}

func (*teller) Name() string { return "Teller" }

func (p *teller) tell(pod *v1.Pod, point string) *fwk.Status {
	p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeNormal, point, "Scheduling", "pod %s", pod.Name)
	return nil
}

func (p *teller) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod,
	_ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, p.tell(pod, "PreFilter")
}
func (*teller) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (p *teller) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	for i := range p.many {
		p.tell(pod, fmt.Sprintf("Filter%d", i))
	}
	done := make(chan struct{})
	activate := func() {
		defer close(done)
		b := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "b", UID: "u-b"}}
		p.handle.Activate(klog.Background(), map[string]*v1.Pod{"ml/b": b})
	}
	if p.beside {
		go activate()
	} else {
		activate()
	}
	<-done
	return nil
}

func (p *teller) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	return p.tell(pod, "Reserve")
}

func (p *teller) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.tell(pod, "Unreserve")
}

func (p *teller) AppendState(dst []byte) []byte { return dst }

func (p *teller) RestoreState([]byte) error { return nil }

func (*teller) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult,
	*fwk.Status) {
	return nil, nil
}

func (p *teller) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	return p.tell(pod, "PreBind")
}

// told is an EventSink that keeps its events.
type told struct{ events, drops []string }

func (s *told) Record(e framework.Event) {
	s.events = append(s.events, fmt.Sprintf("%s %s after %d", e.Reason, e.Regarding.Name, e.After))
}

func (s *told) Drop(why error) { s.drops = append(s.drops, why.Error()) }

// tellers is a Machine whose pods are scheduled by a teller, with one node.
type tellers struct {
	*scheduler.Machine
	t   *testing.T
	seq uint64
}

func newTellers(t *testing.T, plugin *teller, sink framework.EventSink) *tellers {
	t.Helper()
	return newTellersWith(t, plugin, sink, "")
}

// newTellersWith has more in the configuration.
func newTellersWith(t *testing.T, plugin *teller, sink framework.EventSink, more string) *tellers {
	t.Helper()
	registry := plugins.NewRegistry()
	registry.Events = sink
	registry.Factories["Teller"] = func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		plugin.handle = h
		return plugin, nil
	}
	m := &tellers{Machine: scheduler.New(registry), t: t}
	m.apply(&eventlog.EpochStarted{ID: "e", Version: "v", Behaviour: scheduler.Behaviour, Config: encodedConfig(t, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Teller}]}}
`+more)})
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
	node.Status.Allocatable = v1.ResourceList{v1.ResourcePods: *resource.NewQuantity(10, resource.DecimalSI)}
	m.apply(&eventlog.Upserted{Resource: eventlog.Nodes, Object: node})
	m.pod("a")
	return m
}

func (m *tellers) apply(p eventlog.Payload) {
	m.t.Helper()
	m.seq++
	if err := m.Apply(eventlog.Entry{Seq: m.seq, Epoch: 1, Payload: p}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *tellers) pod(name string) {
	m.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("u-" + name)},
		Spec:       v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c"}}}}})
}

// TestWhatPluginsRecordIsPassedOnOnce has a pod placed, and its bind fail. Calls that kube-scheduler does not make
// record nothing: Unreserve at the end of the cycle, the second Decide of the checked build, and the runs when the
// Decision is applied.
func TestWhatPluginsRecordIsPassedOnOnce(t *testing.T) {
	sink := &told{}
	m := newTellers(t, &teller{}, sink)
	d, ok := m.Decide(nil)
	if !ok || d.Node != "n" {
		t.Fatalf("decides %+v, %v", d, ok)
	}
	m.apply(&d) // entry 4
	if status := m.BindingCycle(d.UID).Before(t.Context(), framework.InOrder); status != nil {
		t.Fatal(status)
	}
	m.apply(&eventlog.BindResult{UID: d.UID, Node: "n", Outcome: eventlog.BindFailed})
	want := []string{"PreFilter a after 4", "Reserve a after 4", "PreBind a after 4", "Unreserve a after 5"}
	if !slices.Equal(sink.events, want) || len(sink.drops) > 0 {
		t.Errorf("recorded %q, want %q; dropped %q", sink.events, want, sink.drops)
	}
}

// TestACycleThatAsksAboutPreemptionRecordsNothing has the cycle of a pod end as a question: the one that follows the
// answer records the same.
func TestACycleThatAsksAboutPreemptionRecordsNothing(t *testing.T) {
	sink := &told{}
	m := newTellersWith(t, &teller{}, sink, "extenders: [{urlPrefix: 'http://x', preemptVerb: p}]\n")
	lower := int32(-1)
	for i := range 10 {
		name := fmt.Sprintf("low-%d", i)
		m.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)},
			Spec: v1.PodSpec{SchedulerName: "default-scheduler", NodeName: "n", Priority: &lower,
				Containers: []v1.Container{{Name: "c"}}}}})
	}
	asked, ok := m.Decide(nil)
	if !ok || asked.Outcome != eventlog.Asked || len(asked.Questions) != 1 {
		t.Fatalf("decides %+v, %v", asked, ok)
	}
	m.apply(&asked)
	if len(sink.events) > 0 {
		t.Errorf("with the question it has recorded %q", sink.events)
	}
	m.apply(&eventlog.ExtenderResult{UID: asked.UID, Decision: m.seq, Answers: []eventlog.ExtenderAnswer{
		{Candidates: asked.Questions[0].Candidates}}})
	before := m.seq
	d, ok := m.Decide(nil)
	if !ok || len(d.Victims) != 1 {
		t.Fatalf("after the answer it decides %+v, %v", d, ok)
	}
	if want := []string{fmt.Sprintf("PreFilter a after %d", before+1)}; !slices.Equal(sink.events, want) {
		t.Errorf("recorded %q, want %q", sink.events, want)
	}
}

// TestACycleRecordsALimitedNumberOfEvents has a plugin record a thousand events in a cycle.
func TestACycleRecordsALimitedNumberOfEvents(t *testing.T) {
	sink := &told{}
	m := newTellers(t, &teller{many: 1000}, sink)
	d, _ := m.Decide(nil)
	m.apply(&d)
	if len(sink.events) != 100 || len(sink.drops) != 902 || !strings.Contains(sink.drops[0], "more than 100 events") {
		t.Errorf("%d recorded, %d dropped", len(sink.events), len(sink.drops))
	}
	if status := m.BindingCycle(d.UID).Before(t.Context(), framework.InOrder); status != nil {
		t.Fatal(status)
	}
	if len(sink.events) != 101 {
		t.Errorf("beside cycles there is no such limit: %d events", len(sink.events))
	}
}

// TestWhatAGoroutineWantsTriedAtOnceIsNotInTheDecision has a plugin call Activate in a cycle, and beside one.
func TestWhatAGoroutineWantsTriedAtOnceIsNotInTheDecision(t *testing.T) {
	for _, beside := range []bool{false, true} {
		m := newTellers(t, &teller{beside: beside}, nil)
		m.pod("b")
		d, ok := m.Decide(nil)
		if want := btoi(!beside); !ok || d.Name != "a" || len(d.Activated) != want {
			t.Errorf("beside %v: pod %s activates %q, want %d", beside, d.Name, d.Activated, want)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestATrialRecordsNothing tries a pod in a trial.
func TestATrialRecordsNothing(t *testing.T) {
	sink := &told{}
	plugin := &teller{}
	m := newTellers(t, plugin, sink)
	trial, err := m.Trial("u-a")
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := trial.Decide(nil); !ok || d.Node != "n" || len(sink.events) > 0 {
		t.Errorf("the trial decides %+v, %v, and has recorded %q", d, ok, sink.events)
	}
}
