package app

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
)

// newLogIndex writes the index of a log that has none, or not all of it.
func newLogIndex(registry framework.Registry) *cobra.Command {
	var every uint64
	open := reading{registry: registry}
	var out output
	cmd := &cobra.Command{
		Use:   "index LOG",
		Short: "Write the index by which explain and log info read a long log fast",
		Long: `Reads the entries that no part of the log's index is of, and writes the parts
that are missing to the directory index in that of the log. A scheduler that
writes a log writes its index by itself; this is for logs from before there was
one, for those of rollcall bench, and for parts that were lost.

No command needs an index: the answers are the same without one, and take
longer. Commands that only read a log never write to its directory; what is not
indexed they read. A part that is damaged, or of another log, is told and not
used. The index can be removed at any time. It takes about 13 bytes an entry.

explain also needs the state near the entry that it is asked about. Of a log
whose snapshots are far apart --snapshot-every writes more of them. Then nobody
may be writing to the log.`,
		Example: "  rollcall log index jobs.db\n  rollcall log index jobs.db --snapshot-every 50000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			log, err := open.open(cmd, args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			done, err := log.MakeIndex(cmd.Context(), every)
			if err != nil {
				return err
			}
			log.shown.done()
			return out.write(cmd.OutOrStdout(), done, func(w io.Writer) error {
				_, err := plainf(w, "index      %s\nentries    %d to %d\n"+
					"parts      %d written, %d bytes; %d were there\nsnapshots  %d written\n", done.Dir, done.First,
					done.Last, done.Parts, done.Bytes, done.Kept, len(done.Snapshots))
				return err
			})
		},
	}
	cmd.Flags().Uint64Var(&every, "snapshot-every", 0, "also write snapshots, so that none is more than this many "+
		"entries behind the one before it; 0: none")
	open.register(cmd)
	out.register(cmd)
	return cmd
}
