package app

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/bundles"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/order"
)

// errViolated is the error of an audit that has already reported its findings.
var errViolated = errors.New("the log has placements against the order of its queue")

func newAudit(registry framework.Registry) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "Check a log against the rules that it was to be decided by",
		Example: "  rollcall audit order jobs.log",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditOrder(registry))
	return cmd
}

// orderAudit is "rollcall audit order".
type orderAudit struct {
	reading
	from, at history.Moment
	show     uint64
	out      output
}

func newAuditOrder(registry framework.Registry) *cobra.Command {
	a := orderAudit{reading: reading{registry: registry}}
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
not decide anything again; rollcall replay does that. --from and --at limit what
is audited to a range of entries or times.`,
		Example: `  rollcall audit order jobs.log
  rollcall audit order jobs.log \
    --from 2026-01-03T13:30:00Z --at 2026-01-03T14:30:00Z
  rollcall audit order jobs.log -o json | \
    jq '.overtakings[] | select(.verdict == "VIOLATION")'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.Var(&a.from, "from", "the first `entry` to audit, or a time such as 2026-01-03T14:03:00Z or 14:03; "+
		"default: the first there is")
	f.Var(&a.at, "at", "the last `entry` to audit, or a time; default: the log's last")
	f.Uint64Var(&a.show, "show", 100, "how many overtakings that are allowed to show; violations are all shown")
	a.reading.register(cmd)
	a.out.register(cmd)
	return cmd
}

func (a *orderAudit) run(cmd *cobra.Command, name string) error {
	if err := a.out.check(); err != nil {
		return err
	}
	log, err := a.open(cmd, name)
	if err != nil {
		return err
	}
	defer log.Close()
	from, err := placeIn(cmd.Context(), log.Source, a.from)
	if err != nil {
		return err
	}
	at, err := placeIn(cmd.Context(), log.Source, a.at)
	if err != nil {
		return err
	}
	first, last, err := bundles.Range(cmd.Context(), log.Source, from, at)
	if err != nil {
		return err
	}
	if first > last {
		return usageError{fmt.Errorf(
			"there is no entry in that range: it would begin with entry %d and end with entry %d", first, last)}
	}
	if err := log.ReportRange(cmd.Context(), &a.from, &a.at, first, last); err != nil {
		return err
	}
	past := history.New(log.Source, history.Options{Progress: func(seq uint64) { log.Progress("", seq, last) }})
	report, err := order.Audit(cmd.Context(), past, order.Options{From: first, Last: last, Keep: a.show})
	log.shown.done()
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
