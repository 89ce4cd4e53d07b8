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

// A Comparison says what came of comparing a log with signed checkpoints.
type Comparison struct {
	// Agree are the checkpoints that the log agrees with.
	Agree []CheckpointReport
	// Mismatches are those that it does not agree with.
	Mismatches []Mismatch
	// NotCompared are those of which it is not known.
	NotCompared []NotCompared
}

// A Mismatch is a checkpoint of another log than the one that was compared with it, whatever has become of that one
// since.
type Mismatch struct {
	CheckpointReport
	// From is the first entry that may differ: those before it are what an earlier checkpoint has signed.
	From uint64 `json:"from"`
	// Reason says in what the two differ.
	Reason string `json:"reason"`
}

// NotCompared is a checkpoint that a log cannot be compared with.
type NotCompared struct {
	CheckpointReport
	Reason string `json:"reason"`
}

// A MismatchError says that a log is not what was signed.
type MismatchError struct {
	Path       string
	Mismatches []Mismatch
	// Agree are the checkpoints that the log does agree with.
	Agree []CheckpointReport
}

// Error implements error.
func (e *MismatchError) Error() string {
	first := e.Mismatches[0]
	text := fmt.Sprintf("%s does not match the checkpoint of %d entries of %s: %s", e.Path, first.Size, first.Origin,
		first.Reason)
	for _, c := range e.Agree {
		if c.Size > first.Size {
			text += fmt.Sprintf("; but it matches the checkpoint of %d entries: "+
				"the two checkpoints contradict each other, keep both", c.Size)
		}
	}
	return text
}

// Advice says what to do about the mismatch.
func (e *MismatchError) Advice() string {
	return "No fault of a disk does that: this is another log than the one that was signed, or an older copy of it, " +
		"or it was changed since.\nKeep the checkpoint and this log as they are, and look for the log that was signed"
}

// Compare compares a log, whose entries were verified up to entry last, with signed checkpoints, from the smallest to
// the largest. more says why there may be entries behind last; "" for none.
func Compare(ctx context.Context, log *logs.Source, signed []proof.Checkpoint, last uint64, more string) (
	c Comparison, err error,
) {
	sound := uint64(0)
	for _, s := range signed {
		report := ReportOf(s)
		differ := func(from uint64, format string, args ...any) {
			c.Mismatches = append(c.Mismatches, Mismatch{report, from, fmt.Sprintf(format, args...)})
		}
		skip := func(format string, args ...any) {
			c.NotCompared = append(c.NotCompared, NotCompared{report, fmt.Sprintf(format, args...)})
		}
		switch first := log.First(); {
		case s.Size+1 < first:
			skip("the log begins with entry %d", first)
			continue
		case s.Size > last && more != "":
			skip("the log can be read up to entry %d: %s", last, more)
			continue
		case s.Size > last:
			differ(last+1, "the log ends with entry %d, but %s has signed that it had %d", last, s.Origin, s.Size)
			continue
		}
		at, err := eventlog.OriginAt(ctx, log, s.Size)
		switch tree := at.Tree; {
		case err != nil:
			return c, fmt.Errorf("compare with the checkpoint of %d entries: %w", s.Size, err)
		case tree.Root() != s.Root:
			differ(sound+1, "entries %d to %d are not all what %s has signed: "+
				"the tree over the first %d has the root %v, signed is %v",
				sound+1, s.Size, s.Origin, s.Size, tree.Root(), s.Root)
		case at.Hash != s.Chain:
			differ(s.Size, "the record of entry %d is not the one that %s has signed: it has the hash %x, "+
				"signed is %x, though the tree is the same: the two halves of the checkpoint are of different logs",
				s.Size, s.Origin, at.Hash, s.Chain)
		default:
			sound = s.Size
			c.Agree = append(c.Agree, report)
		}
	}
	return c, nil
}
