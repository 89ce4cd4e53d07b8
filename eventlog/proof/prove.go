package proof

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// A Prover makes checkpoints and proofs of a log. It makes one skip the log's entries, to the end. The pass begins at
// the first entry that the proof is about, or at the last known tree before it.
type Prover struct {
	Log eventlog.RecordReader
	// Progress, if not nil, gets the number of the entry that the pass has reached, now and then.
	Progress func(seq uint64)
}

// Checkpoint returns the checkpoint, not yet signed, of the first size entries of the log with the given name.
func (p *Prover) Checkpoint(ctx context.Context, origin string, size uint64) (Checkpoint, error) {
	c := Checkpoint{Origin: origin, Size: size}
	tree, err := p.pass(ctx, size, size, nil)
	if err != nil {
		return c, fmt.Errorf("make a checkpoint of %d entries: %w", size, err)
	}
	c.Root = tree.Root()
	if c.Chain, err = p.Log.RecordHash(ctx, size); err != nil {
		return c, fmt.Errorf("make a checkpoint of %d entries: %w", size, err)
	}
	return c, nil
}

// Inclusion proves that entry seq is in the log of the first size entries.
func (p *Prover) Inclusion(ctx context.Context, seq, size uint64) (*Proof, error) {
	if seq < 1 || seq > size || size > merkle.MaxSize {
		return nil, fmt.Errorf("prove entry %d: a log of %d entries has no such entry", seq, size)
	}
	i := &Inclusion{Seq: seq, Size: size}
	n, t := int64(seq)-1, int64(size)
	var err error
	if i.Record, err = p.record(ctx, seq); err == nil {
		i.Root, err = p.prove(ctx, seq-1, size, func(r tlog.HashReader) (err error) {
			i.Hashes, err = tlog.ProveRecord(t, n, r)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("prove entry %d: %w", seq, err)
	}
	return &Proof{Format: Format, Inclusion: i}, nil
}

// Consistency proves that the log of the first to entries begins with the log of the first from entries.
func (p *Prover) Consistency(ctx context.Context, from, to uint64) (*Proof, error) {
	if from < 1 || from > to || to > merkle.MaxSize {
		return nil, fmt.Errorf("prove growth from %d to %d entries: want numbers from 1 on that do not fall", from, to)
	}
	c := &Consistency{From: from, To: to}
	var err error
	c.ToRoot, err = p.prove(ctx, from, to, func(r tlog.HashReader) (err error) {
		if c.FromRoot, err = tlog.TreeHash(int64(from), r); err != nil {
			return err
		}
		c.Hashes, err = tlog.ProveTree(int64(to), int64(from), r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prove growth from %d to %d entries: %w", from, to, err)
	}
	return &Proof{Format: Format, Consistency: c}, nil
}

// Attach adds a signed checkpoint to a proof. The checkpoint must be of one of the proof's sizes and agree with it.
// Attach does not check the signature: Proof.Check does.
func (p *Proof) Attach(msg []byte) error {
	c, err := readCheckpoint(msg)
	if err != nil {
		return err
	}
	for i, size := range p.Sizes() {
		if size != c.Size {
			continue
		}
		if root := p.roots()[i]; root != c.Root {
			return fmt.Errorf(
				"the log's first %d entries have the root %v, but the checkpoint says %v: it is of another log, or "+
					"the log was changed since",
				size,
				root,
				c.Root,
			)
		}
		p.Checkpoints = append(p.Checkpoints, string(msg))
		return nil
	}
	return fmt.Errorf("the checkpoint is of %d entries, of which the proof does not speak", c.Size)
}

// SizeOf returns the log's number of entries in a signed checkpoint. It does not check the signature.
func SizeOf(checkpoint []byte) (uint64, error) {
	c, err := readCheckpoint(checkpoint)
	return c.Size, err
}

// prove runs attempt twice: first to learn which hashes it reads, and again after one skip the log has gathered them.
// The hashes belong to subtrees that end after start entries, or to the frontier of the tree over start entries. prove
// returns the root over size entries.
func (p *Prover) prove(
	ctx context.Context, start, size uint64, attempt func(tlog.HashReader) error,
) (tlog.Hash, error) {
	want := gathered{}
	if err := attempt(tlog.HashReaderFunc(want.note)); err != nil {
		return tlog.Hash{}, err
	}
	tree, err := p.pass(ctx, start, size, want)
	if err != nil {
		return tlog.Hash{}, err
	}
	return tree.Root(), attempt(want)
}

// gathered are hashes by their number in package tlog's order; nil until they are known.
type gathered map[int64]*tlog.Hash

// note records the hashes to gather.
func (g gathered) note(indexes []int64) ([]tlog.Hash, error) {
	for _, i := range indexes {
		g[i] = nil
	}
	return make([]tlog.Hash, len(indexes)), nil
}

// see keeps a subtree's hash if it is one of those to gather.
func (g gathered) see(level int, n uint64, hash tlog.Hash) {
	i := tlog.StoredHashIndex(level, int64(n))
	if _, ok := g[i]; ok {
		g[i] = &hash
	}
}

// ReadHashes implements tlog.HashReader.
func (g gathered) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for at, i := range indexes {
		if g[i] == nil {
			level, n := tlog.SplitStoredHashIndex(i)
			return nil, fmt.Errorf("the hash of subtree %d of level %d was not met", n, level)
		}
		out[at] = *g[i]
	}
	return out, nil
}

// record returns an entry's record.
func (p *Prover) record(ctx context.Context, seq uint64) ([]byte, error) {
	for r, err := range p.Log.Records(ctx, seq) {
		return slices.Clone(r.Bytes), err
	}
	return nil, fmt.Errorf("there is no entry %d", seq)
}

// pass extends the largest known tree of at most start entries to size entries, and calls want.see with all subtrees
// on the way.
func (p *Prover) pass(ctx context.Context, start, size uint64, want gathered) (merkle.Tree, error) {
	tree, err := p.Log.KnownTree(ctx, start)
	if err != nil {
		return tree, err
	}
	tree.Each(want.see)
	if tree.Size == size {
		return tree, nil
	}
	for r, err := range p.Log.Records(ctx, tree.Size+1) {
		if err != nil {
			return tree, err
		}
		tree.AddSeeing(r.Hash, want.see)
		if tree.Size == size {
			return tree, nil
		}
		if p.Progress != nil && tree.Size%8192 == 0 {
			p.Progress(tree.Size)
		}
	}
	return tree, fmt.Errorf("the log has only %d entries", tree.Size)
}
