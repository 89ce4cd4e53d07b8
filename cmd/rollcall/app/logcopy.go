package app

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
)

func newLogCopy(registry framework.Registry) *cobra.Command {
	open := reading{registry: registry}
	var upTo uint64
	var out output
	cmd := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy a log to another place, with its chain whole",
		Long: `Copies the entries of a log, or of a bundle that begins with entry 1, to a new
log: a directory, or a stream of NATS JetStream (nats://HOST/STREAM). The
records are the same, byte for byte, and so are their numbers, their chain of
hashes and their hash tree, which are compared at the end. Snapshots are not
copied: rollcall log snapshot makes one of the copy.

If TO has the first entries of FROM already, such as after a copy that was
interrupted, the rest is appended. If it has any others, nothing is.`,
		Example: `  rollcall log copy /var/lib/rollcall/log \
    "nats://nats-0:4222,nats-1:4222,nats-2:4222/jobs?creds=rollcall.creds"
  rollcall log copy nats://localhost:4222/jobs jobs.log`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr())
			made, err := open.options(p).Copy(cmd.Context(), args[0], args[1], upTo,
				logs.KeepOptions{Version: version().String(), Report: p.note})
			p.done()
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), made, func(w io.Writer) error {
				_, err := plainf(w, "log       %s\nentries   %d, %d of them new\nchain     %s\ntree      "+
					"%s\n", made.To, made.Entries, made.Added, made.Hash, made.Root)
				return err
			})
		},
	}
	cmd.Flags().Uint64Var(&upTo, "up-to", 0, "the last `entry` to copy; default: the log's last")
	open.register(cmd)
	out.register(cmd)
	return cmd
}
