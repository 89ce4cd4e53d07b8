package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/survey"
	"github.com/rollcall-sched/rollcall/replay/history"
)

func newLog(registry framework.Registry) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Read, check, export and prove logs",
		Example: "  rollcall log info jobs.log\n  rollcall log verify jobs.log\n  rollcall log cat jobs.log | jq " +
			"'select(.kind == \"Decision\")'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLogCat(registry), newLogInfo(registry), newLogVerify(registry), newLogVerifySegment(),
		newLogExport(registry), newLogImport(registry), newLogArchive(registry), newLogTrim(registry),
		newLogSnapshot(registry), newLogIndex(registry),
		newLogCopy(registry), newLogKeygen(), newLogCheckpoint(registry), newLogProve(registry), newLogCheck())
	return cmd
}

func newLogCat(registry framework.Registry) *cobra.Command {
	open := reading{registry: registry}
	var from, to history.Moment
	cmd := &cobra.Command{
		Use:   "cat LOG|BUNDLE|DUMP",
		Short: "Print a log's entries, one JSON object a line",
		Long: `Prints each entry as a JSON object in one line. Entries have the UIDs of pods;
the names are added beside them: victimPods, rejectedPods and allowedPods beside
victims, rejected and allowed, and pod beside uid.`,
		Example: "  rollcall log cat jobs.db --from 100 --to 200\n  rollcall log cat jobs.db --from 14:03 --to 14:05",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := open.open(cmd, args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			asked, err := rangeOf(cmd.Context(), log.Source, from, to)
			if err != nil {
				return err
			}
			first, last, err := cat(cmd, log.Source, asked)
			if err != nil {
				return err
			}
			return log.ReportRange(cmd.Context(), &from, &to, first, last)
		},
	}
	open.register(cmd)
	cmd.Flags().Var(&from, "from", "the first `entry` to print, or a time such as 2026-01-03T14:03:00Z or 14:03; "+
		"default: the first that there is")
	cmd.Flags().Var(&to, "to", "the last `entry` to print, or a time; default: the log's last")
	return cmd
}

// entryRange is a range of entries, by number and by time; 0 is no bound.
type entryRange struct {
	from, to     uint64
	since, until eventlog.Time
}

// rangeOf returns the range between two moments of a log. Without a beginning it starts at the first entry.
func rangeOf(ctx context.Context, log *logs.Source, from, to history.Moment) (r entryRange, err error) {
	from.Begins(&to)
	if r.from, r.since, err = from.In(ctx, log); err != nil {
		return r, err
	}
	if r.to, r.until, err = to.In(ctx, log); err != nil {
		return r, err
	}
	if r.to != 0 && r.to < r.from {
		return r, usageError{fmt.Errorf("--to is %d, before --from %d", r.to, r.from)}
	}
	if r.until != 0 && r.until < r.since {
		return r, usageError{fmt.Errorf("--to is %s, before --from %s", r.until, r.since)}
	}
	if r.from != 0 {
		return r, log.MustHave(r.from)
	}
	if r.from = log.First(); r.from > 1 && !from.Given() {
		log.ReportFirst()
	}
	return r, nil
}

// has reports whether an entry is in the range; over is true behind its end.
func (r *entryRange) has(e eventlog.Entry) (in, over bool) {
	over = r.to != 0 && e.Seq > r.to || r.until != 0 && e.Time > r.until
	return !over && e.Time >= r.since, over
}

// cat prints the entries of a range, and returns the first and the last of them; 0 if there is none.
func cat(cmd *cobra.Command, log *logs.Source, asked entryRange) (first, last uint64, err error) {
	names, err := log.PodNames(cmd.Context(), asked.from)
	if err != nil {
		return 0, 0, err
	}
	w := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	var line []byte
	for e, err := range log.Read(cmd.Context(), asked.from) {
		if err == nil {
			err = cmd.Context().Err()
		}
		if err != nil {
			w.Flush()
			return 0, 0, err
		}
		in, over := asked.has(e)
		if over {
			break
		}
		if names.Take(e); !in {
			continue
		}
		if line, err = eventlog.AppendNamedJSON(line[:0], e, names.Name); err != nil {
			return 0, 0, err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return 0, 0, err
		}
		if first == 0 {
			first = e.Seq
		}
		last = e.Seq
	}
	return first, last, w.Flush()
}

func newLogInfo(registry framework.Registry) *cobra.Command {
	open := reading{registry: registry}
	var out output
	cmd := &cobra.Command{
		Use:   "info LOG|BUNDLE",
		Short: "Summarise what a log holds",
		Long: `Counts entries, objects and decisions, and tells of each epoch the version that
wrote it, the feature gates that were not at their defaults, and the plugins
that Rollcall does not have itself. It says which of them are not compiled into
this program: without them the log can be read, and not be replayed or
explained. -o json has all plugins of each epoch.`,
		Example: "  rollcall log info jobs.db -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			log, err := open.open(cmd, args[0])
			if err != nil {
				return err
			}
			facts, err := survey.Take(cmd.Context(), log.Source)
			if err := errors.Join(err, log.Close()); err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), facts, facts.WriteText)
		},
	}
	out.register(cmd)
	open.register(cmd)
	return cmd
}
