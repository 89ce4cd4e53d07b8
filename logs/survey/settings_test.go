package survey

import (
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

// TestASurveyShowsTheSettingsThatAreNotTheDefaults has two profiles. Each is compared with the default profile.
func TestASurveyShowsTheSettingsThatAreNotTheDefaults(t *testing.T) {
	cfg, err := framework.LoadConfig([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: 3
profiles:
- schedulerName: batch
  pluginConfig:
  - name: Coscheduling
    args: {queuePolicy: Backfill, permitWaitingTimeSeconds: 10}
- schedulerName: web
`), "the test's configuration")
	if err != nil {
		t.Fatal(err)
	}
	logged, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var e Epoch
	e.configured(logged, plugins.NewRegistry())
	var text strings.Builder
	e.writeSettings(&text)
	const want = `  profile batch, queue policy Backfill
  profile web, queue policy BestEffort
  podInitialBackoffSeconds: 3 (default: 1)
  profiles[batch].pluginConfig[Coscheduling].args.permitWaitingTimeSeconds: 10 (default: none)
  profiles[batch].pluginConfig[Coscheduling].args.queuePolicy: "Backfill" (default: none)
`
	if text.String() != want {
		t.Errorf("the settings are\n%swant\n%s", &text, want)
	}
	if string(e.Config) != string(logged) {
		t.Error("the configuration is not in the survey")
	}
}
