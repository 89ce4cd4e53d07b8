package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
)

// replayFacts is what "rollcall replay" prints.
type replayFacts struct {
	Identical bool `json:"identical"`
	replay.Report
	Seconds            float64 `json:"seconds"`
	EntriesPerSecond   float64 `json:"entriesPerSecond"`
	DecisionsPerSecond float64 `json:"decisionsPerSecond"`
}

func newReplay() *cobra.Command {
	var out output
	var keep int
	cmd := &cobra.Command{
		Use:   "replay LOG",
		Short: "Decide a log again and say whether every decision is the same",
		Long: `Applies the log's inputs to a new scheduler, lets it decide, and compares every decision with the
recorded one. Prints "identical", or the first divergences: a decision that is missing, one too
many, or one that differs, with its sequence number, its pod and the first field that differs;
then the exit code is 3. The recorded decision is applied in any case, so that one divergence
does not become many.`,
		Example: "  rollcall replay jobs.db\n  rollcall replay jobs.db -o json | jq .identical",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if keep < 1 {
				return usageError{fmt.Errorf("--show is %d: want at least 1", keep)}
			}
			facts, err := replayLog(cmd, args[0], keep)
			if err != nil {
				return err
			}
			if err := out.write(cmd.OutOrStdout(), facts, facts.writeText); err != nil {
				return err
			}
			if !facts.Identical {
				return errDiverged
			}
			return nil
		},
	}
	out.register(cmd)
	cmd.Flags().IntVar(&keep, "show", 10, "how many divergences to show")
	return cmd
}

func replayLog(cmd *cobra.Command, path string, keep int) (replayFacts, error) {
	log, err := openForReading(path)
	if err != nil {
		return replayFacts{}, err
	}
	defer log.Close()
	last, err := log.Last()
	if err != nil {
		return replayFacts{}, err
	}
	p := newProgress()
	report, err := replay.Verify(cmd.Context(), log.Read(1), replay.Options{
		Registry: plugins.NewRegistry(), Keep: keep,
		Progress: func(seq uint64) { p.show("entry %d of %d (%d%%)", seq, last, 100*seq/max(1, last)) },
	})
	took := p.done()
	if err != nil {
		return replayFacts{}, err
	}
	return replayFacts{
		Identical: report.Identical(), Report: report, Seconds: took.Seconds(),
		EntriesPerSecond:   float64(report.Entries) / took.Seconds(),
		DecisionsPerSecond: float64(report.Decisions) / took.Seconds(),
	}, nil
}

func (f replayFacts) writeText(w io.Writer) error {
	fmt.Fprintf(w, "entries    %d\ndecisions  %d\ntook       %s (%.0f decisions/s)\n",
		f.Entries, f.Decisions, time.Duration(f.Seconds*float64(time.Second)).Round(time.Millisecond), f.DecisionsPerSecond)
	if f.Hash != "" {
		fmt.Fprintf(w, "state      %s\n", f.Hash)
	}
	if f.Undecided {
		fmt.Fprintln(w, "the log ends before everything was decided: its writer was stopped")
	}
	if f.Identical {
		_, err := fmt.Fprintln(w, "identical")
		return err
	}
	fmt.Fprintf(w, "DIVERGED in %d places; the first:\n", f.Diverged)
	for _, d := range f.Divergences {
		if _, err := fmt.Fprintf(w, "  %s\n", d); err != nil {
			return err
		}
	}
	return nil
}
