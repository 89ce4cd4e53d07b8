package scheduler_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// asker is a plugin that reads a pod from the API server at each of its extension points, with the background context,
// and notes the results.
type asker struct {
	handle fwk.Handle
	heard  map[string]error
}

func (*asker) Name() string { return "Asker" }

func (a *asker) ask(point string) *fwk.Status {
	_, err := a.handle.ClientSet().CoreV1().Pods("ml").Get(context.Background(), "p", metav1.GetOptions{})
	a.heard[point] = err
	return nil
}

func (a *asker) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult,
	*fwk.Status) {
	return nil, a.ask("PreFilter")
}
func (a *asker) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (a *asker) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return a.ask("Filter")
}

func (a *asker) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return a.ask("Reserve")
}
func (a *asker) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

func (a *asker) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult,
	*fwk.Status) {
	return nil, nil
}

func (a *asker) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return a.ask("PreBind")
}

func (a *asker) PostBind(context.Context, fwk.CycleState, *v1.Pod, string) { a.ask("PostBind") }

// TestPluginsReachTheAPIServerBesideCyclesOnly has a plugin ask it in its factory, in a cycle, and in the binding
// cycle.
func TestPluginsReachTheAPIServerBesideCyclesOnly(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}})
	}))
	defer server.Close()
	a := &asker{heard: map[string]error{}}
	registry := plugins.NewRegistry()
	registry.Outside = &rest.Config{Host: server.URL}
	registry.Factories["Asker"] = func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		a.handle = h
		a.ask("New")
		return a, nil
	}
	m := scheduler.New(registry)
	seq := uint64(0)
	apply := func(p eventlog.Payload) {
		t.Helper()
		seq++
		if err := m.Apply(eventlog.Entry{Seq: seq, Epoch: 1, Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	apply(&eventlog.EpochStarted{ID: "e", Version: "v", Behaviour: scheduler.Behaviour, Config: encodedConfig(t, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Asker}]}}
`)})
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
	node.Status.Allocatable = v1.ResourceList{v1.ResourcePods: *resource.NewQuantity(10, resource.DecimalSI)}
	apply(&eventlog.Upserted{Resource: eventlog.Nodes, Object: node})
	apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p", UID: "p"},
		Spec:       v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c"}}}}})
	d, ok := m.Decide(nil)
	if !ok || d.Node != "n" {
		t.Fatalf("decides %+v, %v", d, ok)
	}
	apply(&d)
	cycle := m.BindingCycle("p")
	if cycle == nil {
		t.Fatal("no binding cycle")
	}
	if by, status := cycle.Run(t.Context(), framework.InOrder); by != "" || status != nil {
		t.Fatalf("the binding cycle ends with %v", status)
	}
	cycle.PostBind(t.Context())
	for _, point := range []string{"New", "PreFilter", "Filter", "Reserve"} {
		if err := a.heard[point]; err == nil || !strings.Contains(err.Error(), "within a cycle") {
			t.Errorf("%s: %v", point, err)
		}
	}
	for _, point := range []string{"PreBind", "PostBind"} {
		if err, asked := a.heard[point]; err != nil || !asked {
			t.Errorf("%s: %v, asked %v", point, err, asked)
		}
	}
}
