package status

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// world is an API server that knows pods, and an engine whose decisions it is shown.
type world struct {
	t      *testing.T
	client *fake.Clientset
	status *Status
	engine *engine.Engine
	log    *eventlog.Memory
	now    time.Time

	mu   sync.Mutex
	seen map[types.UID]Pod
}

// newWorld must be called in a bubble of synctest: it waits for the writes there.
func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	return newWorldOf(t, framework.DefaultConfig(), objects...)
}

// newWorldOf is newWorld with a configuration.
func newWorldOf(t *testing.T, cfg *framework.Config, objects ...runtime.Object) *world {
	t.Helper()
	return newWorldWith(t, cfg, plugins.NewRegistry(), objects...)
}

// newWorldWith is newWorldOf with other plugins. The events that they record are shown too.
func newWorldWith(t *testing.T, cfg *framework.Config, registry framework.Registry, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{
		t: t, client: fake.NewClientset(objects...), log: eventlog.NewMemory(), now: start, seen: map[types.UID]Pod{},
	}
	w.client.PrependReactor("patch", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.Pod{}, nil // seen has the server's pods
	})
	w.status = New(Options{
		Pods: w.client, Events: w.client, Workers: 2, Report: func(m string) { t.Log(m) },
		Now: func() time.Time { return start },
		Seen: func(uid types.UID) (Pod, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			p, ok := w.seen[uid]
			return p, ok
		},
	})
	registry.Events = w.status.PluginEvents()
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.engine, err = engine.Open(context.Background(), w.log, start, engine.Options{
		Registry: registry, Config: config, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// step has the engine take inputs in. The API server knows the pods among them.
func (w *world) step(inputs ...eventlog.Payload) {
	w.t.Helper()
	for _, in := range inputs {
		if up, ok := in.(*eventlog.Upserted); ok && up.Resource == eventlog.Pods {
			w.mu.Lock()
			w.seen[up.Object.GetUID()] = Pod{}
			w.mu.Unlock()
		}
	}
	w.now = w.now.Add(time.Minute)
	w.take(inputs...)
}

// take has the engine take inputs in, and shows the result.
func (w *world) take(inputs ...eventlog.Payload) {
	w.t.Helper()
	ready, err := w.engine.Step(context.Background(), w.now, inputs)
	if err != nil {
		w.t.Fatal(err)
	}
	w.status.Observe(ready)
}

// written runs the Status until all is written, and returns the requests that changed something, a line each.
func (w *world) written() []string {
	w.t.Helper()
	w.client.ClearActions()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.status.Run(ctx)
	}()
	time.Sleep(time.Hour) // of the bubble: every try is over
	cancel()
	<-done
	var lines []string
	for _, a := range w.client.Actions() {
		switch a := a.(type) {
		case ktesting.PatchAction:
			if a.GetResource().Resource == "events" {
				lines = append(lines, w.lengthened(a))
			} else {
				lines = append(lines, w.patched(a))
			}
		case ktesting.CreateAction: // an update is one too
			lines = append(lines, fmt.Sprintf("%s %v", a.GetVerb(), describe(a.GetObject())))
		}
	}
	return lines
}

// lengthened returns the content of a patch of an event.
func (w *world) lengthened(a ktesting.PatchAction) string {
	var p struct{ Series struct{ Count int } }
	if err := json.Unmarshal(a.GetPatch(), &p); err != nil {
		w.t.Fatal(err)
	}
	of, _, _ := strings.Cut(a.GetName(), ".")
	return fmt.Sprintf("patch event of %s: %d times", of, p.Series.Count)
}

// patched returns the content of a patch of a pod's status, and has the API server know it.
func (w *world) patched(a ktesting.PatchAction) string {
	var p struct {
		Metadata struct{ UID types.UID }
		Status   struct {
			Conditions        []corev1.PodCondition
			NominatedNodeName *string
		}
	}
	if err := json.Unmarshal(a.GetPatch(), &p); err != nil {
		w.t.Fatal(err)
	}
	line := fmt.Sprintf("patch %s/%s of %s", a.GetName(), a.GetSubresource(), p.Metadata.UID)
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen[p.Metadata.UID]
	for _, c := range p.Status.Conditions {
		line += fmt.Sprintf(" %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		seen.Scheduled = &c
	}
	if strings.Contains(string(a.GetPatch()), "nominatedNodeName") {
		seen.NominatedNodeName = ""
		if p.Status.NominatedNodeName != nil {
			seen.NominatedNodeName = *p.Status.NominatedNodeName
		}
		line += " nominated to " + fmt.Sprintf("%q", seen.NominatedNodeName)
	}
	w.seen[p.Metadata.UID] = seen
	return line
}

func node(name, cpu string) eventlog.Payload {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourcePods: resource.MustParse("110")}
	return &eventlog.Upserted{Resource: eventlog.Nodes, Object: n}
}

func cordoned(name, cpu string) eventlog.Payload {
	up := node(name, cpu).(*eventlog.Upserted)
	up.Object.(*corev1.Node).Spec.Unschedulable = true
	return up
}

func pod(name, cpu, group string, priority int32) eventlog.Payload {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.SchedulerName, p.Spec.Priority = "default-scheduler", &priority
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	if group != "" {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
	return &eventlog.Upserted{Resource: eventlog.Pods, Object: p}
}

func podGroup(name string, minimum int32) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("group-" + name)}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
	return g
}

func bound(name, node string) eventlog.Payload {
	return &eventlog.BindResult{UID: types.UID("uid-" + name), Node: node, Outcome: eventlog.BindBound}
}

func bindFailed(name, node string) eventlog.Payload {
	return &eventlog.BindResult{UID: types.UID("uid-" + name), Node: node, Outcome: eventlog.BindFailed}
}
