package app

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/bundles"
)

func newLogImport(registry framework.Registry) *cobra.Command {
	var dir string
	var out output
	cmd := &cobra.Command{
		Use:   "import FILE --log DIR",
		Short: "Make a log from an incident bundle",
		Long: `Makes a new log of the entries and the snapshot of a bundle (log export). The
bundle is checked from end to end before, and the log's chain and hash tree are
compared with it after: the log appears whole, or not at all. A bundle that
begins later than with entry 1 becomes a log that does: its entries keep their
numbers.`,
		Example: "  rollcall log import incident.bundle --log incident.log",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if dir == "" {
				return usageError{errors.New("--log is needed: the directory of the new log")}
			}
			p := newProgress(cmd.ErrOrStderr())
			made, err := bundles.Import(cmd.Context(), args[0], dir, reading{registry: registry}.options(p))
			p.done()
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), made, func(w io.Writer) error {
				_, err := plainf(w, "log       %s\nentries   %d to %d\nchain     %s\ntree      %s\n",
					made.Path, made.First, made.Last, made.LastHash, made.Root)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&dir, "log", "", "the new directory of the log")
	out.register(cmd)
	return cmd
}
