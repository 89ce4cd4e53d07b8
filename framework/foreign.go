package framework

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// foreignGangPlugins are the parts of kube-scheduler's own pod group cycle, which is not run. Coscheduling stands for
// all of them.
var foreignGangPlugins = []string{names.GangScheduling, names.TopologyPlacementGenerator, names.PodGroupPodsCount}

// adaptForeign changes a configuration that names kube-scheduler's plugins in full, as its defaults written out do:
//
//   - GangScheduling and what goes with it is left out; Coscheduling stands for it;
//   - PrioritySort is left out of profiles with Coscheduling, which sorts the queue by priority, too;
//   - DynamicResources' filterTimeout, which ends a search by the clock on the wall, is taken for none.
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

// namedGangPlugins are those of foreignGangPlugins that a configuration itself enables, by profile.
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

// dropDefaultGangPlugins takes out those of foreignGangPlugins that kube-scheduler's defaults have brought, which they
// do where a feature gate is on, such as GenericWorkload. Without them the same configuration means the same whatever
// the gates are.
func dropDefaultGangPlugins(cfg *configv1.KubeSchedulerConfiguration, named []map[string]bool) {
	for i := range cfg.Profiles {
		set := &cfg.Profiles[i].Plugins.MultiPoint
		set.Enabled = slices.DeleteFunc(set.Enabled, func(p configv1.Plugin) bool {
			return slices.Contains(foreignGangPlugins, p.Name) && (i >= len(named) || !named[i][p.Name])
		})
	}
}

// foreignSets are the sets of all extension points.
func foreignSets(p *configv1.Plugins) []*configv1.PluginSet {
	return []*configv1.PluginSet{
		&p.PreEnqueue, &p.QueueSort, &p.PreFilter, &p.Filter, &p.PostFilter, &p.PreScore, &p.Score, &p.Reserve,
		&p.Permit, &p.PreBind, &p.Bind, &p.PostBind, &p.MultiPoint, &p.PlacementGenerate, &p.PlacementScore,
		&p.PodGroupPostFilter,
	}
}
