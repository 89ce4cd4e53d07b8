package app

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

// An Option adds to the plugins that are compiled into the program, as kube-scheduler's option of that name does. The
// registry that it is given has what earlier options have added, and none of the plugins that Rollcall has itself.
type Option func(frameworkruntime.Registry) error

// WithPlugin adds a plugin to every command that needs the plugins of a configuration or of a log. A configuration
// enables it by its name, as any other plugin. docs/PLUGINS.md says what a plugin may do.
//
// The name must be the one that the plugin gives itself, and none of those that Rollcall or kube-scheduler has.
func WithPlugin(name string, factory frameworkruntime.PluginFactory) Option {
	return func(added frameworkruntime.Registry) error {
		if _, ok := added[name]; ok {
			return fmt.Errorf("plugin %q is added twice", name)
		}
		added[name] = factory
		return nil
	}
}

// compiledIn are the plugins of a program.
type compiledIn struct {
	// registry has all of them.
	registry framework.Registry
	// added are the names of those that options have added, sorted.
	added []string
}

// compile returns the plugins of Rollcall and of the options.
func compile(options []Option) (compiledIn, error) {
	added := frameworkruntime.Registry{}
	for _, option := range options {
		if err := option(added); err != nil {
			return compiledIn{}, err
		}
	}
	registry, err := plugins.With(added)
	return compiledIn{registry, slices.Sorted(maps.Keys(added))}, err
}

// refuse has every command fail with err, which says what is wrong with the program. Their help is there all the same.
func refuse(root *cobra.Command, err error) {
	for _, cmd := range commands(root) {
		cmd.Args = cobra.ArbitraryArgs
		cmd.DisableFlagParsing = true
		cmd.RunE = func(*cobra.Command, []string) error {
			return fmt.Errorf("this program cannot work as it was built: %w", err)
		}
	}
}
