package main

import "github.com/spf13/cobra"

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure parts of Rollcall on this machine",
		Example: "  rollcall bench log --dir /var/lib/rollcall",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchLog())
	return cmd
}
