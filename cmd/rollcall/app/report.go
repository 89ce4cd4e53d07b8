package app

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/ledger"
)

// reporting is "rollcall report".
type reporting struct {
	reading
	span      ledger.Span
	by        ledger.By
	resources []string
	format    string
}

var reportFormats = []string{"text", "json", "csv"}

func newReport(registry framework.Registry) *cobra.Command {
	r := reporting{reading: reading{registry: registry}}
	cmd := &cobra.Command{
		Use:   "report LOG|BUNDLE|DUMP",
		Short: "Report who held the resources, what was lost, what was idle and why",
		Long: `Books the resource-time of a range of a log: for each group of pods what it
held, and how much of that was useful, lost to preemption, lost to failures,
lost with a gang that fell below its minimum, or held by incomplete gangs. Then
what became of the capacity: what was idle while nobody waited for it, and what
was idle while somebody did, by cause; what was on nodes that were not ready.
And for each group how long gangs and pods waited, and which waited longest; how
many pods were evicted for it, and how many of its own for others.

The sums are exact. Over any partition of the time and of the groups they add up
to the capacity times the time; -o json has them as integers. The column of a
pod's time follows from the whole log, also from entries behind --until.

Idle room is judged for the first entity in the order of the queue that waits
and requests the resource. The first of these causes counts: cordoned, tainted,
not selected, other domain, reserved for others, fragmented, node lacks another
resource. Room that is left is usable: a gang needs more of it than there is, or
its next attempt has not come. docs/REPORT.md defines each column.

--at reports one moment: amounts instead of hours. An entry's number means the
point right behind that entry.`,
		Example: `  rollcall report jobs.db
  rollcall report jobs.db --by label:team --resource nvidia.com/gpu
  rollcall report jobs.db --from 13:25 --until 14:30
  rollcall report jobs.db --at 14:03 --resource nvidia.com/gpu
  rollcall report jobs.db -o json | jq .total.resources`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.Var(&r.by, "by", "the `group` of a pod: namespace, label:KEY, gang, node or priority; default: namespace")
	f.Var(&r.span.From, "from", "where the range begins: behind an `entry`, or at a time such as "+
		"2026-01-03T14:03:00Z or 14:03 (UTC), or -5m before the log's end; default: the log's beginning")
	f.Var(&r.span.To, "until", "where the range ends: an `entry` or a time; default: the log's end")
	f.Var(&r.span.At, "at", "report this moment alone: an `entry` or a time")
	f.StringSliceVar(&r.resources, "resource", nil, "the `NAME`s of the resources to show, with commas between them; "+
		"default: cpu and extended resources, with csv all")
	r.format = reportFormats[0]
	f.VarP(enumValue{&r.format, reportFormats}, "output", "o", "how to print: text, json, csv")
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(reportFormats, cobra.ShellCompDirectiveNoFileComp))
	r.reading.register(cmd)
	return cmd
}

// reportMemory is the memory above which garbage is collected more often.
const (
	reportGCPercent = 200
	reportMemory    = 700 << 20
)

func (r *reporting) run(cmd *cobra.Command, name string) error {
	if !slices.Contains(reportFormats, r.format) {
		return usageError{fmt.Errorf("--output is %q: want one of %q", r.format, reportFormats)}
	}
	if r.span.At.Given() && (r.span.From.Given() || r.span.To.Given()) {
		return usageError{errors.New("--at is one moment, --from and --until are a range: only one can be given")}
	}
	if r.format == "json" && len(r.resources) > 0 {
		return usageError{errors.New("--resource is for text and csv: -o json has all resources")}
	}
	defer headroom.Spend(reportGCPercent, reportMemory)()
	log, err := r.open(cmd, name)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx := cmd.Context()
	within, err := ledger.Resolve(ctx, history.New(log.Source, history.Options{}), r.span)
	if err != nil {
		return err
	}
	l, err := ledger.Make(ctx, log.Source, ledger.Options{Range: within, By: r.by, Workers: runtime.GOMAXPROCS(0),
		Progress: func(read, all uint64) { log.shown.show("entry %d of %d (%d%%)", read, all, 100*read/max(1, all)) }})
	log.shown.done()
	if err != nil {
		return err
	}
	only, err := r.chosen(l)
	if err != nil {
		return err
	}
	if r.format == "csv" {
		return l.WriteCSV(cmd.OutOrStdout(), only)
	}
	out := output{r.format}
	return out.write(cmd.OutOrStdout(), l, func(w io.Writer) error { return l.WriteText(w, only) })
}

// chosen returns the resources to show, nil for the usual ones.
func (r *reporting) chosen(l *ledger.Ledger) (only []v1.ResourceName, err error) {
	for _, text := range r.resources {
		name := v1.ResourceName(text)
		if err := l.CheckResource(name); err != nil {
			return nil, usageError{err}
		}
		only = append(only, name)
	}
	return only, nil
}
