package app

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/ledger"
	"github.com/rollcall-sched/rollcall/replay/perfetto"
)

// exporting is "rollcall export".
type exporting struct {
	reading
	span   ledger.Span
	format string
	out    target
}

var exportFormats = []string{"perfetto"}

func newExport(registry framework.Registry) *cobra.Command {
	x := exporting{reading: reading{registry: registry}}
	cmd := &cobra.Command{
		Use:   "export LOG|BUNDLE",
		Short: "Write a range of a log for another tool: a trace for the Perfetto viewer",
		Long: `Writes a range of a log as a trace. Open the file in https://ui.perfetto.dev or
chrome://tracing: both work in the browser alone, and send the file nowhere.

The trace has tracks for
  Cluster  preemptions, losses, evictions, reservations, epochs
  Cycles   an instant for each decision: what it decided, and who refused
  Queue    the numbers of entities that are active, in backoff, unschedulable,
           gated, in flight, and placed but not bound yet
  Gangs    a track for each gang, with a slice for each of its stages
  Nodes    for each node the pods that hold room there, with the time at Permit
           and the time of the binding; and the events of the node

Each slice and instant has the number of its entry, for "rollcall log cat
--entry" and "rollcall explain --at". The trace of a long log is large: about
1 KB for each pod. Give a range. "rollcall log export" writes a range of entries
as a bundle, which rollcall reads.`,
		Example: `  rollcall export jobs.db --out jobs.json
  rollcall export jobs.db --from 13:25 --until 14:30 --out incident.json
  rollcall export jobs.db --from -10m | gzip > last.json.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return x.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	x.format = exportFormats[0]
	f.Var(enumValue{&x.format, exportFormats}, "format", "the form of the file: perfetto")
	x.out.flag = "--out"
	f.StringVar(&x.out.path, "out", "-", "the `FILE` to write; - is the standard output")
	f.Var(&x.span.From, "from", "where the range begins: behind an `entry`, or at a time such as "+
		"2026-01-03T14:03:00Z or 14:03 (UTC), or -5m before the log's end; default: the log's beginning")
	f.Var(&x.span.To, "until", "where the range ends: an `entry` or a time; default: the log's end")
	_ = cmd.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(exportFormats, cobra.ShellCompDirectiveNoFileComp))
	x.reading.register(cmd)
	return cmd
}

func (x *exporting) run(cmd *cobra.Command, name string) error {
	if !slices.Contains(exportFormats, x.format) {
		return usageError{fmt.Errorf("--format is %q: want one of %q", x.format, exportFormats)}
	}
	defer headroom.Spend(reportGCPercent, reportMemory)()
	log, err := x.open(cmd, name)
	if err != nil {
		return err
	}
	defer log.Close()
	past := history.New(log.Source, history.Options{
		Progress: func(seq uint64) { log.shown.show("entry %d", seq) },
	})
	within, err := ledger.Resolve(cmd.Context(), past, x.span)
	if err != nil {
		return err
	}
	if err := x.out.open(); err != nil {
		return err
	}
	defer x.out.discard()
	count := &counted{}
	err = x.out.write(cmd.OutOrStdout(), func(w io.Writer) error {
		count.w = w
		err := perfetto.Write(cmd.Context(), past, perfetto.Range{
			After: within.After, Last: within.Last, Start: within.Start, End: within.End,
		}, count)
		log.shown.done()
		return err
	})
	if err == nil && x.out.path != "-" {
		_, err = plainf(cmd.OutOrStdout(),
			"wrote %s: entries %d to %d, %d bytes\nopen it in https://ui.perfetto.dev\n",
			x.out.path, within.After+1, within.Last, count.n)
	}
	return err
}

// counted counts the bytes that are written.
type counted struct {
	w io.Writer
	n int64
}

// Write writes to w.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
