package app

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs/audit"
)

func newLogCheck() *cobra.Command {
	var keys, checkpoints []string
	var out output
	cmd := &cobra.Command{
		Use:   "check PROOF|CHECKPOINT --key FILE",
		Short: "Check a proof or a checkpoint with a public key alone",
		Long: `Checks what rollcall log prove or rollcall log checkpoint printed, without the
log. It prints what is proven; for an entry or a placement, the entries
themselves. If the proof does not hold, it says why, and the exit code is 1.

A proof rests on signed checkpoints: those that it carries, and those given with
--checkpoint. Use the ones that you kept yourself, because only they show that
the log did not change since. Of two, the earlier one comes first: a proof of
growth whose checkpoints are exchanged is refused.`,
		Example: `  rollcall log check placement.proof --key gpu-west.key.pub
  rollcall log check february.proof --key gpu-west.key.pub \
    --checkpoint gpu-west.2026-02-01`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if len(keys) == 0 {
				return usageError{errors.New("--key is needed: the public key of whoever signs the checkpoints")}
			}
			checked, err := audit.Check(args[0], keys, checkpoints)
			if err != nil {
				return fmt.Errorf("not proven: %w", err)
			}
			return out.write(cmd.OutOrStdout(), checked, func(w io.Writer) error { return writeChecked(w, checked) })
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "a file with a public key; may be given more than once")
	cmd.Flags().StringArrayVar(
		&checkpoints,
		"checkpoint",
		nil,
		"a file with a signed checkpoint; may be given more than once",
	)
	out.register(cmd)
	return cmd
}

func writeChecked(w io.Writer, f *audit.Checked) error {
	last := f.Checkpoints[len(f.Checkpoints)-1]
	switch f.Proven {
	case "inclusion":
		plainf(w, "proven: this entry is in the log %s of %d entries\n%s\n", last.Origin, last.Size, string(f.Entry))
	case "placement":
		writePlacement(w, f.Placement, last)
		for _, entry := range f.Entries {
			plainf(w, "%s\n", string(entry))
		}
	case "consistency":
		plainf(w, "proven: the log %s of %d entries begins with what it was when it had %d\n",
			last.Origin, last.Size, f.Checkpoints[0].Size)
	default:
		plainf(w, "signed: the log %s had %d entries\n", last.Origin, last.Size)
	}
	var err error
	for _, c := range f.Checkpoints {
		_, err = plainf(w, "checkpoint of %d entries: root %s, chain %s\n", c.Size, c.Root, c.Chain)
	}
	return err
}

// writePlacement describes in words the facts that a proof of a placement shows.
func writePlacement(w io.Writer, p *audit.PlacementReport, c audit.CheckpointReport) {
	shown := fmt.Sprintf("place pod %s (UID %s) on node %s", p.Pod, p.UID, p.Node)
	if p.Bound == nil || p.Bound.Outcome != eventlog.BindBound.String() {
		shown = fmt.Sprintf("choose node %s for pod %s (UID %s); that it was bound there is not shown",
			p.Node, p.Pod, p.UID)
	}
	plainf(w, "proven: these entries are in the log %s of %d entries, and %s\n", c.Origin, c.Size, shown)
	gang := ""
	if p.Group != "" {
		gang = " of gang " + p.Group
	}
	verb := "placed"
	if p.Released != nil {
		verb = "placed, to wait in Permit"
	}
	plainf(w, "  decided   entry %d, %s: pod %s%s is %s on node %s\n",
		p.Decided.Seq, p.Decided.Time, p.Pod, gang, verb, p.Node)
	if r := p.Released; r != nil {
		by := "the Decision on pod " + r.By
		if r.By == p.Pod {
			by = "a Decision on the pod itself"
		} else if r.Group != "" {
			by += " of gang " + r.Group
		}
		others := ""
		if r.Others > 0 {
			others = fmt.Sprintf(", with %d other pods", r.Others)
		}
		plainf(w, "  released  entry %d, %s: it may be bound, by %s%s\n", r.Seq, r.Time, by, others)
	}
	switch b := p.Bound; {
	case b == nil:
		fmt.Fprint(w, "  bound     not shown: the proof has no result of the bind\n")
	case b.Message != "":
		plainf(w, "  bound     entry %d, %s: the result of the bind to node %s is %s (%s)\n",
			b.Seq, b.Time, p.Node, b.Outcome, b.Message)
	default:
		plainf(w, "  bound     entry %d, %s: the result of the bind to node %s is %s\n",
			b.Seq, b.Time, p.Node, b.Outcome)
	}
}
