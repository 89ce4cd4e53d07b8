package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/bundle"
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

// A Comparison is the result of comparing a log with signed checkpoints.
type Comparison struct {
	// Agree are the checkpoints that the log agrees with.
	Agree []CheckpointReport
	// Mismatches are the checkpoints that it does not agree with.
	Mismatches []Mismatch
	// NotCompared are the checkpoints for which that is not known.
	NotCompared []NotCompared
}

// A MismatchKind says how a log differs from the signed one.
type MismatchKind string

const (
	// EndsBefore: the log has fewer entries than were signed. All of its entries may be as they were signed.
	EndsBefore MismatchKind = "EndsBefore"
	// AnotherHistory: the log has as many entries, and they are others.
	AnotherHistory MismatchKind = "AnotherHistory"
)

// A Mismatch is a checkpoint of another log than the one that was compared with it, whatever has become of that one
// since.
type Mismatch struct {
	CheckpointReport
	Kind MismatchKind `json:"kind"`
	// From is the first entry that may differ, or is missing. The entries before it are as an earlier checkpoint has
	// signed them, or they are all that exist.
	From uint64 `json:"from"`
	// Reason says how the two differ.
	Reason string `json:"reason"`
}

// A NotComparedKind says why a log cannot be compared with a checkpoint.
type NotComparedKind string

const (
	// Absent: entries that the checkpoint has signed are not there, and nothing is damaged. They are archived, come
	// before the beginning of a bundle, or the log is somewhere else.
	Absent NotComparedKind = "Absent"
	// Damaged: the log is damaged before the end of the signed entries.
	Damaged NotComparedKind = "Damaged"
	// Unreadable: the system does not let the log be read as far.
	Unreadable NotComparedKind = "Unreadable"
	// Newer: a newer version of Rollcall wrote the log, in a format that this one does not know.
	Newer NotComparedKind = "Newer"
	// Older: the log was written before the first release, in a format that this version does not read.
	Older NotComparedKind = "Older"
	// BeingWritten: the log is being written to, and its writer has not reported as many entries.
	BeingWritten NotComparedKind = "BeingWritten"
)

// kindOf returns why a log was not compared if an error has kept it from that.
func kindOf(err error) NotComparedKind {
	var damage *eventlog.DamagedError
	var damagedBundle *bundle.DamagedError
	var archived *eventlog.ArchivedError
	var noLog *logs.NoLogError
	var unreadable *eventlog.UnreadableError
	var entryFormat *eventlog.FormatError
	var logFormat *boltlog.FormatError
	var newerBundle *bundle.FormatError
	switch {
	case errors.As(err, &unreadable):
		return Unreadable
	case errors.As(err, &entryFormat) && entryFormat.Format < eventlog.FormatVersion,
		errors.As(err, &logFormat) && logFormat.Format < boltlog.Format:
		return Older
	case entryFormat != nil, logFormat != nil, errors.As(err, &newerBundle):
		return Newer
	case errors.As(err, &damage), errors.As(err, &damagedBundle):
		return Damaged
	case errors.As(err, &archived), errors.As(err, &noLog), errors.Is(err, boltlog.ErrNoSegments):
		return Absent
	}
	return Unreadable
}

// NotCompared is a checkpoint that a log cannot be compared with.
type NotCompared struct {
	CheckpointReport
	Kind   NotComparedKind `json:"kind"`
	Reason string          `json:"reason"`

	// Err is the error that kept the log from being compared, nil if there was none.
	Err error `json:"-"`
}

// NotComparedWith says for each of the checkpoints that an error has kept a log from being compared with it.
func NotComparedWith(signed []proof.Checkpoint, err error) (list []NotCompared) {
	for _, c := range signed {
		list = append(list,
			NotCompared{CheckpointReport: ReportOf(c), Kind: kindOf(err), Reason: err.Error(), Err: err})
	}
	return list
}

// A MismatchError says that a log differs from the signed one.
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
	for _, m := range e.Mismatches[1:] {
		text += fmt.Sprintf("; nor the one of %d entries: %s", m.Size, m.Reason)
	}
	return text
}

// Advice returns the remedy for the mismatch.
func (e *MismatchError) Advice() string {
	var lines []string
	is := func(kind MismatchKind) func(Mismatch) bool {
		return func(m Mismatch) bool { return m.Kind == kind }
	}
	if slices.ContainsFunc(e.Mismatches, is(AnotherHistory)) {
		lines = append(lines, "No fault of a disk does that: this is another log than the one that was signed, "+
			"an older copy of it that was written on, or it was changed since.")
	}
	look := "look for the log that was signed"
	if i := slices.IndexFunc(e.Mismatches, is(EndsBefore)); i >= 0 {
		lines = append(lines, "The log has lost its end, or this is an older copy of it: an older backup that was "+
			"restored, files that were taken away, or a disk that lost what it had kept can do that, and so can "+
			"somebody who cut it.")
		if len(lines) == 1 {
			look = fmt.Sprintf("look for the entries from %d on: in a later copy, or on the machine that wrote them",
				e.Mismatches[i].From)
		}
	}
	return strings.Join(append(lines, "Keep the checkpoint and this log as they are, and "+look), "\n")
}

// Rest says why there may be entries behind the verified ones. Its zero value says that there are none.
type Rest struct {
	Kind   NotComparedKind
	Reason string
}

// Log can be compared with signed checkpoints.
type Log interface {
	eventlog.RecordReader
	// First returns the number of the first entry that can be read.
	First() uint64
}

// Compare compares a log, whose entries were verified up to entry last, with signed checkpoints, from the smallest to
// the largest. Each of them is in the Comparison once. The error is that ctx has ended.
func Compare(ctx context.Context, log Log, signed []proof.Checkpoint, last uint64, rest Rest) (
	c Comparison, err error,
) {
	sound := uint64(0)
	for _, s := range signed {
		report := ReportOf(s)
		differ := func(kind MismatchKind, from uint64, format string, args ...any) {
			c.Mismatches = append(c.Mismatches, Mismatch{report, kind, from, fmt.Sprintf(format, args...)})
		}
		skip := func(kind NotComparedKind, format string, args ...any) {
			c.NotCompared = append(c.NotCompared,
				NotCompared{CheckpointReport: report, Kind: kind, Reason: fmt.Sprintf(format, args...)})
		}
		switch first := log.First(); {
		case s.Size+1 < first:
			skip(Absent, "the log begins with entry %d", first)
			continue
		case s.Size > last && rest.Reason != "":
			skip(rest.Kind, "the log can be read up to entry %d: %s", last, rest.Reason)
			continue
		case s.Size > last:
			differ(EndsBefore, last+1, "the log ends with entry %d, but %s has signed that it had %d", last, s.Origin,
				s.Size)
			continue
		}
		at, err := eventlog.OriginAt(ctx, log, s.Size)
		if ctx.Err() != nil {
			return c, fmt.Errorf("compare with the checkpoint of %d entries: %w", s.Size, context.Cause(ctx))
		}
		switch tree := at.Tree; {
		case err != nil:
			c.NotCompared = append(c.NotCompared, NotComparedWith([]proof.Checkpoint{s}, err)...)
		case tree.Root() != s.Root:
			differ(AnotherHistory, sound+1, "entries %d to %d are not all what %s has signed: "+
				"the tree over the first %d has the root %v, signed is %v",
				sound+1, s.Size, s.Origin, s.Size, tree.Root(), s.Root)
		case at.Hash != s.Chain:
			differ(AnotherHistory, s.Size, "the record of entry %d is not the one that %s has signed: it has the hash "+
				"%x, signed is %x, though the tree is the same: the two halves of the checkpoint are of different logs",
				s.Size, s.Origin, at.Hash, s.Chain)
		default:
			sound = s.Size
			c.Agree = append(c.Agree, report)
		}
	}
	return c, nil
}
