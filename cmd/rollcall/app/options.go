package app

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
)

// An Option adds to the plugins that are compiled into the program, as kube-scheduler's option of that name does:
// WithPlugin, WithPluginResources, WithLanePolicy, WithVictimPolicy.
type Option func(*additions) error

// additions are the things that options add to a program.
type additions struct {
	plugins frameworkruntime.Registry
	reads   map[string][]eventlog.OwnResource // by the plugin's name
	lanes   map[string]framework.NewLanePolicy
	victims map[string]framework.NewVictimPolicy
}

// WithPlugin adds a plugin to every command that needs the plugins of a configuration or of a log. A configuration
// enables it by its name, as any other plugin. docs/PLUGINS.md says what a plugin may do.
//
// The name must be the one that the plugin gives itself. Rollcall and kube-scheduler must not have a plugin of that
// name.
func WithPlugin(name string, factory frameworkruntime.PluginFactory) Option {
	return func(added *additions) error {
		if _, ok := added.plugins[name]; ok {
			return fmt.Errorf("plugin %q is added twice", name)
		}
		added.plugins[name] = factory
		return nil
	}
}

// WithLanePolicy adds a lane policy to every command. A configuration names it as queuePolicy of Coscheduling.
// docs/POLICIES.md says how to write one.
func WithLanePolicy(name string, factory framework.NewLanePolicy) Option {
	return func(added *additions) error {
		if slices.Contains(queuePolicies, name) {
			return fmt.Errorf("lane policy %q is added, and Rollcall has one of that name: give it another one", name)
		}
		return addPolicy(added.lanes, "lane", name, factory, factory == nil)
	}
}

// WithVictimPolicy adds a victim policy to every command. A configuration names it as victimPolicy of Coscheduling.
// docs/POLICIES.md says how to write one.
func WithVictimPolicy(name string, factory framework.NewVictimPolicy) Option {
	return func(added *additions) error {
		if name == preemption.PriorityPolicy {
			return fmt.Errorf("victim policy %q is added, and Rollcall has one of that name: give it another one", name)
		}
		return addPolicy(added.victims, "victim", name, factory, factory == nil)
	}
}

// addPolicy adds the factory of a policy.
func addPolicy[F any](to map[string]F, kind, name string, factory F, missing bool) error {
	_, twice := to[name]
	switch {
	case name == "":
		return fmt.Errorf("a %s policy is added without a name", kind)
	case missing:
		return fmt.Errorf("%s policy %q is added without a factory", kind, name)
	case twice:
		return fmt.Errorf("%s policy %q is added twice", kind, name)
	}
	to[name] = factory
	return nil
}

// WithPluginResources names the resources that a plugin reads besides the resources of scheduling, such as its own
// custom resources, and which of their fields. A configuration that enables the plugin declares them, as if they were
// in its field pluginResources. The plugin reads them by SharedInformerFactory().ForResource.
func WithPluginResources(plugin string, resources ...eventlog.OwnResource) Option {
	return func(added *additions) error {
		if _, err := eventlog.CompleteOwn(resources); err != nil {
			return fmt.Errorf("what plugin %q reads: %w", plugin, err)
		}
		if added.reads[plugin] != nil {
			return fmt.Errorf("what plugin %q reads is said twice", plugin)
		}
		added.reads[plugin] = resources
		return nil
	}
}

// compiledIn are the plugins of a program.
type compiledIn struct {
	// registry has all of them.
	registry framework.Registry
	// addedPlugins are the names of the plugins that options have added, sorted; the same for the policies.
	addedPlugins, addedLanePolicies, addedVictimPolicies []string
}

// compile returns the plugins of Rollcall and of the options.
func compile(options []Option) (compiledIn, error) {
	added := &additions{frameworkruntime.Registry{}, map[string][]eventlog.OwnResource{},
		map[string]framework.NewLanePolicy{}, map[string]framework.NewVictimPolicy{}}
	for _, option := range options {
		if err := option(added); err != nil {
			return compiledIn{}, err
		}
	}
	registry, err := plugins.With(added.plugins)
	if err != nil {
		return compiledIn{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(added.reads)) {
		if registry.Factories[name] == nil {
			return compiledIn{}, fmt.Errorf("what plugin %q reads is said, and there is no such plugin", name)
		}
	}
	registry.Reads, registry.LanePolicies, registry.VictimPolicies = added.reads, added.lanes, added.victims
	return compiledIn{registry, slices.Sorted(maps.Keys(added.plugins)), slices.Sorted(maps.Keys(added.lanes)),
		slices.Sorted(maps.Keys(added.victims))}, nil
}

// refuse makes every command fail with err, which names the fault of the program. The commands' help still works.
func refuse(root *cobra.Command, err error) {
	for _, cmd := range commands(root) {
		cmd.Args = cobra.ArbitraryArgs
		cmd.DisableFlagParsing = true
		cmd.RunE = func(*cobra.Command, []string) error {
			return fmt.Errorf("this program cannot work as it was built: %w", err)
		}
	}
}
