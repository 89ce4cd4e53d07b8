package scheduler_test

import (
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

func TestTimesOfAConfigurationThatOverflowAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`"podInitialBackoffSeconds":9223372037,"podMaxBackoffSeconds":9223372037`: "podInitialBackoffSeconds is " +
			"9223372037",
		`"podMaxBackoffSeconds":9223372036854775807`: "podMaxBackoffSeconds is",
		`"profiles":[{"schedulerName":"x","pluginConfig":[{"name":"Coscheduling","args":` +
			`{"podGroupBackoffSeconds":9223372037}}]}]`: "podGroupBackoffSeconds or backfillHoldSeconds is 9223372037",
	} {
		cfg, err := framework.LoadConfig([]byte(`{"apiVersion":"kubescheduler.config.k8s.io/v1",
			"kind":"KubeSchedulerConfiguration",`+text+`}`), "test")
		if err != nil {
			t.Fatal(err)
		}
		config, err := framework.EncodeConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = scheduler.New(plugins.NewRegistry()).Apply(eventlog.Entry{Seq: 1, Epoch: 1,
			Payload: &eventlog.EpochStarted{ID: "e", Version: "v", Behaviour: scheduler.Behaviour, Config: config}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the epoch starts with %v", text, err)
		}
	}
}
