package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// replayFacts holds the facts that "rollcall replay" prints.
type replayFacts struct {
	Identical bool `json:"identical"`
	// KnownFrom is the first entry that exists, if earlier ones are missing.
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	replay.Report
	// Parts is the number of parts that were decided separately, several at a time. It is 0 without --parallel.
	Parts              int     `json:"parts,omitempty"`
	Seconds            float64 `json:"seconds"`
	EntriesPerSecond   float64 `json:"entriesPerSecond"`
	DecisionsPerSecond float64 `json:"decisionsPerSecond"`
}

func newReplay(registry framework.Registry) *cobra.Command {
	var out output
	ask := replaying{reading: reading{registry: registry}}
	cmd := &cobra.Command{
		Use:   "replay LOG|BUNDLE",
		Short: "Decide a log again and report whether every decision is the same",
		Long: `Applies the log's inputs to a new scheduler, lets it decide, and compares every
decision with the recorded one. Prints "identical", or the first divergences: a
decision that is missing, extra, or different, with its sequence number, its pod
and the first field that differs. The exit code is then 3. The recorded decision
is applied in any case, so that one divergence does not become many.

An epoch is decided by the rules of the behaviour that it records (log info
shows it). If this version does not keep those rules, decisions that differ by
them are not divergences: replay lists them apart, with the rules that changed,
and the exit code is 5. An epoch of a behaviour that only newer versions know is
an error.

Replay decides everything again from the first entry on. With --from it begins
with the newest snapshot of that entry, or of an earlier one, and takes it as it
is. A bundle, and a log whose first entries were archived and are not there,
begin with their first snapshot. Replay compares each snapshot of the log that
it passes with the state that the entries make. If they differ, it names the
snapshot, and the exit code is 4.

--parallel decides the parts between snapshots at the same time, on all cores.
The report is the same: each part has to end with the state that the next one's
snapshot has, or else the rest is decided again in one part. A log whose epochs
have different feature gates, which are one for the whole process, is decided in
one part.`,
		Example: "  rollcall replay jobs.db\n  rollcall replay jobs.db --from 2000000\n  rollcall replay jobs.db " +
			"--parallel\n  rollcall replay jobs.db --classes off\n  rollcall replay incident.bundle -o json | " +
			"jq .identical",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(out.check(), ask.classes.check()); err != nil {
				return err
			}
			if ask.keep < 1 {
				return usageError{fmt.Errorf("--show is %d: want at least 1", ask.keep)}
			}
			facts, wrong, err := replayLog(cmd, args[0], ask)
			if err != nil {
				return err
			}
			if err := out.write(cmd.OutOrStdout(), facts, facts.writeText); err != nil {
				return err
			}
			switch {
			case facts.Diverged > 0:
				return errDiverged
			case !facts.Identical:
				return errOtherRules
			}
			return wrong
		},
	}
	out.register(cmd)
	ask.reading.register(cmd)
	ask.classes.register(cmd)
	cmd.Flags().IntVar(&ask.keep, "show", 10, "how many divergences to show")
	cmd.Flags().BoolVar(&ask.parallel, "parallel", false, "decide the parts between snapshots at the same time, on "+
		"all cores")
	cmd.Flags().Var(&ask.from, "from", "begin with the newest snapshot of this `entry` or time, or of one before it; "+
		"default: with the first entry")
	return cmd
}

// replaying holds the arguments of a replay.
type replaying struct {
	reading
	keep    int
	from    history.Moment
	classes classes

	parallel bool
}

// replayLog also returns the error for snapshots that differ from the states that the entries make.
func replayLog(cmd *cobra.Command, name string, ask replaying) (facts replayFacts, wrong, err error) {
	p := newProgress(cmd.ErrOrStderr())
	opts := ask.options(p)
	opts.Registry = ask.classes.in(ask.registry)
	log, err := openWith(cmd.Context(), name, opts, p)
	if err != nil {
		return facts, nil, err
	}
	defer log.Close()
	last, err := log.Last()
	if err != nil {
		return facts, nil, err
	}
	start, err := ask.start(cmd.Context(), log.Source, last)
	if err != nil {
		return facts, nil, err
	}
	next := uint64(1)
	if start != nil {
		next = start.Seq() + 1
	}
	states, err := log.StateHashes(next, last)
	if err != nil {
		return facts, nil, err
	}
	began := time.Now()
	report, parts, err := ask.verify(cmd.Context(), log.Source, last, replay.Options{
		Registry: opts.Registry, Keep: ask.keep, Start: start, States: states,
		Progress: func(seq uint64) { p.show("entry %d of %d (%d%%)", seq, last, 100*seq/max(1, last)) },
	})
	took := time.Since(began)
	if err != nil {
		return facts, nil, err
	}
	known, err := log.Base()
	if err != nil {
		return facts, nil, err
	}
	if known > 0 {
		known++
	}
	for _, seq := range report.OtherStates {
		wrong = errors.Join(wrong, log.NotTheEntries(seq))
	}
	return replayFacts{
		KnownFrom: known, Identical: report.Identical(), Report: report, Parts: parts, Seconds: took.Seconds(),
		EntriesPerSecond:   float64(report.Entries) / took.Seconds(),
		DecisionsPerSecond: float64(report.Decisions) / took.Seconds(),
	}, wrong, nil
}

// verify decides the log again, behind opts.Start. It returns the number of parts if the replay is parallel.
func (r *replaying) verify(ctx context.Context, log *logs.Source, last uint64, opts replay.Options,
) (replay.Report, int, error) {
	next := uint64(1)
	if opts.Start != nil {
		next = opts.Start.Seq() + 1
	}
	if !r.parallel {
		report, err := replay.Verify(ctx, log.Read(ctx, next), opts)
		return report, 0, err
	}
	begin := opts.Start
	return replay.VerifyParallel(ctx, replay.Parallel{
		Workers: runtime.GOMAXPROCS(0), Read: log.Read, Last: last, Load: log.Snapshots().Load,
		Begin: func() (*scheduler.Machine, error) {
			m := begin
			if begin = nil; m != nil || next == 1 {
				return m, nil
			}
			return log.Restore(next - 1) // the first one has advanced
		},
	}, opts)
}

// start returns the state to begin with, nil for the empty one.
func (r *replaying) start(ctx context.Context, log *logs.Source, last uint64) (*scheduler.Machine, error) {
	base, err := log.Base()
	if err != nil {
		return nil, err
	}
	from, err := log.EntryAt(ctx, &r.from)
	switch {
	case err != nil:
		return nil, err
	case from > last:
		return nil, usageError{fmt.Errorf("--from is %d: the log ends with entry %d", from, last)}
	case from > 0 && from < base:
		return nil, fmt.Errorf("--from is %d: the first state that is known is that after entry %d", from, base)
	case from > 0:
		return log.Restore(from)
	case base > 0:
		return log.Restore(base)
	}
	return nil, nil
}

func (f replayFacts) writeText(w io.Writer) error {
	if f.Start > 0 {
		plainf(w, "from       the snapshot of entry %d on\n", f.Start)
	}
	plainf(
		w,
		"entries    %d\ndecisions  %d\ntook       %s (%.0f decisions/s)\n",
		f.Entries,
		f.Decisions,
		time.Duration(f.Seconds*float64(time.Second)).Round(time.Millisecond),
		f.DecisionsPerSecond,
	)
	if f.Hash != "" {
		plainf(w, "state      %s\n", f.Hash)
	}
	if n, wrong := len(f.States), len(f.OtherStates); wrong > 0 {
		plainf(w, "snapshots  %d compared, %d WRONG: of entries %d\n", n, wrong, f.OtherStates)
	} else if n > 0 {
		plainf(w, "snapshots  %d compared\n", n)
	}
	if f.Parts > 0 {
		plainf(w, "parts      %d\n", f.Parts)
	}
	if f.Undecided {
		fmt.Fprintln(w, "the log ends before everything was decided: its writer was stopped")
	}
	if f.Identical {
		_, err := fmt.Fprintln(w, "identical")
		return err
	}
	for i := range f.OtherRules {
		other := &f.OtherRules[i]
		plainf(w, "%s\nthe first differences:\n", other)
		for _, d := range other.Differences {
			plainf(w, "  %s\n", d)
		}
	}
	if f.Diverged == 0 {
		return nil
	}
	plainf(w, "DIVERGED in %d places; the first:\n", f.Diverged)
	for _, d := range f.Divergences {
		if _, err := plainf(w, "  %s\n", d); err != nil {
			return err
		}
	}
	return nil
}
