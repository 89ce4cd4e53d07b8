package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
)

// explanation is what the explain command prints: a value that has a JSON form, and how it is written for people.
type explanation struct {
	answer any
	at     answer.Point // the entry that it is about
	write  func(io.Writer) error
}

// explainer answers for one kind of thing.
type explainer func(
	cmd *cobra.Command, log *logs.Source, namespace, name string, opts explain.Options,
) (explanation, error)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain LOG|BUNDLE pod|group NAMESPACE/NAME",
		Short: "Explain why a pod or a gang was placed where it is, or why it was not",
		Long: `Rebuilds the scheduler's state just before the decision in question from the log, and runs that one cycle again with
a trace.

For a pending pod: which plugins refused how many nodes, and what holds the resources that it needs. For a placed pod:
the winning node's score by plugin and the runners-up. For a gang: why it is pending, and its whole history: when it was
complete, each attempt and why it failed, what passed it, when it was placed or fell below its minimum. For a
CompositePodGroup, which is asked for as a group: which of its gangs have their minimum, and what each lacks. --at asks
for an earlier point: what was known then.

With -o json, a pending pod or gang has a "reason" with a code: docs/GANGS.md has the table.

The state is rebuilt from the newest snapshot that is old enough, or from the first entry. If a log's first entries were
archived and are not there, and in a bundle, the answer rests on the first snapshot and says from which entry on the
history is known.`,
		Example: `  rollcall explain jobs.db pod default/job-17-0
  rollcall explain jobs.db group default/job-17 --at 14:03
  rollcall explain jobs.db pod default/job-17-0 --at 4711 -o json`,
	}
	var out output
	var from reading
	var at logs.Moment
	var runnersUp int
	kinds := map[string]explainer{"pod": explainPod, "group": explainGroup}
	cmd.Args = cobra.ExactArgs(3)
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return []string{"pod", "group"}, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		answerFor, ok := kinds[strings.ToLower(args[1])]
		if !ok {
			return usageError{fmt.Errorf("explain %q: want pod or group; for example: %s", args[1], firstExample(cmd))}
		}
		opts := explain.Options{Registry: plugins.NewRegistry()}
		if err := setRunnersUp(runnersUp, &opts); err != nil {
			return err
		}
		return explainOne(cmd, answerFor, from, at, args, opts, &out)
	}
	out.register(cmd)
	from.register(cmd)
	cmd.Flags().Var(&at, "at", "the point in question: an `entry`'s number, a time such as 2026-01-03T14:03:00Z, "+
		"\"2026-01-03 14:03\" or 14:03 (UTC), or -5m for five minutes before the log's end; default: the log's end")
	cmd.Flags().IntVar(
		&runnersUp,
		"runners-up",
		5,
		fmt.Sprintf("how many of the next best nodes to show, from 0 to %d", maxRunnersUp),
	)
	return cmd
}

func explainPod(
	cmd *cobra.Command,
	log *logs.Source,
	namespace, name string,
	opts explain.Options,
) (explanation, error) {
	x, err := explain.Pod(cmd.Context(), log.Read, namespace, name, opts)
	if err != nil {
		return explanation{}, err
	}
	return explanation{x, x.At, func(w io.Writer) error { return render.Pod(w, x) }}, nil
}

// explainGroup answers for a gang, or for a CompositePodGroup if that is what has the name.
func explainGroup(
	cmd *cobra.Command,
	log *logs.Source,
	namespace, name string,
	opts explain.Options,
) (explanation, error) {
	x, err := explain.Group(cmd.Context(), log.Read, namespace, name, opts)
	var missing *explain.NotFoundError
	if errors.As(err, &missing) && missing.Composite {
		x, err := explain.Composite(cmd.Context(), log.Read, namespace, name, opts)
		if err != nil {
			return explanation{}, err
		}
		return explanation{x, x.At, func(w io.Writer) error { return render.Composite(w, x) }}, nil
	}
	if err != nil {
		return explanation{}, err
	}
	return explanation{x, x.At, func(w io.Writer) error { return render.Group(w, x) }}, nil
}

// maxRunnersUp is how many of the next best nodes can be asked for.
const maxRunnersUp = 1000

func setRunnersUp(n int, opts *explain.Options) error {
	switch {
	case n < 0 || n > maxRunnersUp:
		return usageError{fmt.Errorf("--runners-up is %d: want a number from 0 to %d", n, maxRunnersUp)}
	case n == 0:
		n = -1 // 0 would stand for the default
	}
	opts.RunnersUp = n
	return nil
}

func explainOne(
	cmd *cobra.Command,
	answerFor explainer,
	from reading,
	at logs.Moment,
	args []string,
	opts explain.Options,
	out *output,
) error {
	namespace, name, err := parseTarget(args[2])
	if err != nil {
		return err
	}
	log, err := from.open(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	defer log.Close()
	if opts.AtSeq, opts.AtTime, err = at.In(cmd.Context(), log.Source); err != nil {
		return err
	}
	if err := log.MustHave(opts.AtSeq); err != nil {
		return err
	}
	if opts.Base, err = log.Base(); err != nil {
		return err
	}
	opts.Restore = log.Restore
	opts.Progress = func(seq uint64) { log.shown.show("entry %d", seq) }
	x, err := answerFor(cmd, log.Source, namespace, name, opts)
	log.shown.done()
	if err != nil {
		return err
	}
	if opts.AtTime != 0 {
		log.ReportMoment(&at, opts.AtTime, eventlog.Entry{Seq: x.at.Seq, Time: eventlog.Time(x.at.Time)})
	}
	return out.write(cmd.OutOrStdout(), x.answer, x.write)
}

// parseTarget splits namespace/name; a name alone is in the namespace default.
func parseTarget(s string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok {
		namespace, name = "default", s
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", usageError{fmt.Errorf("%q: want namespace/name", s)}
	}
	return namespace, name, nil
}
