package app

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/archive"
)

func newLogArchive(registry framework.Registry) *cobra.Command {
	open := reading{registry: registry}
	var before, to string
	var out output
	cmd := &cobra.Command{
		Use:   "archive LOG --before SEQ|AGE --to DIR",
		Short: "Move old segments of a log to another directory",
		Long: `Moves the sealed segments whose entries are all before a point and covered by a
snapshot. The snapshot is restored first, and compared with the state that the
entries make, from the log's first entry on, or from its first snapshot on if
earlier entries are not found. If the states differ, or cannot be compared,
nothing is moved. The log records what was moved where, and its chain and hash
tree stay whole. Every command reads the whole log as long as the files are
there, or with --archive where they are then. Without them, commands begin with
the snapshot. A writer may have the log open. On a full disk, remove the log's
oldest snapshot first: archive writes a page of its own.`,
		Example: `  rollcall log archive jobs.db --before 720h --to /mnt/archive/jobs
  rollcall log archive jobs.db --before 2000000 --to /mnt/archive/jobs`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if before == "" || to == "" {
				return usageError{errors.New("--before and --to are needed: which segments, and where to")}
			}
			point, err := archive.ParsePoint(before)
			if err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr())
			done, err := archive.Run(cmd.Context(), args[0], archive.Options{
				Options: open.options(p), Before: point, Dir: to,
				Moved: func(done, total int64) { p.show("%d of %d bytes", done, total) },
			})
			p.done()
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), done, func(w io.Writer) error { return writeArchived(w, done) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&before, "before", "", "an entry's number, a time such as 2026-01-03T14:03:00Z or 14:03 (UTC), or an "+
		"age such as 720h, counted back from the log's last entry by the entries' own time")
	f.StringVar(&to, "to", "", "the directory to move them to; made if it is not there")
	_ = cmd.MarkFlagDirname("to")
	open.register(cmd)
	out.register(cmd)
	return cmd
}

func writeArchived(w io.Writer, r *archive.Report) error {
	const none = "nothing to archive: no segment that is sealed lies wholly before entry"
	var err error
	switch {
	case r.Segments == 0 && r.Snapshot == 0:
		_, err = plainf(w, "%s %d\n", none, r.Before)
	case r.Segments == 0:
		_, err = plainf(w, "%s %d and below the snapshot of entry %d\n", none, r.Before, r.Snapshot)
	default:
		_, err = plainf(w, "archived  %d segments, entries %d to %d, %d bytes\nto        %s\n"+
			"from now  the log begins with entry %d in %s, and the snapshot of entry %d stands for what was before\n",
			r.Segments, r.First, r.Last, r.Bytes, r.Dir, r.Last+1, r.Path, r.Snapshot)
	}
	return err
}
