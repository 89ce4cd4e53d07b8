package app

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/listing"
)

const getHelp = `Lists what a log has at a point, in the style of kubectl get:

  pending  the gangs and pods that wait for nodes: since when, the reason code
           of "rollcall explain", the pods that need nodes with what each
           requests, the place in the order of turns, and, of one that is
           active, how many have their turn before it
  queue    the queue in the order of turns, with what each entity waits for
  gangs    minimum, members (ready, held on nodes, placed, ended well), phase
           and reason
  nodes    status and since when, pods, free and held room, and room kept for
           others
  pods     stage, node, gang

A name alone is looked for in all namespaces, or in the one of --namespace.
"pending" also finds the gang of a pod.

The reason holds at the point. For an entity whose last attempt failed, an
attempt is made there on a copy of the state. FitsNow means that it would
find nodes then. "explain LOG gang NAME" says how the last attempt failed.`

// getting is "rollcall get".
type getting struct {
	reading
	at     history.Moment
	opts   listing.Options
	format string
}

// listFormats are the values of -o.
var listFormats = []string{"text", "wide", "json", "csv"}

func newGet(registry framework.Registry) *cobra.Command {
	g := getting{reading: reading{registry: registry}, format: "text"}
	cmd := &cobra.Command{
		Use:   "get LOG|BUNDLE|DUMP pending|queue|gangs|nodes|pods [NAME...]",
		Short: "List what was pending, the queue, gangs, nodes or pods at a point of a log",
		Long:  getHelp,
		Example: `  rollcall get jobs.db pending --at 14:00
  rollcall get jobs.db queue -o wide
  rollcall get jobs.db gangs -n ml
  rollcall get jobs.db nodes node-7 node-8 -o json`,
		Args: cobra.MinimumNArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return listing.Kinds(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error { return g.run(cmd, args) },
	}
	f := cmd.Flags()
	f.VarP(enumValue{&g.format, listFormats}, "output", "o", "how to print: text, wide (all columns), json, csv")
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(listFormats, cobra.ShellCompDirectiveNoFileComp))
	f.StringVarP(&g.opts.Namespace, "namespace", "n", "", "list the objects of this `namespace` only")
	f.Var(&g.at, "at", "the point in question: an `entry`'s number, a time such as 2026-01-03T14:03:00Z, "+
		"\"2026-01-03 14:03\" or 14:03 (UTC), or -5m for five minutes before the log's end; default: the log's end")
	g.reading.register(cmd)
	g.reading.registerConfig(cmd)
	return cmd
}

func (g *getting) run(cmd *cobra.Command, args []string) error {
	if !slices.Contains(listFormats, g.format) {
		return usageError{fmt.Errorf("--output is %q: want one of %q", g.format, listFormats)}
	}
	kind := args[1]
	if err := listing.Check(kind); err != nil {
		return usageError{fmt.Errorf("%w; for example: %s", err, firstExample(cmd))}
	}
	g.opts.Names = args[2:]
	defer headroom.Spend(explainGCPercent, explainMemory)()
	log, err := g.open(cmd, args[0])
	if err != nil {
		return err
	}
	defer log.Close()
	if g.opts.At.Seq, g.opts.At.Time, err = g.at.In(cmd.Context(), log.Source); err != nil {
		return err
	}
	if err := log.MustHave(g.opts.At.Seq); err != nil {
		return err
	}
	past := log.past(history.Options{
		Progress:  func(seq uint64) { log.shown.show("entry %d", seq) },
		Undecided: log.undecided(),
	})
	list, err := listing.Get(cmd.Context(), past, kind, g.opts)
	log.shown.done()
	if err != nil {
		return err
	}
	if g.opts.At.Time != 0 {
		log.ReportMoment(&g.at, g.opts.At.Time, eventlog.Entry{Seq: list.At.Seq, Time: eventlog.Time(list.At.Time)})
	}
	return g.write(cmd.OutOrStdout(), list)
}

func (g *getting) write(w io.Writer, list *listing.List) error {
	if g.format == "csv" {
		return list.WriteCSV(w)
	}
	out := output{format: g.format}
	return out.write(w, list, func(w io.Writer) error { return list.WriteText(w, g.format == "wide") })
}
