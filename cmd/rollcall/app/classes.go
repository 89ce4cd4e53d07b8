package app

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
)

// classes is the value of --classes: whether pods that are alike share the results that their filters and scores have
// for the nodes. It changes how long deciding takes, and nothing else.
type classes string

// classesValues are the values that it can have.
var classesValues = []string{"on", "off"}

func (c *classes) register(cmd *cobra.Command) {
	*c = "on"
	cmd.Flags().Var(enumValue{(*string)(c), classesValues}, "classes",
		"whether pods that are alike share what is known of the nodes: on, off; the same is decided, with off it "+
			"takes longer")
	_ = cmd.RegisterFlagCompletionFunc("classes",
		cobra.FixedCompletions(classesValues, cobra.ShellCompDirectiveNoFileComp))
}

func (c classes) check() error {
	if !slices.Contains(classesValues, string(c)) {
		return usageError{fmt.Errorf("--classes is %q: want on or off", string(c))}
	}
	return nil
}

// in returns the plugins for a scheduler that keeps classes or none.
func (c classes) in(registry framework.Registry) framework.Registry {
	registry.NoClasses = c == "off"
	return registry
}
