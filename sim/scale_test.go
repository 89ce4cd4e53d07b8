package sim

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// oneNode binds every pod to one node as soon as it arrives.
type oneNode struct {
	blank
	binds int
}

func (o *oneNode) Step(_ context.Context, _ time.Time, inputs []eventlog.Payload) (engine.Ready, error) {
	var effects []scheduler.Effect
	for _, in := range inputs {
		if up, ok := in.(*eventlog.Upserted); ok && up.Resource == eventlog.Pods {
			o.binds++
			effects = append(effects, scheduler.Effect{Kind: scheduler.Bind, UID: up.Object.GetUID(), Node: "node-00"})
		}
	}
	return ready(effects), nil
}

func TestALargeWorkloadRunsToItsEnd(t *testing.T) {
	jobs := filepath.Join("..", "..", "shared", "data", "swf", "lublin_256.swf")
	if _, err := os.Stat(jobs); err != nil {
		t.Skipf("workload data is not here: %v", err)
	}
	w, err := workload.Read(jobs)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := workload.ParseNodeSpec("1x1000000cpu")
	if err != nil {
		t.Fatal(err)
	}
	s := &oneNode{}
	start := time.Now()
	sum := run(t, s, nodes, w, Options{})
	t.Logf("%d pods in %s", s.binds, time.Since(start))
	if sum.Pods != (report.Outcomes{Total: 221_010, Placed: 221_010, Completed: 221_010}) ||
		sum.Gangs != (report.Outcomes{Total: 10_000, Placed: 10_000, Completed: 10_000}) {
		t.Errorf("%+v", sum)
	}
	if sum.GangWait.MaxSeconds != 0 || len(sum.Utilisation) != 1 {
		t.Errorf("%+v", sum)
	}
}
