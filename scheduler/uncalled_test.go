package scheduler_test

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// beyond is a plugin of all points behind a decision.
type beyond struct{}

func (beyond) Name() string { return "Beyond" }

func (beyond) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult,
	*fwk.Status) {
	return nil, nil
}

func (beyond) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

func (beyond) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

func (beyond) PostBind(context.Context, fwk.CycleState, *v1.Pod, string) {}

// TestPluginsThatWouldNeverBeCalledAreRefusedByName is about the epochs of behaviours 3 to 5.
func TestPluginsThatWouldNeverBeCalledAreRefusedByName(t *testing.T) {
	registry := plugins.NewRegistry()
	registry.Factories["Beyond"] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return beyond{}, nil
	}
	for _, point := range []string{"preBind", "bind", "postBind"} {
		cfg, err := framework.LoadConfig([]byte(`{"apiVersion":"kubescheduler.config.k8s.io/v1",
			"kind":"KubeSchedulerConfiguration","profiles":[{"schedulerName":"x","plugins":{"`+point+`":{"enabled":[
			{"name":"Beyond"}]}}}]}`), "test")
		if err != nil {
			t.Fatal(err)
		}
		config, err := framework.EncodeConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		start := func(behaviour uint32) error {
			return scheduler.New(registry).Apply(eventlog.Entry{Seq: 1, Epoch: 1,
				Payload: &eventlog.EpochStarted{ID: "e", Version: "v", Behaviour: behaviour, Config: config}})
		}
		var uncalled *framework.UncalledError
		if err := start(5); !errors.As(err, &uncalled) || uncalled.Plugin != "Beyond" ||
			uncalled.Profile != "x" {
			t.Errorf("%s: the epoch starts with %v", point, err)
		}
		for _, behaviour := range []uint32{2, 6, scheduler.Behaviour} {
			if err := start(behaviour); err != nil {
				t.Errorf("%s: an epoch of behaviour %d is refused: %v", point, behaviour, err)
			}
		}
	}
}
