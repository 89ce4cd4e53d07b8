package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/audit"
	"github.com/rollcall-sched/rollcall/logs/verify"
)

const verifyHelp = `Reads every entry of every segment. Checks the checksums, the sequence numbers,
the chain of hashes and the hash tree of checkpoints, and that every entry can
be decoded. Time must not go back, and epochs must grow by one. Then it checks
the structure of each file. Each segment is checked in a process of its own,
because damaged pages may crash it. If the log is damaged, verify prints the
place and which entries can still be read; the exit code is then 4.

While a writer has the log, the writer serves the entries of the last segment,
and everything but the structure of that file is checked. If the writer does not
serve them, the exit code is 1.

Snapshots are checked too. Each must be whole, and of an entry of the log. A bad
snapshot is named and never used. The log is whole without it, and the exit code
is 1. If a snapshot cannot be read, it is not known whether the log had more
entries. Then the log is not called whole, and the exit code is 1. If the bucket
beside a log in NATS JetStream cannot be read, that says nothing about the log.
Then the log is called whole, its snapshots are not checked, and the exit code
is 1.

If the log's first entries are not there, a snapshot must stand for them. The
exit code is 4 if all such snapshots are bad, and 1 if there are none. Then the
entries are checked, but no state can be made from them.

rollcall replay checks whether a snapshot's state is the one that the entries
make.

The log of a recorder says when changes may be missing in it: the API server no
longer had them. Such a log is whole, and verify prints these times.

Each part of the log's index is made again in memory and compared. A part is
named if it is damaged, of another log, or does not agree with its entries, with
the command that makes it again. The log is whole without it, and the exit code
is 1. A part that is whole and wrong, such as a forged one, is found by this
comparison only; explain and log info use it.

A log that was rewritten from some entry on, or cut short, is whole in itself.
Only a signed checkpoint that was kept elsewhere shows it. With --checkpoint and
--key the log is compared with the checkpoint, and the result is always printed.
If the log does not match, the exit code is 4. Then the log ends before the
checkpoint (EndsBefore, in -o json), or has another history (AnotherHistory).

If the log cannot be compared, verify says why: entries are not there (Absent:
archived, or before the beginning of a bundle), the log is damaged (Damaged),
the system cannot read it (Unreadable), a newer version of rollcall wrote it
(Newer), it is from before the first release (Older), or its writer does not
serve as much (BeingWritten). Earlier checkpoints are still compared. The exit
code is 4 with damage, or if a comparison does not match, and else 1.`

func newLogVerify(registry framework.Registry) *cobra.Command {
	open := reading{registry: registry}
	var out output
	var keys, checkpoints []string
	cmd := &cobra.Command{
		Use:   "verify LOG|BUNDLE",
		Short: "Check every byte of a log that readers rely on",
		Long:  verifyHelp,
		Example: `  rollcall log verify jobs.log
  rollcall log verify jobs.log -o json | jq .damage
  rollcall log verify jobs.log \
    --checkpoint gpu-west.2026-03-01 --key gpu-west.key.pub`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			signed, err := audit.ReadSigned(keys, checkpoints)
			if err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr())
			report, err := verify.Run(cmd.Context(), args[0], verify.Options{
				Options: open.options(p), Signed: signed, Checker: checkerCommand,
				Checked: func(at verify.Progress) { showVerified(p, at) },
			})
			p.done()
			if err != nil {
				return err
			}
			if report.Recorder && report.Damage == nil {
				if report.Missing, err = open.missing(cmd, args[0]); err != nil {
					return err
				}
			}
			text := func(w io.Writer) error { return writeVerified(w, report) }
			if err := out.write(cmd.OutOrStdout(), report, text); err != nil {
				return err
			}
			return report.Err()
		},
	}
	cmd.Flags().StringArrayVar(
		&checkpoints,
		"checkpoint",
		nil,
		"a file with a signed checkpoint to compare the log with; "+
			"may be given more than once",
	)
	cmd.Flags().StringArrayVar(&keys, "key", nil, "a file with the public key that the checkpoints are signed with; "+
		"may be given more than once")
	out.register(cmd)
	open.register(cmd)
	return cmd
}

// checkName is the hidden command with which verify.Run checks segments.
const checkName = "verify-segments"

// checkerCommand runs this program to check segments.
func checkerCommand(ctx context.Context) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "log", checkName)
	cmd.Args[0] = os.Args[0]
	return cmd, nil
}

// newLogVerifySegment is for verify.Run alone: neither its input nor its output is for people.
func newLogVerifySegment() *cobra.Command {
	return &cobra.Command{
		Use:    checkName,
		Short:  "Check segments for log verify",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			debug.SetGCPercent(400) // decoded entries are garbage at once
			return verify.CheckSegments(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// showVerified draws a bar: the verified part of the log's segments.
func showVerified(p *progress, at verify.Progress) {
	if at.Told {
		p.show("entry %d of %d, which its writer tells", at.Entry, at.Last)
		return
	}
	const width = 30
	p.show("[%-*s] %3.0f%%  segment %d of %d, entry %d",
		width, strings.Repeat("=", int(at.Share*width)), 100*at.Share, at.Segment, at.Segments, at.Entry)
}

func writeVerified(w io.Writer, r *verify.Report) error {
	if r.Failed != "" {
		plainf(w, "log       %s\n", r.Path)
		writeCompared(w, r)
		how := "NOTHING OF IT COULD BE CHECKED"
		if r.Entries > 0 {
			how = fmt.Sprintf("NOT ALL OF IT COULD BE CHECKED; entries %d to %d are good", r.First, r.Last())
		}
		_, err := plainf(w, "%s\n  %s\n", how, r.Failed)
		return err
	}
	plainf(w, "log       %s\n", r.Path)
	if r.Segments > 0 { // a stream has none
		plainf(w, "segments  %d\n", r.Segments)
	}
	if r.First > 1 {
		plainf(w, "begins    with entry %d", r.First)
		if r.Absent != "" {
			plainf(
				w,
				": those before were archived, and not checked, because they are not found\n          (%s)",
				r.Absent,
			)
		}
		fmt.Fprintln(w)
	}
	plainf(w, "entries   %d\ntook      %s (%.0f entries/s)\n", r.Entries,
		time.Duration(r.Seconds*float64(time.Second)).Round(time.Millisecond), r.EntriesPerSecond)
	if r.Hash != "" {
		plainf(w, "chain     %s\n", r.Hash)
	}
	if r.Root != "" {
		plainf(w, "tree      %s\n", r.Root)
	}
	writeSnapshots(w, r)
	if r.Stateless {
		plainf(
			w,
			"snapshot  NONE: no state can be made of the entries, which cannot be replayed, explained or gone on "+
				"from\n",
		)
	}
	writeCompared(w, r)
	switch {
	case r.Live:
		if err := writeTail(w, r); err != nil || r.Damage == nil {
			return err
		}
	case r.Whole:
		_, err := fmt.Fprintln(w, "whole")
		return err
	case r.Damage == nil && r.EndUnknown == "":
		_, err := plainf(w, "whole in itself, and %s\n", signedVerdict(r))
		return err
	case r.Damage == nil:
		_, err := plainf(
			w,
			"NOT KNOWN to be whole; entries %d to %d are good\n  %s\n",
			r.First,
			r.First+r.Entries-1,
			r.EndUnknown,
		)
		return err
	}
	readable := "nothing before it can be read"
	if r.Damage.Seq > r.First {
		readable = fmt.Sprintf("entries %d to %d can be read", r.First, r.Damage.Seq-1)
	}
	_, err := plainf(
		w,
		"DAMAGED at entry %d, in %s; %s\n  %s\n",
		r.Damage.Seq,
		r.Damage.Path,
		readable,
		r.Damage.Reason,
	)
	if err == nil && r.Advice != "" {
		_, err = fmt.Fprintln(w, r.Advice)
	}
	return err
}

// writeCompared writes the result of comparing the log with each checkpoint.
// writeMissing says when changes may be missing in a recorder's log.
func writeMissing(w io.Writer, r *verify.Report) {
	for i := range r.Missing {
		plainf(w, "missing   entry %d: %s\n", r.Missing[i].Seq, r.Missing[i].Message)
	}
}

func writeCompared(w io.Writer, r *verify.Report) {
	writeMissing(w, r)
	for _, c := range r.Checkpoints {
		plainf(w, "signed    the first %d entries have the root that %s has signed\n", c.Size, c.Origin)
	}
	for _, c := range r.Mismatches {
		plainf(w, "signed    DOES NOT MATCH the checkpoint of %d entries of %s\n          %s\n",
			c.Size, c.Origin, c.Reason)
	}
	if m := r.Mismatch(); m != nil {
		plainf(w, "          %s\n", ownText(strings.ReplaceAll(string(plainLines(m.Advice())), "\n", "\n          ")))
	}
	for _, c := range r.NotCompared {
		plainf(w, "signed    NOT COMPARED with the checkpoint of %d entries of %s\n          %s\n",
			c.Size, c.Origin, c.Reason)
	}
}

// signedVerdict tells how a log that is whole in itself differs from the signed one. It returns "" if they agree.
func signedVerdict(r *verify.Report) string {
	switch {
	case len(r.Mismatches) > 0:
		return "NOT what was signed"
	case len(r.NotCompared) > 0:
		return "NOT KNOWN to be what was signed"
	}
	return ""
}

// writeSnapshots writes the results of the snapshots and of the index.
func writeSnapshots(w io.Writer, r *verify.Report) {
	if r.Unlisted != "" {
		plainf(w, "snapshots NOT CHECKED: %s\n", r.Unlisted)
	}
	for _, s := range r.Snapshots {
		switch s.State {
		case verify.SnapshotGood:
			plainf(w, "snapshot  of entry %d, good, state %s\n", s.Seq, s.Hash)
		case verify.SnapshotBad:
			plainf(w, "snapshot  of entry %d, BAD: %s\n", s.Seq, s.Reason)
		case verify.SnapshotUnread:
			plainf(w, "snapshot  of entry %d, NOT KNOWN: %s\n", s.Seq, s.Reason)
		default:
			plainf(w, "snapshot  of entry %d, not compared: %s\n", s.Seq, s.Reason)
		}
	}
	writeIndex(w, r.Index)
}

// writeIndex writes how many parts of the index are good, and which are not; nothing if x is nil.
func writeIndex(w io.Writer, x *verify.Index) {
	switch {
	case x == nil:
		return
	case x.Unlisted != "":
		plainf(w, "index     NOT CHECKED: %s\n", x.Unlisted)
		return
	}
	plainf(w, "index     %d of %d parts good\n", x.Good, x.Parts)
	for _, p := range x.Others {
		state := p.State
		switch p.State {
		case verify.IndexDamaged:
			state = "BAD"
		case verify.IndexWrong:
			state = "WRONG"
		case verify.IndexUnread:
			state = "NOT KNOWN"
		}
		plainf(w, "index     of entries %d to %d, %s: %s\n", p.First, p.Last, state, p.Reason)
	}
}

// writeTail writes how far a log was checked that a process is still writing to.
func writeTail(w io.Writer, r *verify.Report) error {
	last := r.First + r.Entries - 1
	if t := r.Tail; t != nil && t.Last >= t.First {
		state := "is writing to the log; verify it again, when it has ended,"
		if t.Ended {
			state = "has ended before it had told them all; verify the log again"
		}
		plainf(w, "tail      entries %d to %d were told by process %d (%s), which %s\n"+
			"          for the structure of the file to be checked too\n", t.First, t.Last, t.PID, t.Version, state)
	}
	var err error
	switch {
	case r.Unread != "" && r.Entries == 0:
		_, err = plainf(
			w,
			"NOT CHECKED, because it is being written to, and nothing of it could be read\n  %s\n",
			r.Unread,
		)
	case r.Unread != "":
		_, err = plainf(
			w,
			"NOT CHECKED behind entry %d; entries %d to %d are good\n  %s\n",
			last,
			r.First,
			last,
			r.Unread,
		)
	case r.Damage == nil && r.EndUnknown != "":
		_, err = plainf(w, "NOT KNOWN to be whole; entries %d to %d are good\n  %s\n", r.First, last, r.EndUnknown)
	case r.Damage == nil && signedVerdict(r) != "":
		_, err = plainf(w, "whole in itself up to entry %d, and %s\n", last, signedVerdict(r))
	case r.Damage == nil:
		_, err = plainf(w, "whole up to entry %d\n", last)
	}
	return err
}
