package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/order"
)

// errViolated is the error of an audit that has already reported its findings.
var errViolated = errors.New("the log has placements against the order of its queue")

func newAudit(registry framework.Registry) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "Check a log against the rules that it was to be decided by",
		Example: "  rollcall audit order jobs.log\n  rollcall audit victims jobs.log",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditLoops(registry), newAuditOrder(registry), newAuditVictims(registry))
	return cmd
}

// orderAudit is "rollcall audit order".
type orderAudit struct {
	rangeAudit
	filterFlags
	show uint64
}

func newAuditOrder(registry framework.Registry) *cobra.Command {
	a := orderAudit{rangeAudit: rangeAudit{reading: reading{registry: registry}}}
	cmd := &cobra.Command{
		Use:   "order LOG|BUNDLE",
		Short: "Report every pod and gang that was placed before one that came first",
		Long: `Reads a log and reports every overtaking: a pod or a gang that was placed while
another one was in the queue that has a higher priority, or the same one and was
active for longer. For each it prints both names and priorities, the entries,
and the rule that allowed it: the other one was kept out of the queue, in
backoff, refused at an earlier entry (with the recorded reasons), or the queue
policy let it be passed. If no rule allows it, the verdict is VIOLATION, and the
exit code is 1.

The audit goes by the record: the inputs, and the decisions as facts. It does
not decide anything again; rollcall replay does that. --from and --until limit
what is audited to a range of entries or times.

The least regular overtakings come first: violations, then those by exceptions
(Nominated, Lane, Reserved, Beyond, Asking), then those of entities that could
not be attempted (Refused, NoRoom, Backoff, Gated). Of one rule, those with the
larger difference of priorities come first, and then the earlier ones.`,
		Example: `  rollcall audit order jobs.log
  rollcall audit order jobs.log \
    --from 2026-01-03T13:30:00Z --until 2026-01-03T14:30:00Z
  rollcall audit order jobs.log -o json | \
    jq '.overtakings[] | select(.verdict == "VIOLATION")'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0]) },
	}
	a.rangeAudit.register(cmd)
	cmd.Flags().Var(&a.until, "at", "the same as --until")
	a.filterFlags.register(cmd, "overtakings of, or by,")
	cmd.Flags().Uint64Var(&a.show, "show", 100,
		"how many overtakings that are allowed to show; violations are all shown")
	return cmd
}

func (a *orderAudit) run(cmd *cobra.Command, name string) error {
	if cmd.Flags().Changed("at") && cmd.Flags().Changed("until") {
		return usageError{errors.New("--at and --until are the same: give one of them")}
	}
	filter, err := a.filter()
	if err != nil {
		return err
	}
	var report *order.Report
	err = a.over(cmd, name, func(ctx context.Context, log *history.Log, first, last uint64) (err error) {
		report, err = order.Audit(ctx, log, order.Options{From: first, Last: last, Keep: a.show, Filter: filter})
		return err
	})
	if err != nil {
		return err
	}
	if err := a.out.write(cmd.OutOrStdout(), report, report.WriteText); err != nil {
		return err
	}
	if report.Violations > 0 {
		return errViolated
	}
	return nil
}
