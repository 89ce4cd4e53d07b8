package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// explanation is the output of the explain command: a value that has a JSON form, and a function that writes it as
// text.
type explanation struct {
	answer any
	at     answer.Point // the entry that it is about
	write  func(io.Writer) error
	// undecided is the answer's Undecided, "" if it has none.
	undecided string
}

// explainer answers for one kind of thing.
type explainer func(cmd *cobra.Command, log *history.Log, namespace, name string, opts explain.Options,
) (explanation, error)

const explainHelp = `Rebuilds the scheduler's state just before the decision in question from the
log, and runs that one cycle again with a trace.

For a pending pod: which plugins refused how many nodes, and what holds the
resources that it needs. For a placed pod: the winning node's score by plugin
and the runners-up. For a gang: why it is pending, and its whole history: when
it was complete, each attempt and why it failed, what passed it, when it was
placed or fell below its minimum. For a CompositePodGroup, which is asked for as
a gang: which of its gangs have their minimum, and what each lacks. --at asks
for an earlier point: what was known then.

For a node: its status and its changes, and of each time it was down or cordoned
the pods that were on it, what became of each, and what came in its place. For
an eviction of a pod: by whom, by which rule, and which other pods might have
been evicted: the decision is made again on the state before it. Without a name:
what is wrong, the most important first, each with the command that tells more.

--trace adds, for a pod, all that its cycle showed: what each plugin answered,
which plugins were skipped, which one refused each node, and each feasible
node's raw, normalized and weighted scores. It shows the last cycle in the log,
and where the pod's gang was stopped at another member, the cycle of that one
too.

With -o json, a pending pod or gang has a "reason" with a code: docs/GANGS.md
has the table.

Of a dump ("rollcall dump --help") the answer is of one instant: what waits is
tried there, and nothing is claimed about decisions of others. Of a pod that
others have bound, a recording or an audit log tells whose the bind is, and how
good the node was on the state just before: feasible or not, its rank and its
points, and the node that Rollcall would have chosen. --config names the
configuration of the cluster's scheduler.

Of a log with an index only the entries are read that the answer needs: damage
in the midst of the log is not found then. "rollcall log verify" finds it.

The state is rebuilt from the newest snapshot that is old enough, or from the
first entry. If a log's first entries were archived and are not there, and in a
bundle, the answer rests on the first snapshot and says from which entry on the
history is known.`

func newExplain(registry framework.Registry) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain LOG|BUNDLE|DUMP [pod|gang|node|eviction NAME]",
		Short: "Explain a pod, a gang, a node or an eviction, or say what is wrong",
		Long:  explainHelp,
		Example: `  rollcall explain jobs.db pod default/job-17-0
  rollcall explain jobs.db gang default/job-17 --at 14:03
  rollcall explain jobs.db pod default/job-17-0 --at 4711 -o json
  rollcall explain jobs.db pod default/job-17-0 --trace --nodes node-3,node-9
  rollcall explain jobs.db node gpu-7
  kubectl get nodes,pods -A -o json | rollcall explain - pod ml/train-0
  rollcall explain jobs.db eviction default/job-17-0
  rollcall explain jobs.db --at 14:03`,
	}
	var out output
	from := reading{registry: registry}
	var at history.Moment
	var runnersUp int
	var trace tracing
	kinds := map[string]explainer{"pod": trace.explainPod, "group": explainGroup, "node": explainNode,
		"eviction": explainEviction, "": explainOverview}
	cmd.Args = explainArgs
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return []string{"pod", "gang", "node", "eviction"}, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		kind := ""
		if len(args) > 1 {
			kind = strings.ToLower(args[1])
		}
		if kind == "gang" {
			kind = "group"
		}
		answerFor, ok := kinds[kind]
		if !ok {
			return usageError{fmt.Errorf("explain %q: want pod, gang, node or eviction; for example: %s", args[1],
				firstExample(cmd))}
		}
		opts := explain.Options{}
		if err := setRunnersUp(runnersUp, &opts); err != nil {
			return err
		}
		if err := trace.check(kind, &out); err != nil {
			return err
		}
		opts.Trace = trace.on
		return explainOne(cmd, answerFor, from, at, args, opts, &out)
	}
	out.register(cmd)
	from.register(cmd)
	from.registerConfig(cmd)
	cmd.Flags().Var(&at, "at", "the point in question: an `entry`'s number, a time such as 2026-01-03T14:03:00Z, "+
		"\"2026-01-03 14:03\" or 14:03 (UTC), or -5m for five minutes before the log's end; default: the log's end")
	cmd.Flags().IntVar(
		&runnersUp,
		"runners-up",
		5,
		fmt.Sprintf("how many of the next best nodes to show, from 0 to %d", maxRunnersUp),
	)
	trace.register(cmd)
	return cmd
}

// tracing selects what the explanation of a pod shows of its cycles.
type tracing struct {
	on    bool
	nodes render.TracedNodes
}

func (t *tracing) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&t.on, "trace", false, "of a pod: show all that its cycle showed, as kube-scheduler logs it with -v=10: "+
		"what each plugin answered, which one refused each node, and each feasible node's scores")
	f.BoolVar(&t.nodes.All, "all-nodes", false, "with --trace: show every node, and not the first ones")
	f.StringSliceVar(&t.nodes.Names, "nodes", nil, "with --trace: show the nodes of these `NAME`s only, with commas "+
		"between them")
}

// check refuses flags that would have no effect.
func (t *tracing) check(kind string, out *output) error {
	chosen := t.nodes.All || len(t.nodes.Names) > 0
	switch {
	case t.on && kind != "pod" && kind != "group":
		return usageError{errors.New("--trace is for a pod: explain LOG pod NAMESPACE/NAME --trace")}
	case t.on && kind != "pod":
		return usageError{fmt.Errorf("--trace is for a pod: a %s has a cycle for each of its pods", kind)}
	case t.nodes.All && len(t.nodes.Names) > 0:
		return usageError{errors.New("--all-nodes and --nodes: only one of them can be given")}
	case chosen && !t.on:
		return usageError{errors.New("--all-nodes and --nodes choose what --trace shows: add --trace")}
	case chosen && out.format == "json":
		return usageError{errors.New("--all-nodes and --nodes are for text: -o json has all nodes")}
	}
	return nil
}

func (t *tracing) explainPod(
	cmd *cobra.Command,
	log *history.Log,
	namespace, name string,
	opts explain.Options,
) (explanation, error) {
	x, err := explain.Pod(cmd.Context(), log, namespace, name, opts)
	if err != nil {
		return explanation{}, err
	}
	return explanation{x, x.At, func(w io.Writer) error {
		if err := render.Pod(w, x); err != nil || !t.on {
			return err
		}
		return render.Trace(w, x, t.nodes)
	}, x.Undecided}, nil
}

// explainGroup answers for a gang, or for a CompositePodGroup if the name belongs to one.
func explainGroup(
	cmd *cobra.Command,
	log *history.Log,
	namespace, name string,
	opts explain.Options,
) (explanation, error) {
	x, err := explain.Group(cmd.Context(), log, namespace, name, opts)
	var missing *explain.NotFoundError
	if errors.As(err, &missing) && missing.Composite {
		x, err := explain.Composite(cmd.Context(), log, namespace, name, opts)
		if err != nil {
			return explanation{}, err
		}
		return explanation{x, x.At, func(w io.Writer) error { return render.Composite(w, x) }, ""}, nil
	}
	if err != nil {
		return explanation{}, err
	}
	return explanation{x, x.At, func(w io.Writer) error { return render.Group(w, x) }, x.Undecided}, nil
}

// maxRunnersUp is the largest number of next best nodes that a user can ask for.
const maxRunnersUp = 1000

func setRunnersUp(n int, opts *explain.Options) error {
	switch {
	case n < 0 || n > maxRunnersUp:
		return usageError{fmt.Errorf("--runners-up is %d: want a number from 0 to %d", n, maxRunnersUp)}
	case n == 0:
		n = -1 // 0 would mean the default
	}
	opts.RunnersUp = n
	return nil
}

// explainGCPercent is the percentage that the memory in use may grow before garbage is collected. Above explainMemory
// bytes it is collected more often.
const (
	explainGCPercent = 400
	explainMemory    = 850 << 20
)

func explainOne(
	cmd *cobra.Command,
	answerFor explainer,
	from reading,
	at history.Moment,
	args []string,
	opts explain.Options,
	out *output,
) error {
	namespace, name, err := targetOf(args)
	if err != nil {
		return err
	}
	// States are made that live as long as the answer takes: collecting garbage less often is a fifth of the time.
	defer headroom.Spend(explainGCPercent, explainMemory)()
	log, err := from.open(cmd, args[0])
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
	past := log.past(history.Options{
		Progress:  func(seq uint64) { log.shown.show("entry %d", seq) },
		Undecided: log.undecided(),
	})
	if log.Dumped != nil {
		opts.Placing = log.placing
	}
	opts.Configuration = from.config
	x, err := answerFor(cmd, past, namespace, name, opts)
	log.shown.done()
	if err != nil {
		return err
	}
	if opts.AtTime != 0 {
		log.ReportMoment(&at, opts.AtTime, eventlog.Entry{Seq: x.at.Seq, Time: eventlog.Time(x.at.Time)})
	}
	return out.write(cmd.OutOrStdout(), x.answer, func(w io.Writer) error {
		sentence := cmp.Or(x.undecided, log.undecided())
		if err := x.write(w); err != nil || sentence == "" {
			return err
		}
		_, err := plainf(w, "\n%s\n", sentence)
		return err
	})
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
