package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bundle"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
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
		if line, err = eventlog.AppendJSON(line[:0], e); err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return w.Flush()
}

// logFacts is what "rollcall log info" prints.
type logFacts struct {
	Path    string `json:"path"`
	Entries uint64 `json:"entries"`
	// FirstSeq is the first entry that can be read; earlier ones were archived, or are not in a bundle.
	FirstSeq uint64 `json:"firstSeq"`
	LastSeq  uint64 `json:"lastSeq"`
	// Snapshots are the entries of which the state is kept.
	Snapshots []uint64 `json:"snapshots,omitempty"`
	// Bundle is what a bundle says of itself.
	Bundle    *bundle.Manifest  `json:"bundle,omitempty"`
	First     string            `json:"first,omitempty"`
	Last      string            `json:"last,omitempty"`
	Span      float64           `json:"spanSeconds"`
	Kinds     map[string]uint64 `json:"kinds"`
	Resources map[string]uint64 `json:"resources"`
	Outcomes  map[string]uint64 `json:"outcomes"`
	Epochs    []epochFacts      `json:"epochs"`
}

// epochFacts is one epoch in logFacts.
type epochFacts struct {
	Epoch   uint64 `json:"epoch"`
	Seq     uint64 `json:"seq"`
	Time    string `json:"time"`
	ID      string `json:"id"`
	Version string `json:"version"`
	Format  uint32 `json:"format"`
	// Behaviour is the number of the rules by which the epoch was decided.
	Behaviour uint32 `json:"behaviour"`
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
			facts, err := survey(cmd.Context(), log.Source)
			if err := errors.Join(err, log.Close()); err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), facts, facts.writeText)
		},
	}
	out.register(cmd)
	open.register(cmd)
	return cmd
}

// survey reads a log from end to end.
func survey(ctx context.Context, log *logs.Source) (*logFacts, error) {
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	f := &logFacts{
		Path:      log.Path(),
		Kinds:     map[string]uint64{},
		Resources: map[string]uint64{},
		Outcomes:  map[string]uint64{},
	}
	f.FirstSeq = log.First()
	if f.Bundle = log.Manifest(); f.Bundle == nil && f.FirstSeq > 1 {
		log.ReportFirst()
	}
	if f.Snapshots, err = log.Snapshots().Store.List(); err != nil {
		return nil, err
	}
	var first, end eventlog.Time
	for e, err := range log.Read(ctx, f.FirstSeq) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if f.Entries++; f.Entries == 1 {
			first = e.Time
		}
		end, f.LastSeq = e.Time, e.Seq
		f.count(e)
		log.Progress("", e.Seq, last)
	}
	if f.Entries > 0 {
		f.First, f.Last, f.Span = first.String(), end.String(), end.Sub(first).Seconds()
	}
	return f, nil
}

func (f *logFacts) count(e eventlog.Entry) {
	f.Kinds[e.Kind().String()]++
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		f.Resources[string(p.Resource)]++
	case *eventlog.Decision:
		f.Outcomes[p.Outcome.String()]++
	case *eventlog.EpochStarted:
		f.Epochs = append(f.Epochs, epochFacts{
			Epoch: e.Epoch, Seq: e.Seq, Time: e.Time.String(), ID: p.ID, Version: p.Version, Format: p.Format,
			Behaviour: max(1, p.Behaviour),
		})
	}
}

func (f *logFacts) writeText(w io.Writer) error {
	fmt.Fprintf(w, "log      %s\nentries  %d\n", f.Path, f.Entries)
	if f.FirstSeq > 1 {
		fmt.Fprintf(w, "first    entry %d\n", f.FirstSeq)
	}
	if f.Entries > 0 {
		fmt.Fprintf(w, "from     %s\nto       %s (%s)\n", f.First, f.Last, time.Duration(f.Span*float64(time.Second)))
	}
	if n := len(f.Snapshots); n > 0 {
		fmt.Fprintf(w, "states   %d snapshots, the last of entry %d\n", n, f.Snapshots[n-1])
	}
	if b := f.Bundle; b != nil {
		fmt.Fprintf(
			w,
			"bundle   made by %s, of entries %d to %d\nchain    %s to %s\ntree     %s\n",
			b.Version,
			b.From,
			b.Last,
			hex.EncodeToString(b.Origin.Hash[:]),
			b.LastHash,
			b.Root,
		)
		if b.Damage != "" {
			fmt.Fprintf(w, "ends before damage: %s\n", b.Damage)
		}
	}
	for _, part := range []struct {
		title  string
		counts map[string]uint64
	}{{"entries by kind", f.Kinds}, {"objects taken in", f.Resources}, {"decisions by outcome", f.Outcomes}} {
		if len(part.counts) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", part.title)
		for _, name := range slices.Sorted(maps.Keys(part.counts)) {
			fmt.Fprintf(w, "  %-32s %9d\n", name, part.counts[name])
		}
	}
	for _, e := range f.Epochs {
		if _, err := fmt.Fprintf(
			w,
			"\nepoch %d began at entry %d, %s\n  id %s, written by %s, format %d, behaviour %d\n",
			e.Epoch,
			e.Seq,
			e.Time,
			e.ID,
			e.Version,
			e.Format,
			e.Behaviour,
		); err != nil {
			return err
		}
	}
	return nil
}
