package app

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/archive"
)

func newLogTrim(registry framework.Registry) *cobra.Command {
	open := reading{registry: registry}
	var before, from string
	var out output
	cmd := &cobra.Command{
		Use:   "trim nats://HOST/STREAM --before SEQ|AGE --copy LOG",
		Short: "Take old entries out of a log's stream that a copy has",
		Long: `Takes old entries of a log in NATS JetStream out of its stream, for good. What
goes must stand in a copy of the log, which "rollcall log copy" makes and
continues, in a directory or in another stream, and a snapshot must stand for
it. The copy is read, and its chain is compared with the log's; the snapshot is
compared with the state that the entries make. If anything differs, nothing is
taken out. The log begins then with a later entry; its numbers, its chain and
its hash tree stay. The copy has all entries: ask it what was before.

A scheduler may have the log open. The user needs the right to update the stream
($JS.API.STREAM.UPDATE.STREAM), which a scheduler does not need. The stream is
given a limit of messages for a moment, and none again: if the command is broken
off in between, it says so, and the next one puts that right.`,
		Example: `  rollcall log copy nats://nats-0:4222/jobs /mnt/archive/jobs
  rollcall log trim nats://nats-0:4222/jobs \
    --before 720h --copy /mnt/archive/jobs`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if before == "" || from == "" {
				return usageError{errors.New("--before and --copy are needed: which entries, and where else they are")}
			}
			point, err := archive.ParsePoint(before)
			if err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr())
			done, err := archive.Trim(cmd.Context(), args[0], archive.TrimOptions{
				Options: open.options(p), Before: point, Copy: from,
			})
			p.done()
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), done, func(w io.Writer) error { return writeTrimmed(w, done) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&before, "before", "", "an entry's number, a time such as 2026-01-03T14:03:00Z or 14:03 (UTC), or an "+
		"age such as 720h, counted back from the log's last entry by the entries' own time")
	f.StringVar(&from, "copy", "", "the log that has the entries, too")
	open.register(cmd)
	out.register(cmd)
	return cmd
}

func writeTrimmed(w io.Writer, r *archive.Trimmed) error {
	if r.Messages == 0 {
		_, err := plainf(w, "nothing to take out: too little lies before entry %d and the snapshot before it\n",
			r.Before)
		return err
	}
	_, err := plainf(w, "taken out  entries %d to %d, %d messages, %d bytes on each server\ncopy       %s\n"+
		"from now   the log begins with entry %d, and the snapshot of entry %d stands for what was before\n",
		r.From, r.First-1, r.Messages, r.Bytes, r.Copy, r.First, r.Snapshot)
	return err
}
