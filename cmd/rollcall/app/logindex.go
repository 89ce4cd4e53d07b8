package app

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
)

// newLogIndex writes the index of a log that has none, or not all of it.
func newLogIndex(registry framework.Registry) *cobra.Command {
	var how logs.Indexing
	open := reading{registry: registry}
	var out output
	cmd := &cobra.Command{
		Use:   "index LOG",
		Short: "Write the index by which explain and log info read a long log fast",
		Long: `Reads the entries that no part of the log's index is of, and writes the parts
that are missing to the directory index in that of the log. A scheduler that
writes a log writes its index by itself; this is for logs from before there was
one, for those of rollcall bench, and for parts that were lost.

A part that is damaged, or of another log, is replaced, and so is one whose
entries are in another part too; the output names each. That is seen without
reading the entries. A part can also be whole, end with the right entry, and not
agree with the entries, such as a forged one. With --check all entries are read,
each part is compared with them, and a wrong one is replaced. That takes as long
as making the whole index. So it is not done always: a second run ends at once,
and rollcall log verify compares the parts too, while it checks the entries.

No command needs an index: the answers are the same without one, and take
longer. Commands that only read a log never write to its directory; what is not
indexed they read. A part that is damaged, or of another log, is told and not
used. The index can be removed at any time. It takes about 13 bytes an entry.

explain also needs the state near the entry that it is asked about. Of a log
whose snapshots are far apart --snapshot-every writes more of them. Then nobody
may be writing to the log.`,
		Example: "  rollcall log index jobs.db\n  rollcall log index jobs.db --check\n" +
			"  rollcall log index jobs.db --snapshot-every 50000",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			log, err := open.open(cmd, args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			done, err := log.MakeIndex(cmd.Context(), how)
			if err != nil {
				return err
			}
			log.shown.done()
			return out.write(cmd.OutOrStdout(), done, func(w io.Writer) error {
				for _, p := range done.Removed {
					plainf(w, "replaced   the part of entries %d to %d: %s\n", p.First, p.Last, p.Reason)
				}
				_, err := plainf(w, "index      %s\nentries    %d to %d\n"+
					"parts      %d written, %d bytes; %d were there\nsnapshots  %d written\n", done.Dir, done.First,
					done.Last, done.Parts, done.Bytes, done.Kept, len(done.Snapshots))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&how.Check, "check", false,
		"read all entries, and replace the parts that do not agree with them")
	cmd.Flags().Uint64Var(&how.SnapshotEvery, "snapshot-every", 0,
		"also write snapshots, so that none is more than this many entries behind the one before it; 0: none")
	open.register(cmd)
	out.register(cmd)
	return cmd
}
