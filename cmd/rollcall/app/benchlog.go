package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bench/lograte"
	"github.com/rollcall-sched/rollcall/logs"
)

func newBenchLog() *cobra.Command {
	var out output
	var opts lograte.Options
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Measure how fast entries become durable, compared with the disk",
		Long: `Appends batches of entries of 300 bytes to a new log, and the same bytes to a
plain file with a sync after each batch. The file shows the best that the file
system can do. The two take turns, so that other work of the machine slows both.
Then the log is read, from the page cache and with every check. At the end the
command removes what it has written.

With --log nats://HOST/STREAM the logs are in NATS JetStream, in streams whose
names begin with STREAM-bench, and the same bytes are published to a stream as
plain messages.`,
		Example: "  rollcall bench log --dir /var/lib/rollcall\n  rollcall bench log --log nats://nats-0:4222/try\n" +
			"  rollcall bench log -o json | jq '.batches[].ratio'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if opts.Rounds < 1 {
				return usageError{fmt.Errorf("--rounds is %d: want at least 1", opts.Rounds)}
			}
			if opts.Each <= 0 {
				return usageError{fmt.Errorf("--time is %s: want more than none", opts.Each)}
			}
			if opts.Log != "" && !logs.InStream(opts.Log) {
				return usageError{fmt.Errorf("--log is %s: want nats://HOST/STREAM, or --dir for a directory",
					logs.Shown(opts.Log))}
			}
			if opts.Log != "" && cmd.Flags().Changed("dir") {
				return usageError{errors.New("--dir is for a directory, --log for NATS JetStream: give one of them")}
			}
			p := newProgress(cmd.ErrOrStderr())
			opts.Version = version().Version
			opts.Progress = func(doing string) { p.show("%s", doing) }
			result, err := lograte.Run(cmd.Context(), opts)
			p.done()
			if err != nil {
				return fmt.Errorf("bench log: %w", err)
			}
			return out.write(cmd.OutOrStdout(), result, result.WriteText)
		},
	}
	cmd.Flags().StringVar(&opts.Dir, "dir", ".", "a directory on the file system to measure")
	cmd.Flags().StringVar(&opts.Log, "log", "", "the servers to measure, as nats://HOST/STREAM")
	cmd.Flags().IntVar(&opts.Rounds, "rounds", 7, "how often the log and the file take turns")
	cmd.Flags().DurationVar(&opts.Each, "time", 300*time.Millisecond, "how long each of them appends in one round")
	out.register(cmd)
	return cmd
}
