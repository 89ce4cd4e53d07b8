package plugins_test

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

func TestRegistryHasThePluginsOfUpstreamsDefaultProfile(t *testing.T) {
	cfg, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	registry := plugins.NewRegistry()
	for _, p := range cfg.Profiles[0].Plugins.MultiPoint.Enabled {
		if _, ok := registry.Factories[p.Name]; !ok {
			t.Errorf("%s is not registered", p.Name)
		}
	}
}

func TestRegistryHasThePluginsOfOurDefaultProfile(t *testing.T) {
	if err := framework.ValidatePlugins(framework.DefaultConfig(), plugins.NewRegistry()); err != nil {
		t.Error(err)
	}
}
