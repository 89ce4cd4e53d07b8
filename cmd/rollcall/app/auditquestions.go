package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/bundles"
	"github.com/rollcall-sched/rollcall/replay/entities"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/loops"
	"github.com/rollcall-sched/rollcall/replay/victims"
)

// The errors of audits that have already reported their findings.
var (
	errVictims = errors.New("the log has preemptions against its rules: each VIOLATION above names one")
	errCircles = errors.New("the log has circles of preemptions: give their pods and gangs priorities that differ, " +
		"or change the victim policy")
)

// filterFlags are the flags that select entities.
type filterFlags struct{ gang, namespace, priority string }

func (f *filterFlags) register(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.gang, "gang", "", "only "+what+" this gang, `NAMESPACE/NAME`")
	cmd.Flags().StringVar(&f.namespace, "namespace", "", "only "+what+" pods and gangs of this namespace")
	cmd.Flags().StringVar(&f.priority, "priority", "", "only "+what+" pods and gangs of this `priority`, a number")
}

func (f *filterFlags) filter() (out entities.Filter, err error) {
	out = entities.Filter{Gang: f.gang, Namespace: f.namespace}
	if f.gang != "" && strings.Count(f.gang, "/") != 1 {
		return out, usageError{fmt.Errorf("--gang is %q: want NAMESPACE/NAME, such as default/train", f.gang)}
	}
	if f.priority == "" {
		return out, nil
	}
	n, err := strconv.ParseInt(f.priority, 10, 32)
	if err != nil {
		return out, usageError{fmt.Errorf("--priority is %q: want a number from %d to %d", f.priority, math.MinInt32,
			math.MaxInt32)}
	}
	priority := int32(n)
	out.Priority = &priority
	return out, nil
}

// rangeAudit is an audit of a range of a log.
type rangeAudit struct {
	reading
	from, until history.Moment
	out         output
}

func (a *rangeAudit) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&a.from, "from", "the first `entry` to audit, or a time such as 2026-01-03T14:03:00Z or 14:03; "+
		"default: the first there is")
	f.Var(&a.until, "until", "the last `entry` to audit, or a time; default: the log's last")
	a.reading.register(cmd)
	a.out.register(cmd)
}

// over opens the log and calls do with its range.
func (a *rangeAudit) over(
	cmd *cobra.Command, name string, do func(ctx context.Context, log *history.Log, first, last uint64) error,
) error {
	if err := a.out.check(); err != nil {
		return err
	}
	log, err := a.open(cmd, name)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx := cmd.Context()
	a.from.Begins(&a.until)
	from, err := placeIn(ctx, log.Source, a.from)
	if err != nil {
		return err
	}
	until, err := placeIn(ctx, log.Source, a.until)
	if err != nil {
		return err
	}
	first, last, err := bundles.Range(ctx, log.Source, from, until)
	if err != nil {
		return err
	}
	if first > last {
		return usageError{fmt.Errorf(
			"there is no entry in that range: it would begin with entry %d and end with entry %d", first, last)}
	}
	if err := log.ReportRange(ctx, &a.from, &a.until, first, last); err != nil {
		return err
	}
	past := history.New(log.Source, history.Options{Progress: func(seq uint64) { log.Progress("", seq, last) }})
	if err := log.noteMissing(ctx, past, last); err != nil {
		return err
	}
	err = do(ctx, past, first, last)
	log.shown.done()
	return err
}

// victimsAudit is "rollcall audit victims".
type victimsAudit struct {
	rangeAudit
	filterFlags
	show uint64
}

func newAuditVictims(registry framework.Registry) *cobra.Command {
	a := victimsAudit{rangeAudit: rangeAudit{reading: reading{registry: registry}}}
	cmd := &cobra.Command{
		Use:   "victims LOG|BUNDLE",
		Short: "Report every preemption, and each victim that did not have to go",
		Long: `Reads a log and checks every decision that evicts pods for a pod or a gang, on
the state before it. Each victim must be the least important one that was
sufficient, and PodDisruptionBudgets must be kept if there was another choice.
The decision is made again by the rules of the log's configuration, and each
victim is tried by itself: could it stay, could a less important pod go in its
place, does the victim policy let it be preempted.

Each fault has the entry, the names and the rule. Its verdict is VIOLATION, and
the exit code is 1. A fault that the rules of the log lead to again is allowed.`,
		Example: `  rollcall audit victims jobs.log
  rollcall audit victims jobs.log --from 13:30 --until 14:30 --gang ml/train
  rollcall audit victims jobs.log -o json | \
    jq '.preemptions[] | select(.verdict == "VIOLATION")'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0]) },
	}
	a.rangeAudit.register(cmd)
	a.filterFlags.register(cmd, "preemptions for, or of,")
	cmd.Flags().Uint64Var(&a.show, "show", 100, "how many preemptions without a violation to show; the others are all "+
		"shown")
	return cmd
}

func (a *victimsAudit) run(cmd *cobra.Command, name string) error {
	filter, err := a.filter()
	if err != nil {
		return err
	}
	var report *victims.Report
	err = a.over(cmd, name, func(ctx context.Context, log *history.Log, first, last uint64) (err error) {
		report, err = victims.Audit(ctx, log, victims.Options{From: first, Last: last, Keep: a.show, Filter: filter})
		return err
	})
	if err != nil {
		return err
	}
	if err := a.out.write(cmd.OutOrStdout(), report, report.WriteText); err != nil {
		return err
	}
	if report.Violations > 0 {
		return errVictims
	}
	return nil
}

// loopsAudit is "rollcall audit loops".
type loopsAudit struct {
	rangeAudit
	show uint64
}

func newAuditLoops(registry framework.Registry) *cobra.Command {
	a := loopsAudit{rangeAudit: rangeAudit{reading: reading{registry: registry}}}
	cmd := &cobra.Command{
		Use:   "loops LOG|BUNDLE",
		Short: "Report pods and gangs that are preempted and restarted in circles",
		Long: `Reads a log and reports who was preempted and restarted in circles, the entries,
how often, how long it went on, and what it cost: the resources that evicted
pods held, times the hours for which they had held them.

In a circle each pod or gang has evicted the next one, and the last one the
first: the exit code is 1. "again" is a pod or gang that was evicted, came
again, and was evicted again, by whomever. A pod that comes in the place of an
evicted one counts as the same: one of the same name, controller or gang.`,
		Example: `  rollcall audit loops jobs.log
  rollcall audit loops jobs.log --from 13:30 --until 14:30
  rollcall audit loops jobs.log -o json | jq '.loops[].lost'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0]) },
	}
	a.rangeAudit.register(cmd)
	cmd.Flags().Uint64Var(&a.show, "show", 10, "how many evictions of each loop to show; JSON has all")
	return cmd
}

func (a *loopsAudit) run(cmd *cobra.Command, name string) error {
	var report *loops.Report
	err := a.over(cmd, name, func(ctx context.Context, log *history.Log, first, last uint64) (err error) {
		report, err = loops.Find(ctx, log, loops.Options{From: first, Last: last})
		return err
	})
	if err != nil {
		return err
	}
	text := func(w io.Writer) error { return report.WriteText(w, a.show) }
	if err := a.out.write(cmd.OutOrStdout(), report, text); err != nil {
		return err
	}
	if report.Circles > 0 {
		return errCircles
	}
	return nil
}
