package framework

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// foreignGangPlugins are the plugins of kube-scheduler's own pod group cycle, which does not run here. Coscheduling
// replaces all of them.
var foreignGangPlugins = []string{names.GangScheduling, names.TopologyPlacementGenerator, names.PodGroupPodsCount}

// adaptForeign changes a configuration that names kube-scheduler's plugins in full, like its written-out defaults:
//
//   - It removes GangScheduling and the other plugins of the pod group cycle. Coscheduling replaces them.
//   - It removes PrioritySort from profiles with Coscheduling, which also sorts the queue by priority.
//   - It sets DynamicResources' filterTimeout, which would end a search by the wall clock, to zero.
func adaptForeign(cfg *configv1.KubeSchedulerConfiguration, note func(format string, args ...any)) {
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		if profile.Plugins != nil {
			adaptPlugins(profile.Plugins, note)
		}
		for _, c := range profile.PluginConfig {
			args, ok := c.Args.Object.(*configv1.DynamicResourcesArgs)
			if ok && args.FilterTimeout != nil && args.FilterTimeout.Duration != time.Duration(0) {
				note("%s: filterTimeout is taken for 0s: a search does not end by the clock on the wall", c.Name)
				args.FilterTimeout = &metav1.Duration{}
			}
		}
	}
}

func adaptPlugins(plugins *configv1.Plugins, note func(format string, args ...any)) {
	drop := func(set *configv1.PluginSet, name string) bool {
		before := len(set.Enabled)
		set.Enabled = slices.DeleteFunc(set.Enabled, func(p configv1.Plugin) bool { return p.Name == name })
		return len(set.Enabled) < before
	}
	for _, set := range foreignSets(plugins) {
		for _, name := range foreignGangPlugins {
			if drop(set, name) {
				note("plugin %s is left out: Coscheduling stands for it", name)
			}
		}
	}
	without := lists(plugins.MultiPoint.Disabled, coscheduling) ||
		lists(plugins.MultiPoint.Disabled, "*") && !lists(plugins.MultiPoint.Enabled, coscheduling)
	if without {
		return
	}
	for _, set := range []*configv1.PluginSet{&plugins.MultiPoint, &plugins.QueueSort} {
		if drop(set, names.PrioritySort) {
			note("plugin %s is left out: Coscheduling sorts the queue, by priority too", names.PrioritySort)
		}
	}
}

// namedGangPlugins returns, by profile, the plugins of foreignGangPlugins that the configuration itself enables.
func namedGangPlugins(cfg *configv1.KubeSchedulerConfiguration) []map[string]bool {
	named := make([]map[string]bool, len(cfg.Profiles))
	for i, profile := range cfg.Profiles {
		named[i] = map[string]bool{}
		for _, name := range foreignGangPlugins {
			named[i][name] = profile.Plugins != nil && lists(profile.Plugins.MultiPoint.Enabled, name)
		}
	}
	return named
}

// dropDefaultGangPlugins removes the plugins of foreignGangPlugins that come from kube-scheduler's defaults. Some
// feature gates, such as GenericWorkload, add them. Without them a configuration has the same meaning under all gates.
func dropDefaultGangPlugins(cfg *configv1.KubeSchedulerConfiguration, named []map[string]bool) {
	for i := range cfg.Profiles {
		set := &cfg.Profiles[i].Plugins.MultiPoint
		set.Enabled = slices.DeleteFunc(set.Enabled, func(p configv1.Plugin) bool {
			return slices.Contains(foreignGangPlugins, p.Name) && (i >= len(named) || !named[i][p.Name])
		})
	}
}

// foreignSets returns the plugin sets of all extension points.
func foreignSets(p *configv1.Plugins) []*configv1.PluginSet {
	return []*configv1.PluginSet{
		&p.PreEnqueue, &p.QueueSort, &p.PreFilter, &p.Filter, &p.PostFilter, &p.PreScore, &p.Score, &p.Reserve,
		&p.Permit, &p.PreBind, &p.Bind, &p.PostBind, &p.MultiPoint, &p.PlacementGenerate, &p.PlacementScore,
		&p.PodGroupPostFilter,
	}
}
