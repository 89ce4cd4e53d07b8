package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/proof"
)

// A Claim is what is to be proven: that an entry is in a log (Seq and Size), or that a log has grown (From and To).
// Zeros are found out, from the checkpoints and the log.
type Claim struct {
	// Seq is an entry, and Size how many entries the log has that it is in.
	Seq, Size uint64
	// From and To are how many entries the log had earlier and later.
	From, To uint64
	// Checkpoints are files with signed checkpoints, for the proof to carry.
	Checkpoints []string

	notes [][]byte // what stands in Checkpoints
}

// Complete reads the checkpoints, and takes from them what the claim does not say. Errors in the claim are
// *logs.RequestErrors.
func (c *Claim) Complete() error {
	var sizes []uint64
	var err error
	if c.notes, sizes, err = readCheckpoints(c.Checkpoints); err != nil {
		return err
	}
	if err := c.fill(sizes); err != nil {
		return &logs.RequestError{Err: err}
	}
	return nil
}

// Prove proves what is claimed, once it is complete.
func (c *Claim) Prove(log *logs.Source) (*proof.Proof, error) {
	p, err := c.prove(log)
	if err != nil {
		return nil, err
	}
	for i, note := range c.notes {
		if err := p.Attach(note); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Checkpoints[i], err)
		}
	}
	return p, nil
}

func (c *Claim) prove(log *logs.Source) (p *proof.Proof, err error) {
	err = proving(log, func(prover *proof.Prover, end logEnd) (err error) {
		size := &c.To
		if c.Seq > 0 {
			size = &c.Size
		}
		if *size, err = end.reach(*size); err != nil {
			return err
		}
		if most := max(c.Seq, c.From); most > *size { // which was the log's last, or fill would have said so
			_, err := end.reach(most)
			return err
		}
		if c.Seq > 0 {
			p, err = prover.Inclusion(context.Background(), c.Seq, c.Size)
		} else {
			p, err = prover.Consistency(context.Background(), c.From, c.To)
		}
		return err
	})
	return p, err
}

// fill takes from checkpoints of the given sizes what was not said.
func (c *Claim) fill(sizes []uint64) error {
	if (c.Seq > 0 || c.Size > 0) && (c.From > 0 || c.To > 0) {
		return errors.New("--seq and --size are for an entry, --from and --to for the log's growth: one of the two")
	}
	if c.Seq > 0 {
		if len(sizes) > 1 {
			return errors.New("an entry is proven against one checkpoint: give --checkpoint once")
		}
		if c.Size == 0 && len(sizes) == 1 {
			c.Size = sizes[0]
		}
		if c.Size > 0 && c.Seq > c.Size {
			return fmt.Errorf("entry %d is not among the first %d: take a later checkpoint", c.Seq, c.Size)
		}
		return nil
	}
	if len(sizes) > 2 {
		return errors.New("growth is proven between two checkpoints: give --checkpoint at most twice")
	}
	if c.From == 0 && len(sizes) > 0 {
		c.From = slices.Min(sizes)
	}
	if c.To == 0 && len(sizes) == 2 {
		c.To = slices.Max(sizes)
	}
	if c.From == 0 {
		return errors.New("what is to be proven? --seq for an entry, --from and --to for the log's growth")
	}
	if c.To > 0 && c.From > c.To {
		return fmt.Errorf("--from is %d, after --to %d", c.From, c.To)
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
