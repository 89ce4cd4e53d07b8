package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bench/natsservers"
)

// newServers is the command that runs NATS servers for a benchmark of a log in JetStream.
func newServers() *cobra.Command {
	var (
		count int
		dir   string
	)
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Run NATS servers with JetStream in one process, until it is ended",
		Long: `Runs NATS servers with JetStream that sync what they acknowledge (sync_interval: always), and prints a log's
name with which they are reached. They listen on this machine alone. What they store is removed at the end.`,
		Example: "  bench servers --count 3 > name &\n  rollcall bench --log \"$(cat name)\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if count != 1 && count != 3 && count != 5 {
				return fmt.Errorf("--count is %d: want 1, 3 or 5", count)
			}
			work, err := os.MkdirTemp(dir, "rollcall-nats-")
			if err != nil {
				return err
			}
			servers, err := natsservers.Start(work, count)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), servers.Name("try"))
				<-cmd.Context().Done()
				servers.Stop()
			}
			return errors.Join(err, os.RemoveAll(work))
		},
	}
	cmd.Flags().IntVar(&count, "count", 1, "how many servers: 1, 3 or 5")
	cmd.Flags().StringVar(&dir, "dir", "", "a directory on the file system that they store on; default: that for "+
		"temporary files")
	return cmd
}
