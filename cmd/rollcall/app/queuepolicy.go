package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
)

// queuePolicy is the value of --queue-policy: it names the policy that says who may pass a gang that does not fit. The
// name "" leaves it to the configuration.
type queuePolicy struct {
	name string
	// known are the policies of this program: Rollcall's own, then the ones that options have added.
	known []string
}

// queuePolicies are the policies of Rollcall.
var queuePolicies = []string{"BestEffort", "StrictFIFO", "Backfill"}

// queuePolicyArg is the argument of the plugin Coscheduling that the flag sets.
const queuePolicyArg = "queuePolicy"

func (q *queuePolicy) register(cmd *cobra.Command, registry framework.Registry) {
	q.known = append(slices.Clone(queuePolicies), slices.Sorted(maps.Keys(registry.LanePolicies))...)
	cmd.Flags().Var(enumValue{&q.name, q.known}, "queue-policy",
		"who may pass a gang that does not fit: all (BestEffort, the default), nobody (StrictFIFO), or whoever does "+
			"not delay it (Backfill); sets "+
			queuePolicyArg+" of Coscheduling in every profile")
	_ = cmd.RegisterFlagCompletionFunc("queue-policy",
		cobra.FixedCompletions(q.known, cobra.ShellCompDirectiveNoFileComp))
}

func (q queuePolicy) check() error {
	if q.name != "" && !slices.Contains(q.known, q.name) {
		return usageError{fmt.Errorf("--queue-policy is %q: want one of %q", q.name, q.known)}
	}
	return nil
}

// into sets the policy in every profile of a configuration, which came from the file at path if that is not "".
func (q queuePolicy) into(cfg *config.KubeSchedulerConfiguration, path string) error {
	if q.name == "" {
		return nil
	}
	for i := range cfg.Profiles {
		if err := q.intoProfile(&cfg.Profiles[i]); err != nil {
			return usageError{
				fmt.Errorf("--queue-policy %s: profile %q of %s %w", q.name, cfg.Profiles[i].SchedulerName, path, err)}
		}
	}
	return nil
}

// intoProfile sets the policy in a profile. The text of an error continues a sentence that begins with the profile's
// name.
func (q queuePolicy) intoProfile(p *config.KubeSchedulerProfile) error {
	if !runsCoscheduling(p) {
		return fmt.Errorf("does not run the plugin %s, which has queue policies", coscheduling.Name)
	}
	for i := range p.PluginConfig {
		if c := &p.PluginConfig[i]; c.Name == coscheduling.Name {
			args, err := q.intoArgs(c.Args)
			c.Args = args
			return err
		}
	}
	args, err := q.intoArgs(nil)
	p.PluginConfig = append(p.PluginConfig, config.PluginConfig{Name: coscheduling.Name, Args: args})
	return err
}

func runsCoscheduling(p *config.KubeSchedulerProfile) bool {
	if p.Plugins == nil {
		return false
	}
	return slices.ContainsFunc(slices.Concat(p.Plugins.MultiPoint.Enabled, p.Plugins.QueueSort.Enabled),
		func(e config.Plugin) bool {
			return e.Name == coscheduling.Name
		})
}

// intoArgs returns Coscheduling's arguments, which a configuration holds as they were written, with the policy among
// them.
func (q queuePolicy) intoArgs(given runtime.Object) (runtime.Object, error) {
	fields := map[string]any{}
	if raw, ok := given.(*runtime.Unknown); ok {
		if err := json.Unmarshal(raw.Raw, &fields); err != nil {
			return given, fmt.Errorf("has arguments of %s that cannot be read: %w", coscheduling.Name, err)
		}
	}
	if other, set := fields[queuePolicyArg]; set && other != q.name {
		return given, fmt.Errorf("says %s %v: leave one of them out", queuePolicyArg, other)
	}
	fields[queuePolicyArg] = q.name
	raw, err := json.Marshal(fields)
	if err != nil {
		return given, err
	}
	return &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}, nil
}
