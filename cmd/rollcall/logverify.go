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

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// verifyFacts is what "rollcall log verify" prints.
type verifyFacts struct {
	Path     string `json:"path"`
	Whole    bool   `json:"whole"`
	Segments int    `json:"segments"`
	// Entries is how many were found good, from the first one on: in a damaged log those that can be read.
	Entries uint64 `json:"entries"`
	// Hash is the last good entry's: who keeps it can tell later that nothing up to here was changed.
	Hash             string       `json:"hash,omitempty"`
	Live             bool         `json:"live"`
	Damage           *damageFacts `json:"damage,omitempty"`
	Seconds          float64      `json:"seconds"`
	EntriesPerSecond float64      `json:"entriesPerSecond"`
}

// damageFacts is the place where a log is damaged.
type damageFacts struct {
	Path   string `json:"path"`
	Seq    uint64 `json:"seq"`
	Reason string `json:"reason"`
}

func newLogVerify() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "verify LOG",
		Short: "Check every byte of a log that a reader relies on",
		Long: `Reads every entry of every segment and checks the checksums, the sequence numbers, the chain of
hashes, that time does not go back, that epochs grow by one, and that every entry can be decoded; then
the structure of each file. Each segment is checked in a process of its own, which damaged pages may
bring down. Of a damaged log it prints the place and which entries can still be read; then the exit
code is 4. Of a log that is being written to, the sealed segments are checked.`,
		Example: "  rollcall log verify jobs.log\n  rollcall log verify jobs.log -o json | jq .damage",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			v := verifier{facts: verifyFacts{Path: args[0]}}
			damage, err := v.run(cmd.Context())
			if err != nil {
				return err
			}
			if err := out.write(cmd.OutOrStdout(), v.facts, v.facts.writeText); err != nil {
				return err
			}
			if damage != nil {
				return damage
			}
			return nil
		},
	}
	out.register(cmd)
	return cmd
}

// A verifier checks the segments of a log one after the other, and each against the one before it.
type verifier struct {
	facts  verifyFacts
	prev   segmentReport
	sizes  []int64 // of the segments' files, in bytes
	at     int     // the segment under way
	before int64   // bytes of the segments before it
	total  int64
	shown  *progress
}

// run fills v.facts. The damage it returns is in them too.
func (v *verifier) run(ctx context.Context) (*eventlog.DamagedError, error) {
	files, err := listLog(v.facts.Path)
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
	v.shown = newProgress()
	var damage *eventlog.DamagedError
	for i, path := range files.Paths {
		v.at = i
		if err = v.segment(ctx, path); err != nil {
			break
		}
		v.before += v.sizes[i]
	}
	v.facts.Seconds = v.shown.done().Seconds()
	if errors.As(err, &damage) {
		v.facts.Damage = &damageFacts{Path: damage.Path, Seq: damage.Seq, Reason: damage.Err.Error()}
	} else if err != nil {
		return nil, err
	}
	v.facts.Whole = damage == nil
	v.facts.EntriesPerSecond = float64(v.facts.Entries) / v.facts.Seconds
	if files.Live {
		noteLive(v.facts.Entries)
	}
	return damage, nil
}

// listLog finds the segments of the log at path.
func listLog(path string) (*boltlog.Files, error) {
	files, err := boltlog.List(path)
	return files, explainAbsence(path, err)
}

// segment checks the next segment.
func (v *verifier) segment(ctx context.Context, path string) error {
	report, err := checkInChild(ctx, path, v.progress)
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
	if report.First.Seq != 0 {
		if err := report.First.Follows(v.prev.Last); err != nil {
			return &eventlog.DamagedError{Path: path, Seq: report.First.Seq, Err: err}
		}
	}
	if damage != nil {
		v.facts.Entries = damage.Seq - 1
		return damage
	}
	v.facts.Segments++
	v.facts.Entries = report.Facts.Last
	if report.First.Seq == 0 { // an empty segment
		report.Last, report.Hash = v.prev.Last, v.prev.Hash
	}
	if v.prev = report; report.Last.Seq > 0 {
		v.facts.Hash = fmt.Sprintf("%x", report.Hash)
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
	fmt.Fprintf(w, "log       %s\nsegments  %d\nentries   %d\ntook      %s (%.0f entries/s)\n", f.Path, f.Segments, f.Entries,
		time.Duration(f.Seconds*float64(time.Second)).Round(time.Millisecond), f.EntriesPerSecond)
	if f.Hash != "" {
		fmt.Fprintf(w, "chain     %s\n", f.Hash)
	}
	if f.Whole {
		_, err := fmt.Fprintln(w, "whole")
		return err
	}
	readable := "nothing before it can be read"
	if f.Damage.Seq > 1 {
		readable = fmt.Sprintf("entries 1 to %d can be read", f.Damage.Seq-1)
	}
	_, err := fmt.Fprintf(w, "DAMAGED at entry %d, in %s; %s\n  %s\n", f.Damage.Seq, f.Damage.Path, readable, f.Damage.Reason)
	return err
}
