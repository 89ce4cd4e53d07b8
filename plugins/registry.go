// Package plugins lists the plugins that are compiled in: kube-scheduler's own and ours. It owns the list
// and nothing else; a plugin of ours is a package below this one, and plugins never import each other.
package plugins

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
	"github.com/rollcall-sched/rollcall/plugins/quickfit"
	"github.com/rollcall-sched/rollcall/plugins/quickspread"
)

// NewRegistry returns the factories of all plugins by name. Under the name of DefaultPreemption, which draws random
// numbers, stands our own; NodeResourcesFit and NodeResourcesBalancedAllocation are quickfit's, and PodTopologySpread
// is quickspread's. Of kube-scheduler's these are missing: the plugins of its own pod group cycle, which is not run and
// in whose place Coscheduling stands; and DeferredPodScheduling while its feature gate is off.
func NewRegistry() framework.Registry {
	factories := intree.NewInTreeRegistry()
	for _, name := range []string{
		names.GangScheduling,
		names.TopologyPlacementGenerator,
		names.PodGroupPodsCount,
	} {
		delete(factories, name)
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.InPlacePodVerticalScalingSchedulerPreemption) {
		delete(factories, names.DeferredPodScheduling)
	}
	factories[names.NodeResourcesFit] = quickfit.New(factories[names.NodeResourcesFit])
	factories[names.NodeResourcesBalancedAllocation] = quickfit.NewBalanced(
		factories[names.NodeResourcesBalancedAllocation],
	)
	factories[names.PodTopologySpread] = quickspread.New(factories[names.PodTopologySpread])
	factories[coscheduling.Name] = coscheduling.New
	factories[preemption.Name] = preemption.New
	return framework.Registry{Factories: factories}
}
