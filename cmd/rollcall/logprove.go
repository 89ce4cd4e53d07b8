package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/proof"
)

// claim is what "rollcall log prove" is asked for. Zeros are to be found out.
type claim struct {
	seq, size   uint64 // that an entry is in the log of so many
	from, to    uint64 // that a log has grown
	checkpoints []string
}

func newLogProve() *cobra.Command {
	var open reading
	var c claim
	cmd := &cobra.Command{
		Use:   "prove LOG|BUNDLE (--seq N | --from A --to B)",
		Short: "Prove an entry, or that a log only grew, to who has not the log",
		Long: `Prints a proof for rollcall log check, which needs neither the log nor trust in whoever sent it.

With --seq, it proves that the entry is in the log of a checkpoint, and contains the entry: give it only
to those who may see that. With --from and --to, it proves that the first A entries of the log of B
entries are those of the log when it had A: nothing was changed, removed or put between them. The
numbers are those of checkpoints; with --checkpoint they are taken from there, the log is compared
with the checkpoints, and the proof carries them. Of a log that is known to be damaged, or to have lost
its end, nothing is proven against its last entry: say how many entries.`,
		Example: `  rollcall log prove jobs.log --seq 4711 --checkpoint gpu-west.2026-03-01 > placement.proof
  rollcall log prove jobs.log --checkpoint gpu-west.2026-02-01 --checkpoint gpu-west.2026-03-01 > february.proof`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"seq", "size", "from", "to"} {
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "0" {
					return usageError{fmt.Errorf("--%s is 0: entries are numbered from 1", name)}
				}
			}
			p, err := c.prove(open, args[0])
			if err != nil {
				return err
			}
			content, err := p.Encode()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&c.seq, "seq", 0, "the entry to prove")
	f.Uint64Var(&c.size, "size", 0, "how many entries the checkpoint has that the entry is proven against; default: the log's last")
	f.Uint64Var(&c.from, "from", 0, "how many entries the earlier checkpoint has")
	f.Uint64Var(&c.to, "to", 0, "how many entries the later checkpoint has; default: the log's last")
	f.StringArrayVar(&c.checkpoints, "checkpoint", nil, "a file with a signed checkpoint, for the proof to carry; may be given twice with --from and --to")
	open.register(cmd)
	return cmd
}

func (c claim) prove(open reading, path string) (*proof.Proof, error) {
	notes, sizes, err := readCheckpoints(c.checkpoints)
	if err != nil {
		return nil, err
	}
	if err := c.fill(sizes); err != nil {
		return nil, usageError{err}
	}
	var p *proof.Proof
	err = proving(open, path, func(prover *proof.Prover, end logEnd) (err error) {
		size := &c.to
		if c.seq > 0 {
			size = &c.size
		}
		if *size, err = end.reach(*size); err != nil {
			return err
		}
		if most := max(c.seq, c.from); most > *size { // which was the log's last, or claim.fill would have said so
			_, err := end.reach(most)
			return err
		}
		if c.seq > 0 {
			p, err = prover.Inclusion(c.seq, c.size)
		} else {
			p, err = prover.Consistency(c.from, c.to)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, note := range notes {
		if err := p.Attach(note); err != nil {
			return nil, fmt.Errorf("%s: %w", c.checkpoints[i], err)
		}
	}
	return p, nil
}

// fill takes from checkpoints of the given sizes what was not said.
func (c *claim) fill(sizes []uint64) error {
	if (c.seq > 0 || c.size > 0) && (c.from > 0 || c.to > 0) {
		return errors.New("--seq and --size are for an entry, --from and --to for the log's growth: one of the two")
	}
	if c.seq > 0 {
		if len(sizes) > 1 {
			return errors.New("an entry is proven against one checkpoint: give --checkpoint once")
		}
		if c.size == 0 && len(sizes) == 1 {
			c.size = sizes[0]
		}
		if c.size > 0 && c.seq > c.size {
			return fmt.Errorf("entry %d is not among the first %d: take a later checkpoint", c.seq, c.size)
		}
		return nil
	}
	if len(sizes) > 2 {
		return errors.New("growth is proven between two checkpoints: give --checkpoint at most twice")
	}
	if c.from == 0 && len(sizes) > 0 {
		c.from = slices.Min(sizes)
	}
	if c.to == 0 && len(sizes) == 2 {
		c.to = slices.Max(sizes)
	}
	if c.from == 0 {
		return errors.New("what is to be proven? --seq for an entry, --from and --to for the log's growth")
	}
	if c.to > 0 && c.from > c.to {
		return fmt.Errorf("--from is %d, after --to %d", c.from, c.to)
	}
	return nil
}

// readCheckpoints reads files with signed checkpoints, and how many entries each is of.
func readCheckpoints(files []string) (notes [][]byte, sizes []uint64, err error) {
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, fmt.Errorf("read the checkpoint: %w", err)
		}
		size, err := proof.SizeOf(content)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		notes, sizes = append(notes, content), append(sizes, size)
	}
	return notes, sizes, nil
}
