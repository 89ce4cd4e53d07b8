package framework

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"
)

// coscheduling is the name of the gang plugin. The default profile enables it.
const coscheduling = "Coscheduling"

// defaultPercentage is the default of PercentageOfNodesToScore: all nodes.
const defaultPercentage int32 = 100

// setDefaults sets the defaults that differ from kube-scheduler's, unless the user's profile sets something else:
//
//   - Coscheduling replaces PrioritySort, because it sorts the queue.
//   - DefaultPreemption is our own plugin of that name. In PostFilter it comes after Coscheduling, so that the reason
//     for a gang's refusal comes before preemption. It considers all nodes.
//   - Every node is scored.
//   - PodTopologySpread has no constraints of its own, so that ordinary pods can be signed.
//   - DynamicResources has no timeout by the wall clock. Its PostFilter, which takes a random claim from a pod, does
//     not run.
//
// A profile that disables "*" at multiPoint gets only the plugins that it lists.
func setDefaults(cfg *configv1.KubeSchedulerConfiguration) {
	if cfg.PercentageOfNodesToScore == nil {
		cfg.PercentageOfNodesToScore = ptr.To(defaultPercentage)
	}
	if len(cfg.Profiles) == 0 {
		cfg.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		if profile.Plugins == nil {
			profile.Plugins = &configv1.Plugins{}
		}
		setDefaultPlugins(&profile.Plugins.MultiPoint)
		if set := &profile.Plugins.PostFilter; !lists(set.Disabled, names.DynamicResources) &&
			!lists(set.Disabled, "*") {
			set.Disabled = append(set.Disabled, configv1.Plugin{Name: names.DynamicResources})
		}
		putGangsFirst(profile.Plugins)
		setDefaultArgs(profile)
	}
}

// putGangsFirst puts Coscheduling's PostFilter before all others, unless the profile has its own order there.
func putGangsFirst(plugins *configv1.Plugins) {
	set := &plugins.PostFilter
	if complete := lists(plugins.MultiPoint.Disabled, "*"); complete ||
		!lists(plugins.MultiPoint.Enabled, coscheduling) {
		return
	}
	if len(set.Enabled) == 0 && !lists(set.Disabled, coscheduling) && !lists(set.Disabled, "*") {
		set.Enabled = append(set.Enabled, configv1.Plugin{Name: coscheduling})
	}
}

func setDefaultPlugins(set *configv1.PluginSet) {
	if lists(set.Disabled, "*") {
		return
	}
	disable := func(name string) {
		if !lists(set.Disabled, name) && !lists(set.Enabled, name) {
			set.Disabled = append(set.Disabled, configv1.Plugin{Name: name})
		}
	}
	if !lists(set.Enabled, coscheduling) {
		if lists(set.Disabled, coscheduling) {
			return // a profile without gangs keeps PrioritySort
		}
		set.Enabled = append(set.Enabled, configv1.Plugin{Name: coscheduling})
	}
	disable(names.PrioritySort)
}

func setDefaultArgs(profile *configv1.KubeSchedulerProfile) {
	spread := argsOf(profile, names.PodTopologySpread,
		func() runtime.Object { return &configv1.PodTopologySpreadArgs{} })
	if args, ok := spread.(*configv1.PodTopologySpreadArgs); ok && args.DefaultingType == "" {
		args.DefaultingType = configv1.ListDefaulting
	}
	if multi := profile.Plugins.MultiPoint; lists(multi.Enabled, names.DefaultPreemption) ||
		!lists(multi.Disabled, names.DefaultPreemption) && !lists(multi.Disabled, "*") {
		preemption := argsOf(profile, names.DefaultPreemption,
			func() runtime.Object { return &configv1.DefaultPreemptionArgs{} })
		if args, ok := preemption.(*configv1.DefaultPreemptionArgs); ok && args.MinCandidateNodesPercentage == nil {
			args.MinCandidateNodesPercentage = ptr.To(defaultPercentage)
		}
	}
	dra := argsOf(profile, names.DynamicResources, func() runtime.Object { return &configv1.DynamicResourcesArgs{} })
	if args, ok := dra.(*configv1.DynamicResourcesArgs); ok && args.FilterTimeout == nil {
		args.FilterTimeout = &metav1.Duration{}
	}
}

// argsOf returns the plugin's arguments in the profile. It adds empty ones if there are none.
func argsOf(profile *configv1.KubeSchedulerProfile, name string, empty func() runtime.Object) runtime.Object {
	for _, c := range profile.PluginConfig {
		if c.Name == name {
			return c.Args.Object
		}
	}
	args := empty()
	args.GetObjectKind().SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind(name + "Args"))
	profile.PluginConfig = append(profile.PluginConfig, configv1.PluginConfig{
		Name: name,
		Args: runtime.RawExtension{Object: args},
	})
	return args
}

func lists(plugins []configv1.Plugin, name string) bool {
	return slices.ContainsFunc(plugins, func(p configv1.Plugin) bool { return p.Name == name })
}

// dropTypedGangArgs removes the arguments that the scheme's defaults have given to the gang plugin. They belong to
// another plugin of the same name, see ownArgs.
func dropTypedGangArgs(cfg *configv1.KubeSchedulerConfiguration) {
	for i := range cfg.Profiles {
		p := &cfg.Profiles[i]
		p.PluginConfig = slices.DeleteFunc(p.PluginConfig, func(c configv1.PluginConfig) bool {
			_, asWritten := c.Args.Object.(*runtime.Unknown)
			return c.Name == coscheduling && c.Args.Object != nil && !asWritten
		})
	}
}

// completeProfiles makes every profile of a defaulted configuration independent of later defaults. It sets the
// profile's own percentage, and disables "*" at multiPoint, where the list now has all enabled plugins. Otherwise a
// later version with other default plugins would read another configuration from an old log.
func completeProfiles(cfg *configv1.KubeSchedulerConfiguration) {
	for i := range cfg.Profiles {
		p := &cfg.Profiles[i]
		if p.PercentageOfNodesToScore == nil {
			p.PercentageOfNodesToScore = ptr.To(*cfg.PercentageOfNodesToScore)
		}
		if set := &p.Plugins.MultiPoint; !lists(set.Disabled, "*") {
			set.Disabled = append(set.Disabled, configv1.Plugin{Name: "*"})
		}
	}
}

// refuseUnreplayable returns an error for settings of in-tree plugins that let randomness or real time affect
// decisions.
func refuseUnreplayable(cfg *configv1.KubeSchedulerConfiguration) error {
	for i, profile := range cfg.Profiles {
		for _, c := range profile.PluginConfig {
			args, ok := c.Args.Object.(*configv1.DynamicResourcesArgs)
			if ok && args.FilterTimeout != nil && args.FilterTimeout.Duration != time.Duration(0) {
				return fmt.Errorf("profiles[%d].pluginConfig: %s: filterTimeout %s: "+
					"it would end a search by the clock on the wall, "+
					"which a replay could not repeat; leave it out or set it to 0s", i, c.Name,
					args.FilterTimeout.Duration)
			}
		}
	}
	return nil
}

// MissingPluginError is the error for a configuration with a plugin that the registry does not have.
type MissingPluginError struct{ Plugin string }

// Error implements error.
func (e *MissingPluginError) Error() string {
	return fmt.Sprintf("plugin %q is not compiled into this program", e.Plugin)
}

// ValidatePlugins returns an error for a plugin that the registry does not have, wherever the configuration names it,
// and for a plugin at an extension point that does not run. The error names the profile and the plugin.
func ValidatePlugins(cfg *Config, registry Registry) error {
	for i := range cfg.Profiles {
		if err := validateProfilePlugins(&cfg.Profiles[i], registry); err != nil {
			return fmt.Errorf("profile %q: %w", cfg.Profiles[i].SchedulerName, err)
		}
	}
	return nil
}

func validateProfilePlugins(profile *config.KubeSchedulerProfile, registry Registry) error {
	if profile.Plugins == nil {
		return nil
	}
	known := func(name string) error {
		if registry.Factories[name] == nil {
			return &MissingPluginError{Plugin: name}
		}
		return nil
	}
	multi := namedSet{"multiPoint", &profile.Plugins.MultiPoint}
	for _, s := range append(pluginSets(profile.Plugins), multi) {
		for _, e := range s.set.Enabled {
			if err := known(e.Name); err != nil {
				return fmt.Errorf("%s: enabled: %w", s.point, err)
			}
			if s.set == &profile.Plugins.PostFilter && e.Name == names.DynamicResources {
				return fmt.Errorf("%s: enabled: plugin %q: "+
					"its PostFilter picks by chance a claim to take from a pod, "+
					"which a replay could not repeat; remove it",
					s.point, e.Name)
			}
		}
		for _, e := range s.set.Disabled {
			if err := known(e.Name); err != nil && e.Name != "*" && !inTree(e.Name) {
				return fmt.Errorf("%s: disabled: %w", s.point, err)
			}
		}
	}
	for _, s := range unrunSets(profile.Plugins) {
		if len(s.set.Enabled) > 0 {
			return fmt.Errorf("%s: enabled: plugin %q: this extension point is not run: gangs are completed in Permit",
				s.point, s.set.Enabled[0].Name)
		}
	}
	for _, c := range profile.PluginConfig {
		if err := known(c.Name); err != nil {
			return fmt.Errorf("pluginConfig: %w", err)
		}
	}
	return nil
}

// inTree reports whether kube-scheduler has the plugin, whether or not the registry has it. A configuration may disable
// such a plugin in any case.
func inTree(name string) bool {
	switch name {
	case names.GangScheduling, names.TopologyPlacementGenerator, names.PodGroupPodsCount,
		names.DeferredPodScheduling, names.NodeDeclaredFeatures, names.DynamicResources:
		return true
	}
	return false
}
