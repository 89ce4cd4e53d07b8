package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/proof"
)

// ReadSigned reads the signed checkpoints of one log from files, and the keys that they must be signed with. It returns
// them from the smallest to the largest; none, if no file is given. Two that contradict each other are a
// *proof.ForkError.
func ReadSigned(keys, files []string) ([]proof.Checkpoint, error) {
	switch {
	case len(files) == 0 && len(keys) == 0:
		return nil, nil
	case len(files) == 0:
		return nil, logs.Refuse(
			"--key needs --checkpoint: without one the log is compared with nothing that was signed")
	case len(keys) == 0:
		return nil, logs.Refuse("--checkpoint needs --key: the public key of whoever has signed it")
	}
	known, err := readKeys(keys)
	if err != nil {
		return nil, err
	}
	var list []proof.Checkpoint
	for _, file := range files {
		msg, err := readSome(file)
		if err != nil {
			return nil, err
		}
		c, err := proof.OpenCheckpoint(msg, known)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(list) > 0 && list[0].Origin != c.Origin {
			return nil, logs.Refuse("%s is a checkpoint of the log %q, and %s of %q: a log is compared with its own",
				files[0], list[0].Origin, file, c.Origin)
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b proof.Checkpoint) int { return cmp.Compare(a.Size, b.Size) })
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1], list[i]; a.Size == b.Size && a != b {
			return nil, proof.NewForkError(a, b)
		}
	}
	return list, nil
}

// Compare compares a log, whose entries were verified, with signed checkpoints, from the smallest to the largest. It
// returns those that agree. The damage that it returns is behind the largest of them.
func Compare(ctx context.Context, log *logs.Source, signed []proof.Checkpoint) (
	agree []CheckpointReport, damage *eventlog.DamagedError, err error,
) {
	last, err := log.Last()
	if err != nil {
		return nil, nil, err
	}
	sound := uint64(0)
	damaged := func(seq uint64, format string, args ...any) *eventlog.DamagedError {
		return &eventlog.DamagedError{Path: log.Path(), Seq: seq, Err: fmt.Errorf(format, args...)}
	}
	for _, c := range signed {
		if c.Size > last && log.Live() {
			return agree, nil, fmt.Errorf(
				"the checkpoint of %d entries cannot be compared: the log is being written to, "+
					"and can be read up to entry %d",
				c.Size,
				last,
			)
		}
		if c.Size > last {
			return agree, damaged(
				last+1,
				"the log ends with entry %d, but %s has signed that it had %d",
				last,
				c.Origin,
				c.Size,
			), nil
		}
		at, err := eventlog.OriginAt(ctx, log, c.Size)
		if err != nil {
			return agree, nil, fmt.Errorf("compare with the checkpoint of %d entries: %w", c.Size, err)
		}
		if tree := at.Tree; tree.Root() != c.Root {
			return agree, damaged(sound+1, "entries %d to %d are not all what %s has signed: "+
				"the tree over the first %d has the root %v, signed is %v",
				sound+1, c.Size, c.Origin, c.Size, tree.Root(), c.Root), nil
		}
		if at.Hash != c.Chain {
			return agree, damaged(
				c.Size,
				"the record of entry %d is not the one that %s has signed: it has the hash %x, "+
					"signed is %x, though the tree is the same: the two halves of the checkpoint are of different logs",
				c.Size,
				c.Origin,
				at.Hash,
				c.Chain,
			), nil
		}
		sound = c.Size
		agree = append(agree, ReportOf(c))
	}
	return agree, nil, nil
}
