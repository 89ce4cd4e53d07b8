package main

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/survey"
)

func newLog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Read, check, export and prove logs",
		Example: "  rollcall log info jobs.log\n  rollcall log verify jobs.log\n  rollcall log cat jobs.log | jq " +
			"'select(.kind == \"Decision\")'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLogCat(), newLogInfo(), newLogVerify(), newLogVerifySegment(),
		newLogExport(), newLogImport(), newLogArchive(), newLogSnapshot(),
		newLogKeygen(), newLogCheckpoint(), newLogProve(), newLogCheck())
	return cmd
}

func newLogCat() *cobra.Command {
	var open reading
	var from, to uint64
	cmd := &cobra.Command{
		Use:     "cat LOG|BUNDLE",
		Short:   "Print a log's entries, one JSON object a line",
		Example: "  rollcall log cat jobs.db --from 100 --to 200",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from < 1 {
				return usageError{fmt.Errorf("--from is %d: entries are numbered from 1", from)}
			}
			if to != 0 && to < from {
				return usageError{fmt.Errorf("--to is %d, before --from %d", to, from)}
			}
			log, err := open.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			if first := log.First(); !cmd.Flags().Changed("from") && first > 1 {
				log.ReportFirst()
				from = first
			}
			if cmd.Flags().Changed("from") {
				if err := log.MustHave(from); err != nil {
					return err
				}
			}
			return cat(cmd, log.Source, from, to)
		},
	}
	open.register(cmd)
	cmd.Flags().Uint64Var(&from, "from", 1, "the first entry to print; default: the first that there is")
	cmd.Flags().Uint64Var(&to, "to", 0, "the last entry to print; default: the log's last")
	return cmd
}

func cat(cmd *cobra.Command, log *logs.Source, from, to uint64) error {
	names, err := log.PodNames(cmd.Context(), from)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	var line []byte
	for e, err := range log.Read(cmd.Context(), from) {
		if err == nil {
			err = cmd.Context().Err()
		}
		if err != nil {
			w.Flush()
			return err
		}
		if to != 0 && e.Seq > to {
			break
		}
		names.Take(e)
		if line, err = eventlog.AppendNamedJSON(line[:0], e, names.Name); err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return w.Flush()
}

func newLogInfo() *cobra.Command {
	var open reading
	var out output
	cmd := &cobra.Command{
		Use:     "info LOG|BUNDLE",
		Short:   "Summarise what a log holds",
		Example: "  rollcall log info jobs.db -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			log, err := open.open(cmd.Context(), args[0])
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
