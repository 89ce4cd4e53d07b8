package app

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/replay/order"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/simulate/keep"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// lastFirst is the gang plugin with the order of the queue reversed.
type lastFirst struct{ *coscheduling.Coscheduling }

func (l *lastFirst) Less(a, b fwk.QueuedEntityInfo) bool { return l.Coscheduling.Less(b, a) }

// TestAuditOrderFindsALogThatWasDecidedInAnotherOrder audits the log of a scheduler that prefers the lower priority.
func TestAuditOrderFindsALogThatWasDecidedInAnotherOrder(t *testing.T) {
	nodes, work, err := workload.Parse("workload.yaml", strings.NewReader(`apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
`+waiting("hog", 0, "0s")+waiting("low", 1, "10s")+waiting("high", 5, "20s")))
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, config, err := readConfig(NewCommand(), plugins.NewRegistry(), "", queuePolicy{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	registry := plugins.NewRegistry()
	registry.Factories[coscheduling.Name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin,
		error,
	) {
		plugin, err := coscheduling.New(ctx, args, h)
		if err != nil {
			return nil, err
		}
		return &lastFirst{plugin.(*coscheduling.Coscheduling)}, nil
	}
	log := filepath.Join(t.TempDir(), "jobs.log")
	_, err = keep.Run(t.Context(), cluster, keep.Options{
		Log: log, Engine: engine.Options{Registry: registry, Config: config, Version: "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := ran(t, "audit", "order", log)
	text := stdout
	for _, want := range []string{
		"VIOLATION entry ", "pod default/low (priority 1) was placed before pod default/high (priority 5)",
		"Turn: it was active, and its turn came first", "1 in VIOLATION", "the order of the queue was VIOLATED",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("not printed: %q\n%s%s", want, stdout, stderr)
		}
	}
	if code != exitFailed {
		t.Errorf("exit code %d, want %d\n%s", code, exitFailed, stderr)
	}
	if _, _, code := ran(t, "audit", "order", log, "--from", "2026-01-01T00:15:00Z"); code != exitDone {
		t.Errorf("behind the violation the exit code is %d, want %d", code, exitDone)
	}
	stdout, _, code = ran(t, "audit", "order", log, "-o", "json")
	var facts order.Report
	if err := json.Unmarshal([]byte(stdout), &facts); err != nil {
		t.Fatal(err)
	}
	if code != exitFailed || facts.Violations != 1 || facts.Overtakings[0].By.Priority != 1 {
		t.Errorf("exit code %d, as JSON: %+v", code, facts)
	}
	// A naive reader of log cat comes to the same verdict.
	l := readNaively(t, string(rollcall(t, "log", "cat", log)), time.Time{})
	var told toldOrder
	must(t, json.Unmarshal([]byte(stdout), &told))
	l.compareJumps(l.jumps(), &told, text)
}

// waiting returns a pod that takes a whole node for ten minutes, and evicts nothing.
func waiting(name string, priority int, arrival string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations: {rollcall.dev/arrival: %s, rollcall.dev/duration: 10m}
spec:
  priority: %d
  preemptionPolicy: Never
  containers: [{name: c, resources: {requests: {cpu: "4"}}}]
`, name, arrival, priority)
}
