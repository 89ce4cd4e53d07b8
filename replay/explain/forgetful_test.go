package explain_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// TestALogOfAPluginThatCannotBeCopiedIsExplained: the present answer of plugins is not tried, and the rest is answered.
func TestALogOfAPluginThatCannotBeCopiedIsExplained(t *testing.T) {
	cfg, err := framework.LoadConfig([]byte(`{"apiVersion":"kubescheduler.config.k8s.io/v1",
		"kind":"KubeSchedulerConfiguration",
		"profiles":[{"plugins":{"multiPoint":{"enabled":[{"name":"ForgetfulRackLimit"}]}}}]}`), "test")
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	log := eventlog.NewMemory()
	e, err := engine.Open(context.Background(), log, transcripts.Start,
		engine.Options{Registry: transcripts.Registry(), Config: config, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{"rack": "a"}}}
	node.Status.Allocatable = v1.ResourceList{v1.ResourcePods: *resource.NewQuantity(10, resource.DecimalSI)}
	inputs := []eventlog.Payload{&eventlog.Upserted{Resource: eventlog.Nodes, Object: node}}
	for _, name := range []string{"a", "b", "c"} {
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)},
			Spec:       v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c"}}}}})
	}
	if _, err := e.Step(context.Background(), transcripts.Start, inputs); err != nil {
		t.Fatal(err)
	}
	pod, err := explain.Pod(t.Context(), wholeLog(log), "ml", "c", explain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Stage != "Pending" || pod.Attempts != 1 || pod.Queue == nil {
		t.Errorf("%+v", pod)
	}
}
