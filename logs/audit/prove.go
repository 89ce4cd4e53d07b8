package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs"
)

// A Claim is a statement to prove. It says that an entry is in a log (Seq and Size), how a pod came to its node
// (Namespace, Name and Size), or that a log has grown (From and To). Zeros are found out, from the checkpoints and the
// log.
type Claim struct {
	// Seq is an entry, and Size how many entries the log has that it is in.
	Seq, Size uint64
	// Namespace and Name identify a pod. A proof of all entries that show the pod's last placement, in the log of Size
	// entries, proves the placement. UID, if it is not "", says which of the pods of that name.
	Namespace, Name string
	UID             types.UID
	// From and To are the numbers of entries that the log had earlier and later.
	From, To uint64
	// Checkpoints are files with signed checkpoints, for the proof to carry.
	Checkpoints []string

	notes [][]byte // the content of Checkpoints
}

// Complete reads the checkpoints, and takes from them the values that the claim lacks. Errors in the claim are
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

// Prove proves the claim, once it is complete.
func (c *Claim) Prove(ctx context.Context, log *logs.Source) (*proof.Proof, error) {
	p, err := c.prove(ctx, log)
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

func (c *Claim) prove(ctx context.Context, log *logs.Source) (p *proof.Proof, err error) {
	err = proving(log, func(prover *proof.Prover, end logEnd) (err error) {
		size := &c.To
		if c.ofEntries() {
			size = &c.Size
		}
		if *size, err = end.reach(*size); err != nil {
			return err
		}
		if most := max(c.Seq, c.From); most > *size { // which was the log's last, or fill would have said so
			_, err := end.reach(most)
			return err
		}
		switch {
		case c.Seq > 0:
			p, err = prover.Inclusion(ctx, c.Seq, c.Size)
		case c.Name != "":
			var seqs []uint64
			if seqs, err = findPlacement(ctx, log, c.Namespace, c.Name, c.UID, c.Size); err == nil {
				p, err = prover.Placement(ctx, seqs, c.Size)
			}
		default:
			p, err = prover.Consistency(ctx, c.From, c.To)
		}
		return err
	})
	return p, err
}

// ofEntries reports whether entries of one log are to be proven, not its growth.
func (c *Claim) ofEntries() bool { return c.Seq > 0 || c.Name != "" }

// fill takes missing values from checkpoints of the given sizes.
func (c *Claim) fill(sizes []uint64) error {
	switch {
	case (c.ofEntries() || c.Size > 0) && (c.From > 0 || c.To > 0):
		return errors.New("--seq, --pod and --size are for entries, --from and --to for the log's growth: " +
			"one of the two")
	case c.Seq > 0 && c.Name != "":
		return errors.New("--seq is for an entry, --pod for the entries of a placement: one of the two")
	case c.UID != "" && c.Name == "":
		return errors.New("--uid needs --pod")
	}
	if c.ofEntries() {
		return c.fillSize(sizes)
	}
	return c.fillGrowth(sizes)
}

// fillSize takes from checkpoints how many entries the log has that the claim is about.
func (c *Claim) fillSize(sizes []uint64) error {
	if len(sizes) > 1 {
		return errors.New("entries are proven against one checkpoint: give --checkpoint once")
	}
	if c.Size == 0 && len(sizes) == 1 {
		c.Size = sizes[0]
	}
	if c.Size > 0 && c.Seq > c.Size {
		return fmt.Errorf("entry %d is not among the first %d: take a later checkpoint", c.Seq, c.Size)
	}
	return nil

}

// fillGrowth takes from checkpoints from which to which size the log has grown.
func (c *Claim) fillGrowth(sizes []uint64) error {
	if len(sizes) > 2 {
		return errors.New("growth is proven between two checkpoints: give --checkpoint at most twice")
	}
	if len(sizes) == 2 {
		if err := proof.CheckOrder(sizes[0], sizes[1]); err != nil {
			return fmt.Errorf("--checkpoint %s --checkpoint %s: %w", c.Checkpoints[0], c.Checkpoints[1], err)
		}
	}
	if c.From == 0 && len(sizes) > 0 {
		c.From = slices.Min(sizes)
	}
	if c.To == 0 && len(sizes) == 2 {
		c.To = slices.Max(sizes)
	}
	if c.From == 0 {
		return errors.New("what is to be proven? --seq for an entry, --pod for a placement, --from and --to for the " +
			"log's growth")
	}
	if c.To > 0 && c.From > c.To {
		return fmt.Errorf("--from is %d, after --to %d", c.From, c.To)
	}
	return nil
}

// readCheckpoints reads files with signed checkpoints, and how many entries each is of.
func readCheckpoints(files []string) (notes [][]byte, sizes []uint64, err error) {
	for _, file := range files {
		content, err := readSome(file)
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
