// Package plugins lists the plugins that are compiled in: kube-scheduler's own and ours. It owns the list
// and nothing else; a plugin of ours is a package below this one, and plugins never import each other.
package plugins

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
	"github.com/rollcall-sched/rollcall/plugins/quickaffinity"
	"github.com/rollcall-sched/rollcall/plugins/quickfit"
	"github.com/rollcall-sched/rollcall/plugins/quickspread"
)

// NewRegistry returns the factories of all plugins by name. DefaultPreemption, which draws random numbers, is replaced
// by our own. NodeResourcesFit and NodeResourcesBalancedAllocation are quickfit's, PodTopologySpread is quickspread's,
// and InterPodAffinity quickaffinity's. The search of DynamicResources for devices is bounded, and the reasons of
// NodeVolumeLimits are the same in every run. The plugins of kube-scheduler's pod group cycle are missing: that cycle
// is not run, and Coscheduling takes its place. DeferredPodScheduling fails to start while its feature gate is off.
//
// A plugin reads the feature gates that are in force when it is made, not the gates at the time of the call.
func NewRegistry() framework.Registry {
	factories := frameworkruntime.Registry{}
	// any order: they go into a map
	for name := range intree.NewInTreeRegistry() {
		factories[name] = underGatesInForce(name)
	}
	for _, name := range []string{
		names.GangScheduling,
		names.TopologyPlacementGenerator,
		names.PodGroupPodsCount,
	} {
		delete(factories, name)
	}
	factories[names.DeferredPodScheduling] = onlyWith(features.InPlacePodVerticalScalingSchedulerPreemption,
		factories[names.DeferredPodScheduling])
	factories[names.NodeResourcesFit] = quickfit.New(factories[names.NodeResourcesFit])
	factories[names.NodeResourcesBalancedAllocation] = quickfit.NewBalanced(
		factories[names.NodeResourcesBalancedAllocation],
	)
	factories[names.NodeVolumeLimits] = newOrderedLimits(factories[names.NodeVolumeLimits])
	factories[names.DynamicResources] = newBoundedDevices(factories[names.DynamicResources])
	factories[names.PodTopologySpread] = quickspread.New(factories[names.PodTopologySpread])
	factories[names.InterPodAffinity] = quickaffinity.New(factories[names.InterPodAffinity])
	factories[coscheduling.Name] = coscheduling.New
	factories[preemption.Name] = preemption.New
	return framework.Registry{Factories: factories}
}

// underGatesInForce returns the factory of a plugin of kube-scheduler. The factories of NewInTreeRegistry have kept the
// feature gates of the moment in which it was called.
func underGatesInForce(name string) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return intree.NewInTreeRegistry()[name](ctx, args, h)
	}
}

// onlyWith returns a factory that fails while a feature gate is off.
func onlyWith(gate featuregate.Feature, factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if !utilfeature.DefaultFeatureGate.Enabled(gate) {
			return nil, fmt.Errorf("its feature gate %s is off: turn it on (featureGates), or remove the plugin", gate)
		}
		return factory(ctx, args, h)
	}
}
