package app

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/bundles"
	"github.com/rollcall-sched/rollcall/replay/compare"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// errDiffers is the error of "rollcall diff --exit-code" that has already reported the differences.
var errDiffers = errors.New("the logs differ")

// diff is "rollcall diff".
type diff struct {
	reading
	from, until history.Moment
	with        string
	show        int
	exitCode    bool
	out         output
}

func newDiff(registry framework.Registry) *cobra.Command {
	d := diff{reading: reading{registry: registry}, out: output{format: "text"}}
	cmd := &cobra.Command{
		Use:   "diff A B | LOG --with rollcall",
		Short: "Say how two logs differ, or how others bind and Rollcall would",
		Long: `Reads two logs or bundles side by side and says how they differ, in this order:

  configuration  the settings of each epoch
  inputs         the first object that came, or node that changed, in one log
                 alone, at another time, or with other fields
  decisions      how many are the same, and the first that is not
  gangs, pods    what became of them: the largest changes of their waits first

What differs first is the cause to look at: with the same inputs, a setting;
with the same inputs and settings, another version of the program. Later changes
of pods and claims are no inputs here: in a simulation they follow from
decisions. If the logs begin at different times, times count from the first
entry of each.

A wait is the time from the complete minimum of a gang (from the arrival of a
pod) to its nodes. A wait with * goes on at the end of the log.

Of one log with --with rollcall: compares the binds that another scheduler has
made with the node that Rollcall would have chosen on the state just before each
of them: the same node, another one and the rank of theirs, or a node that was
not feasible, with the plugin that refuses it. Counts come first. -o csv has a
row for each bind, -o json an object. The log is a recording ("rollcall record
--help"), or a dump with a history ("rollcall dump --help"); --config names the
configuration of the cluster's scheduler. Binds that Rollcall has decided are
not compared: "rollcall replay" decides them again.

Exit code 0, or with --exit-code 3 if the logs, or any of the binds, differ.`,
		Example: `  rollcall diff before.db after.db
  rollcall diff monday.bundle tuesday.bundle --show 50
  rollcall diff before.db after.db -o json | jq '.gangs[] | .name'
  rollcall diff cluster.db --with rollcall --config kube-scheduler.yaml
  rollcall diff cluster.db --with rollcall -o csv > binds.csv`,
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if d.with != "" {
			return cobra.ExactArgs(1)(cmd, args)
		}
		return cobra.ExactArgs(2)(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := d.checkFormat(); err != nil {
			return err
		}
		if d.with != "" {
			return d.runWith(cmd, args[0])
		}
		return d.run(cmd, args[0], args[1])
	}
	f := cmd.Flags()
	f.Var(&d.from, "from", "the first `entry` of both logs to compare, or a time such as 14:03; default: the first")
	f.Var(&d.until, "until", "the last `entry` of both logs to compare, or a time; default: the last")
	f.VarP(enumValue{&d.out.format, diffFormats}, "output", "o", "how to print: text, json, csv (with --with)")
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(diffFormats, cobra.ShellCompDirectiveNoFileComp))
	f.StringVar(&d.with, "with", "", "compare the binds of one log with the ones of `rollcall`")
	_ = cmd.RegisterFlagCompletionFunc("with",
		cobra.FixedCompletions([]string{withRollcall}, cobra.ShellCompDirectiveNoFileComp))
	f.IntVar(&d.show, "show", 20, "how many settings, gangs and pods to show; all are counted")
	f.BoolVar(&d.exitCode, "exit-code", false, "exit with code 3 if the logs, or the binds, differ")
	d.reading.register(cmd)
	d.registerConfig(cmd)
	d.says = false // of two dumps, a note says what they do not know
	return cmd
}

func (d *diff) run(cmd *cobra.Command, nameA, nameB string) error {
	a, closeA, err := d.log(cmd, nameA)
	if err != nil {
		return err
	}
	defer closeA()
	b, closeB, err := d.log(cmd, nameB)
	if err != nil {
		return err
	}
	defer closeB()
	shown := newProgress(cmd.ErrOrStderr())
	report, err := compare.Logs(cmd.Context(), *a, *b, compare.Options{Show: d.show,
		Progress: func(read, all uint64) { shown.show("entry %d of %d of both logs", read, all) }})
	shown.done()
	if err != nil {
		return err
	}
	if err := d.out.write(cmd.OutOrStdout(), report, report.WriteText); err != nil {
		return err
	}
	if d.exitCode && !report.Same() {
		return errDiffers
	}
	return nil
}

// log opens one of the logs.
func (d *diff) log(cmd *cobra.Command, name string) (l *compare.Log, end func(), err error) {
	log, err := d.open(cmd, name)
	if err != nil {
		return nil, nil, err
	}
	end = func() { _ = log.Close() } // it is only read
	defer func() {
		if err != nil {
			end()
		}
	}()
	d.from.Begins(&d.until)
	from, err := placeIn(cmd.Context(), log.Source, d.from)
	if err != nil {
		return nil, nil, err
	}
	until, err := placeIn(cmd.Context(), log.Source, d.until)
	if err != nil {
		return nil, nil, err
	}
	l = &compare.Log{Name: name, Log: history.New(log.Source, history.Options{})}
	if l.First, l.Last, err = bundles.Range(cmd.Context(), log.Source, from, until); err != nil {
		return nil, nil, err
	}
	return l, end, log.ReportRange(cmd.Context(), &d.from, &d.until, l.First, l.Last)
}
