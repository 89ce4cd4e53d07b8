package app

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/internal/termwidth"
	"github.com/rollcall-sched/rollcall/internal/termwidth/clihelp"
)

// NewCommand returns the program's root command, with all others below it. Run executes it. If the options are wrong,
// every command says so and fails.
func NewCommand(options ...Option) *cobra.Command {
	compiled, err := compile(options)
	root := &cobra.Command{
		Use:   "rollcall",
		Short: "A gang scheduler for Kubernetes that can be rewound",
		Long: `Rollcall places groups of pods all together or not at all, and writes every
input and every decision to one durable log. The log alone rebuilds the
scheduler's state, and deciding it again gives the same decisions, bit for bit.

Text on a terminal is wrapped, and tables are cut, to the terminal's width, or
to COLUMNS if that is set. Elsewhere nothing is: pipe tables to see all of them.

Exit codes: 0 done, 1 failed, 2 bad usage, 3 replay diverged, 4 log damaged, or
not what a kept checkpoint has signed, 5 replay differs only by rules that were
changed.`,
		Example: `  rollcall demo
  rollcall simulate --nodes 16x16cpu --workload jobs.swf --log jobs.db
  rollcall replay jobs.db
  rollcall explain jobs.db pod default/job-17-0`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	profileCPU(root)
	root.SetFlagErrorFunc(flagError)
	registry := compiled.registry
	root.AddCommand(newDemo(registry), newSimulate(registry), newRun(registry), newReplay(registry),
		newExplain(registry), newGet(registry), newEvents(registry), newReport(registry), newPlot(registry),
		newDiff(registry), newExport(registry), newDump(registry), newRecord(registry), newAudit(registry),
		newLog(registry), newBench(), newVersion(compiled))
	helpWithArgs(root)
	clihelp.Install(root)
	if err != nil {
		refuse(root, err)
	}
	return root
}

// commands returns cmd and everything below it.
func commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

// formats are the values of -o.
var formats = []string{"text", "json"}

// output is the -o flag of a command that prints facts.
type output struct{ format string }

func (o *output) register(cmd *cobra.Command) {
	o.format = "text"
	cmd.Flags().VarP(enumValue{&o.format, formats}, "output", "o", "how to print: text, json")
	_ = cmd.RegisterFlagCompletionFunc(
		"output",
		cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp),
	)
}

func (o *output) check() error {
	if !slices.Contains(formats, o.format) {
		return usageError{fmt.Errorf("--output is %q: want one of %q", o.format, formats)}
	}
	return nil
}

// write prints facts as JSON, or as text does, which is fitted to a terminal.
func (o *output) write(w io.Writer, facts any, text func(io.Writer) error) error {
	if o.format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(facts)
	}
	return termwidth.Fit(w, text)
}
