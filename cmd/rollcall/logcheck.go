package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/logs/audit"
)

func newLogCheck() *cobra.Command {
	var keys, checkpoints []string
	var out output
	cmd := &cobra.Command{
		Use:   "check PROOF|CHECKPOINT --key FILE",
		Short: "Check a proof or a checkpoint with a public key alone",
		Long: `Checks what rollcall log prove or rollcall log checkpoint printed, without the log. It prints what is proven; for an
entry, the entry itself. If the proof does not hold, it says why, and the exit code is 1.

A proof rests on signed checkpoints: those that it carries, and those given with --checkpoint. Use the ones that you
kept yourself, because only they show that the log did not change since.`,
		Example: `  rollcall log check placement.proof --key gpu-west.key.pub
  rollcall log check february.proof --key gpu-west.key.pub --checkpoint gpu-west.2026-02-01`,
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
		fmt.Fprintf(w, "proven: this entry is in the log %s of %d entries\n%s\n", last.Origin, last.Size, f.Entry)
	case "consistency":
		fmt.Fprintf(w, "proven: the log %s of %d entries begins with what it was when it had %d\n",
			last.Origin, last.Size, f.Checkpoints[0].Size)
	default:
		fmt.Fprintf(w, "signed: the log %s had %d entries\n", last.Origin, last.Size)
	}
	var err error
	for _, c := range f.Checkpoints {
		_, err = fmt.Fprintf(w, "checkpoint of %d entries: root %s, chain %s\n", c.Size, c.Root, c.Chain)
	}
	return err
}
