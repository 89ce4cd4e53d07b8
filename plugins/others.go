package plugins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/framework"
)

// With returns the factories of NewRegistry and of the caller's plugins, by name. It refuses names that NewRegistry
// has, and names of kube-scheduler's plugins that NewRegistry leaves out: in a configuration these names mean the
// originals.
func With(others frameworkruntime.Registry) (framework.Registry, error) {
	registry := NewRegistry()
	taken := maps.Clone(registry.Factories)
	maps.Copy(taken, intree.NewInTreeRegistry())
	for _, name := range slices.Sorted(maps.Keys(others)) {
		switch {
		case name == "":
			return framework.Registry{}, errors.New("a plugin is added without a name")
		case name == "*":
			return framework.Registry{}, errors.New(`a plugin is added as "*", which stands for all plugins`)
		case taken[name] != nil:
			return framework.Registry{}, fmt.Errorf(
				"plugin %q is added, and Rollcall or kube-scheduler has one of that name: give it another one", name)
		case others[name] == nil:
			return framework.Registry{}, fmt.Errorf("plugin %q is added without a factory", name)
		}
		registry.Factories[name] = making(others[name])
	}
	return registry, nil
}

// making returns a factory that fails where the given one makes no plugin and does not say why.
func making(factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		plugin, err := factory(ctx, args, h)
		if err == nil && plugin == nil {
			err = errors.New("its factory returned no plugin, and no error")
		}
		return plugin, err
	}
}
