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
		Long: `Reads the entries that the log's index does not cover yet, and writes the
missing parts of the index to the directory index in the log's directory. A
scheduler that writes a log also writes its index. This command is for logs that
have none, for those of rollcall bench, and for parts that were lost.

A part is replaced if it is damaged, if it is of another log, or if another part
has its entries too. The output names each. To find these, the command reads no
entries. A part may also be whole, end with the right entry, and not agree with
the entries, such as a forged one. With --check the command reads all entries,
compares each part with them, and replaces the wrong ones. That takes as long as
writing the whole index. Without --check a second run ends at once. rollcall log
verify compares the parts too.

No command needs an index: the answers are the same without one, but take
longer. Commands that only read a log never write to its directory. They read
the entries that the index does not cover. They report a part that is damaged or
of another log, and do not use it. You can remove the index at any time. It
takes about 13 bytes an entry.

explain also needs the state near the entry that it is asked about. If the
snapshots of a log are far apart, --snapshot-every writes more of them. Then
nobody may be writing to the log.`,
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
		"also write snapshots, at least one in this many entries; 0: none")
	open.register(cmd)
	out.register(cmd)
	return cmd
}
