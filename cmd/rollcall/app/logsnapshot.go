package app

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// newLogSnapshot writes a snapshot of a log that has none where one is needed.
func newLogSnapshot(registry framework.Registry) *cobra.Command {
	var at history.Moment
	open := reading{registry: registry}
	var out output
	cmd := &cobra.Command{
		Use:   "snapshot LOG [--at SEQ]",
		Short: "Write a snapshot of the state after an entry beside a log",
		Long: `Reads the log from the newest snapshot before the entry on, or from its first
entry, and writes the state after that entry to the log's directory, or to the
bucket beside the log's stream. No command needs a snapshot: it saves reading,
and allows the entries before it to be archived. A scheduler that writes a log
writes snapshots by itself. A log in a stream of NATS JetStream may have a
writer meanwhile.`,
		Example: "  rollcall log snapshot jobs.db --at 2000000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			taken, err := takeSnapshot(cmd, open, args[0], at)
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), taken, func(w io.Writer) error {
				_, err := plainf(w, "snapshot  %s, %d bytes\nentry     %d\nstate     %s\n",
					taken.Path, taken.Bytes, taken.Seq, taken.Hash)
				return err
			})
		},
	}
	cmd.Flags().Var(&at, "at", "the `entry`, or a time, which is the last entry not after it; default: the log's last")
	open.register(cmd)
	out.register(cmd)
	return cmd
}

func takeSnapshot(cmd *cobra.Command, open reading, name string, asked history.Moment) (*logs.Taken, error) {
	log, err := open.open(cmd, name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	at, err := log.EntryAt(cmd.Context(), &asked)
	if err != nil {
		return nil, err
	}
	return log.TakeSnapshot(cmd.Context(), at)
}
