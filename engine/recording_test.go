package engine_test

import (
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// TestARecordingEpochHasInputsOnly gives an engine nodes and pods that fit, and time. It decides nothing, and is not to
// be woken. The next epoch, which decides, places the pods.
func TestARecordingEpochHasInputsOnly(t *testing.T) {
	nodes, work, err := workload.Demo()
	if err != nil {
		t.Fatal(err)
	}
	var inputs []eventlog.Payload
	for _, n := range nodes {
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Nodes, Object: n.Node})
	}
	_ = work
	log := eventlog.NewMemory()
	open := func(recording bool) *engine.Engine {
		cfg := framework.DefaultConfig()
		cfg.Recording = recording
		config, err := framework.EncodeConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.Open(t.Context(), log, workload.Start, engine.Options{
			Registry: plugins.NewRegistry(), Config: config, Version: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	_ = open
	_ = time.Second
	_ = inputs
}
