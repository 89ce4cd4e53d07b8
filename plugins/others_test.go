package plugins_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/sim/simulate"
)

// named is a plugin with a name and nothing else.
type named string

func (n named) Name() string { return string(n) }

// factoryOf returns the factory of a plugin that calls itself by a name.
func factoryOf(name string) frameworkruntime.PluginFactory {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return named(name), nil }
}

func TestPluginsOfOthersStandBesideOurs(t *testing.T) {
	registry, err := plugins.With(frameworkruntime.Registry{"Rack": factoryOf("Rack"), "Row": factoryOf("Row")})
	if err != nil {
		t.Fatal(err)
	}
	ours := plugins.NewRegistry()
	if got, want := len(registry.Factories), len(ours.Factories)+2; got != want {
		t.Errorf("%d plugins, want %d", got, want)
	}
	for _, name := range []string{"Rack", "Row", "Coscheduling", "NodeAffinity"} {
		if registry.Factories[name] == nil {
			t.Errorf("%s is not there", name)
		}
	}
	if _, ours := ours.Factories["Rack"]; ours {
		t.Error("Rack is in the registry without plugins of others, too")
	}
}

func TestNamesThatPluginsOfOthersCannotHaveAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name    string
		factory frameworkruntime.PluginFactory
		want    string
	}{
		{"", factoryOf(""), "without a name"},
		{"*", factoryOf("*"), "stands for all plugins"},
		{"NodeAffinity", factoryOf("NodeAffinity"), `plugin "NodeAffinity" is added, and Rollcall or kube-scheduler has one`},
		{"Coscheduling", factoryOf("Coscheduling"), `plugin "Coscheduling" is added, and`},
		{"GangScheduling", factoryOf("GangScheduling"), `plugin "GangScheduling" is added, and`}, // left out of ours
		{"Rack", nil, `plugin "Rack" is added without a factory`},
	} {
		_, err := plugins.With(frameworkruntime.Registry{tc.name: tc.factory})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: the error is %v, want %q in it", tc.name, err, tc.want)
		}
	}
}

// TestAFactoryThatMakesNothingIsRefused starts the profile of a configuration with the plugin.
func TestAFactoryThatMakesNothingIsRefused(t *testing.T) {
	for want, factory := range map[string]frameworkruntime.PluginFactory{
		`start plugin "Rack": its factory returned no plugin`: func(
			context.Context, runtime.Object, fwk.Handle,
		) (fwk.Plugin, error) {
			return nil, nil
		},
		`plugin "Rack" calls itself "Row"`: factoryOf("Row"),
	} {
		registry, err := plugins.With(frameworkruntime.Registry{"Rack": factory})
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := framework.LoadConfig([]byte("apiVersion: kubescheduler.config.k8s.io/v1\n"+
			"kind: KubeSchedulerConfiguration\nprofiles: [{plugins: {multiPoint: {enabled: [{name: Rack}]}}}]\n"), "c")
		if err != nil {
			t.Fatal(err)
		}
		config, err := framework.EncodeConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = simulate.CheckConfig(registry, config)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
}
