package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bundle"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// verifyFacts is what "rollcall log verify" prints.
type verifyFacts struct {
	Path     string `json:"path"`
	Whole    bool   `json:"whole"`
	Segments int    `json:"segments"`
	// First is the first entry that was checked, and Entries how many were found good from there on: in a
	// damaged log those that can be read.
	First   uint64 `json:"first"`
	Entries uint64 `json:"entries"`
	// Absent says why entries before First were not checked: they are archived and were not found.
	Absent string `json:"absent,omitempty"`
	// Hash is the last good entry's: who keeps it can tell later that nothing up to here was changed. Root is
	// that of the hash tree over all entries up to it, as a checkpoint has it.
	Hash string `json:"hash,omitempty"`
	Root string `json:"root,omitempty"`
	// Snapshots are those in the log's directory, or the bundle's.
	Snapshots []verifiedSnapshot `json:"snapshots,omitempty"`
	// Stateless says that no state can be made of the entries: those before are not there, nor is there a snapshot.
	Stateless bool `json:"stateless,omitempty"`
	// Checkpoints are the signed ones that the log agrees with.
	Checkpoints []checkpointFacts `json:"checkpoints,omitempty"`
	Live        bool              `json:"live"`
	// Tail are the last entries of a log that is being written to, and Unread says why none or not all of them could be
	// had: then Whole is false, and what stands behind the Entries is not known.
	Tail   *tailFacts `json:"tail,omitempty"`
	Unread string     `json:"unread,omitempty"`
	// Doubt says why it is not known whether the log had more entries: then Whole is false, though the Entries are good.
	Doubt            string       `json:"doubt,omitempty"`
	Damage           *damageFacts `json:"damage,omitempty"`
	Seconds          float64      `json:"seconds"`
	EntriesPerSecond float64      `json:"entriesPerSecond"`

	advice string // what to do about the damage
}

// damageFacts is the place where a log is damaged.
type damageFacts struct {
	Path   string `json:"path"`
	Seq    uint64 `json:"seq"`
	Reason string `json:"reason"`
}

func newLogVerify() *cobra.Command {
	var open reading
	var out output
	var keys, checkpoints []string
	cmd := &cobra.Command{
		Use:   "verify LOG|BUNDLE",
		Short: "Check every byte of a log that a reader relies on",
		Long: `Reads every entry of every segment and checks the checksums, the sequence numbers, the chain of
hashes, the hash tree that checkpoints are made of, that time does not go back, that epochs grow by one,
and that every entry can be decoded; then the structure of each file. Each segment is checked in a process of its own, which damaged pages may
bring down. Of a damaged log it prints the place and which entries can still be read; then the exit
code is 4. Of a log that is being written to, the last segment's entries are those that its writer tells,
and all of the above but the file's structure is checked; if it does not tell, the exit code is 1.

Snapshots are checked too: each must be whole, and of an entry that the log has. One that is not is named
and never used; the log is whole without it, and the exit code is 1. If one cannot be read, it is not known whether
the log had more entries: then it is not called whole, and the exit code is 1. It is 4 if there is none that is good
and the log's first entries are not there. If they are not and there is no snapshot at all, the entries are
checked as ever; but no state can be made of them, and the exit code is 1. Whether a snapshot's state is the one that the entries make,
rollcall replay says.

A log that was written anew from some entry on, or cut short, is whole in itself. Only a signed
checkpoint that was kept elsewhere tells: with --checkpoint and --key the log is compared with it.`,
		Example: `  rollcall log verify jobs.log
  rollcall log verify jobs.log -o json | jq .damage
  rollcall log verify jobs.log --checkpoint gpu-west.2026-03-01 --key gpu-west.key.pub`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if dir, ok := boltlog.SegmentOf(args[0]); ok {
				return usageError{fmt.Errorf("%s is a file of a log, which cannot be checked without the one before it: verify the log, %s", args[0], dir)}
			}
			signed, err := readSigned(keys, checkpoints)
			if err != nil {
				return err
			}
			v := verifier{open: open, facts: verifyFacts{Path: args[0]}}
			defer v.close()
			check := v.run
			if bundle.Is(args[0]) {
				check = v.bundle
			}
			damage, err := check(cmd.Context())
			if err == nil && !bundle.Is(args[0]) {
				damage, err = v.compareSnapshots(damage)
			}
			if err == nil && damage == nil && signed != nil {
				damage, err = v.compare(signed)
			}
			if err != nil {
				return err
			}
			if err := out.write(cmd.OutOrStdout(), v.facts, v.facts.writeText); err != nil {
				return err
			}
			if damage != nil {
				return damage
			}
			if err := errors.Join(v.unread(), v.doubt()); err != nil {
				return err
			}
			return errors.Join(v.facts.stateless(), v.facts.badSnapshots())
		},
	}
	cmd.Flags().StringArrayVar(&checkpoints, "checkpoint", nil, "a file with a signed checkpoint to compare the log with; may be given more than once")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "a file with the public key that the checkpoints are signed with; may be given more than once")
	out.register(cmd)
	open.register(cmd)
	return cmd
}

// A verifier checks the segments of a log one after the other, and each against the one before it.
type verifier struct {
	open   reading
	facts  verifyFacts
	prev   segmentReport
	tree   *merkle.Tree // over the entries checked and those before; nil if it is not known
	sizes  []int64      // of the segments' files, in bytes
	at     int          // the segment under way
	before int64        // bytes of the segments before it
	total  int64
	shown  *progress

	checker *segmentChecker
	live    liveLog
}

// run fills v.facts. The damage it returns is in them too.
func (v *verifier) run(ctx context.Context) (*eventlog.DamagedError, error) {
	files, err := v.list()
	if err != nil {
		return nil, err
	}
	defer files.Close()
	for _, path := range files.Paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		v.sizes = append(v.sizes, info.Size())
		v.total += info.Size()
	}
	v.facts.Live = files.Live
	v.facts.First = files.Before.Last + 1
	if files.Absent != nil {
		var damage *eventlog.DamagedError
		if errors.As(files.Absent, &damage) {
			v.found(damage)
			return damage, nil
		}
		v.facts.Absent = files.Absent.Error()
	}
	v.prev = segmentReport{Facts: files.Before, Hash: files.Before.Hash}
	if v.tree = files.Before.SealedTree; v.tree == nil && files.Before.Last == 0 {
		v.tree = &merkle.Tree{}
	}
	if v.checker, err = newSegmentChecker(ctx, files); err != nil {
		return nil, err
	}
	defer v.checker.close()
	v.shown = newProgress()
	var damage *eventlog.DamagedError
	for i, path := range files.Paths {
		v.at = i
		if err = v.segment(ctx, path); err != nil {
			break
		}
		v.before += v.sizes[i]
	}
	if err == nil && files.Live {
		err = v.tail(ctx)
	}
	v.facts.Seconds = v.shown.done().Seconds()
	if !errors.As(err, &damage) && err != nil {
		return nil, err
	}
	if damage == nil && !files.Live {
		damage = v.loss()
	}
	v.found(damage)
	v.facts.EntriesPerSecond = float64(v.facts.Entries) / v.facts.Seconds
	if files.Live {
		noteLive(v.facts.First + v.facts.Entries - 1)
	}
	return damage, nil
}

// loss says whether a log that no writer has, and that is whole in itself, had more entries.
func (v *verifier) loss() *eventlog.DamagedError {
	last := v.facts.First + v.facts.Entries - 1
	series := snapshot.Series{Store: snapshotsOf(v.facts.Path)}
	lost, _, err := series.Beyond(last)
	if err != nil {
		v.facts.Doubt = err.Error()
	}
	if lost == nil {
		return nil
	}
	return &eventlog.DamagedError{Path: v.facts.Path, Seq: last + 1, Err: lost}
}

// bundle is run for a bundle: opening it checks all of it. What is wrong with one has no place in a log, and is an
// error.
func (v *verifier) bundle(context.Context) (*eventlog.DamagedError, error) {
	v.shown = newProgress()
	log, err := openBundle(v.facts.Path)
	v.facts.Seconds = v.shown.done().Seconds()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	end, err := log.OriginAt(last)
	if err != nil {
		return nil, err
	}
	v.facts.First, v.facts.Entries = log.First(), last+1-log.First()
	v.facts.EntriesPerSecond = float64(v.facts.Entries) / v.facts.Seconds
	if _, err := v.findSnapshots(log.records); err != nil {
		return nil, err
	}
	v.facts.Hash, v.facts.Root = fmt.Sprintf("%x", end.Hash), end.Tree.Root().String()
	v.found(nil)
	return nil, nil
}

// found writes the damage into the facts, or that there is none.
func (v *verifier) found(damage *eventlog.DamagedError) {
	if v.facts.Whole = damage == nil && v.facts.Unread == "" && v.facts.Doubt == ""; damage == nil {
		return
	}
	v.facts.Damage = &damageFacts{Path: damage.Path, Seq: damage.Seq, Reason: damage.Err.Error()}
	var lost *snapshot.LostError
	if errors.As(damage.Err, &lost) {
		v.facts.advice = adviceOnLoss(v.facts.Path, lost)
	} else if damage.Seq > v.facts.First {
		v.facts.advice = adviceOnDamage(v.facts.Path, v.facts.First, damage.Seq)
	}
}

// compare compares the log, in which nothing was found, with signed checkpoints.
func (v *verifier) compare(s signed) (damage *eventlog.DamagedError, err error) {
	if err := v.reopen(); err != nil {
		return nil, err
	}
	v.facts.Checkpoints, damage, err = s.compare(v.live, v.facts.Path)
	v.found(damage)
	return damage, err
}

// list finds the segments of the log at path.
func (r reading) list(path string) (*boltlog.Files, error) {
	files, err := boltlog.Options{Archives: r.archives}.List(path)
	return files, explainAbsence(path, err)
}

// segment checks the next segment.
func (v *verifier) segment(ctx context.Context, path string) error {
	report, err := v.checker.check(ctx, path, v.progress)
	var damage *eventlog.DamagedError
	if err != nil && !errors.As(err, &damage) {
		return err
	}
	if report.Facts.Path == "" { // it could not even be opened
		report.Facts = boltlog.Facts{Path: path, First: damage.Seq, Previous: v.prev.Hash}
	}
	if v.prev.Facts.MayPrecede(report.Facts, v.prev.Hash) {
		v.prev.Facts.Sealed, v.prev.Facts.Hash = true, v.prev.Hash
	}
	if err := report.Facts.Follows(v.prev.Facts); err != nil {
		return err
	}
	if err := v.follows(report); err != nil {
		return err
	}
	if damage != nil {
		v.facts.Entries = damage.Seq - v.facts.First
		return damage
	}
	if err := v.grow(report); err != nil {
		v.facts.Entries = report.Facts.First - v.facts.First
		return err
	}
	v.facts.Segments++
	v.facts.Entries = report.Facts.Last + 1 - v.facts.First
	if report.First.Seq == 0 { // an empty segment
		report.Last, report.Hash = v.prev.Last, v.prev.Hash
	}
	if v.prev = report; report.Facts.Last > 0 {
		v.facts.Hash = fmt.Sprintf("%x", report.Hash)
	}
	if v.tree != nil {
		v.facts.Root = v.tree.Root().String()
	}
	return nil
}

// follows says what is wrong with the first entry of a segment behind the last one before it.
func (v *verifier) follows(report segmentReport) error {
	if report.First.Seq == 0 || (v.prev.Last.Seq == 0 && report.First.Seq > 1) {
		return nil // there is none, or the one before it was not read
	}
	if err := report.First.Follows(v.prev.Last); err != nil {
		return &eventlog.DamagedError{Path: report.Facts.Path, Seq: report.First.Seq, Err: err}
	}
	return nil
}

// grow adds a segment's entries to the tree, and compares that with what the segment says of it.
func (v *verifier) grow(report segmentReport) error {
	damaged := func(seq uint64, tree *merkle.Tree, where string) error {
		return &eventlog.DamagedError{Path: report.Facts.Path, Seq: seq, Err: fmt.Errorf(
			"the hash tree over the first %d entries has the root %v, but %s says %v", v.tree.Size, v.tree.Root(), where, tree.Root())}
	}
	if v.tree == nil {
		if report.Facts.Tree == nil {
			return nil
		}
		v.tree = report.Facts.Tree
	}
	if tree := report.Facts.Tree; tree != nil && !tree.Equal(*v.tree) {
		return damaged(report.Facts.First, tree, "the segment")
	}
	grown := v.tree.Clone()
	for _, span := range report.Spans {
		if err := grown.Join(span); err != nil {
			return fmt.Errorf("compute the hash tree of %s: %w", report.Facts.Path, err)
		}
	}
	v.tree = &grown
	if tree := report.Facts.SealedTree; tree != nil && !tree.Equal(grown) {
		return damaged(report.Facts.First, tree, "the seal")
	}
	return nil
}

// progress draws a bar: the share of the files' bytes, taking the entries of one segment for equally large.
func (v *verifier) progress(at, first, last uint64) {
	done := float64(v.before)
	if last >= first {
		done += float64(v.sizes[v.at]) * float64(at+1-first) / float64(last+1-first)
	}
	const width = 30
	share := done / float64(max(1, v.total))
	v.shown.show("[%-*s] %3.0f%%  segment %d of %d, entry %d",
		width, strings.Repeat("=", int(share*width)), 100*share, v.at+1, len(v.sizes), at)
}

func (f *verifyFacts) writeText(w io.Writer) error {
	fmt.Fprintf(w, "log       %s\nsegments  %d\n", f.Path, f.Segments)
	if f.First > 1 {
		fmt.Fprintf(w, "begins    with entry %d", f.First)
		if f.Absent != "" {
			fmt.Fprintf(w, ": those before were archived, and not checked, because they are not found\n          (%s)", f.Absent)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "entries   %d\ntook      %s (%.0f entries/s)\n", f.Entries,
		time.Duration(f.Seconds*float64(time.Second)).Round(time.Millisecond), f.EntriesPerSecond)
	if f.Hash != "" {
		fmt.Fprintf(w, "chain     %s\n", f.Hash)
	}
	if f.Root != "" {
		fmt.Fprintf(w, "tree      %s\n", f.Root)
	}
	f.writeSnapshots(w)
	if f.Stateless {
		fmt.Fprintf(w, "snapshot  NONE: no state can be made of the entries, which cannot be replayed, explained or gone on from\n")
	}
	for _, c := range f.Checkpoints {
		fmt.Fprintf(w, "signed    the first %d entries have the root that %s has signed\n", c.Size, c.Origin)
	}
	switch {
	case f.Live:
		if err := f.writeTail(w); err != nil || f.Damage == nil {
			return err
		}
	case f.Whole:
		_, err := fmt.Fprintln(w, "whole")
		return err
	case f.Damage == nil:
		_, err := fmt.Fprintf(w, "NOT KNOWN to be whole; entries %d to %d are good\n  %s\n", f.First, f.First+f.Entries-1, f.Doubt)
		return err
	}
	readable := "nothing before it can be read"
	if f.Damage.Seq > f.First {
		readable = fmt.Sprintf("entries %d to %d can be read", f.First, f.Damage.Seq-1)
	}
	_, err := fmt.Fprintf(w, "DAMAGED at entry %d, in %s; %s\n  %s\n", f.Damage.Seq, f.Damage.Path, readable, f.Damage.Reason)
	if err == nil && f.advice != "" {
		_, err = fmt.Fprintln(w, f.advice)
	}
	return err
}
