package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bundle"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// archiveFacts is what "rollcall log archive" prints.
type archiveFacts struct {
	Path string `json:"path"`
	// Before is the entry that --before stands for.
	Before uint64 `json:"before"`
	// Snapshot is the entry of the snapshot that makes what is archived dispensable; 0 if none was looked for, because
	// nothing is that old.
	Snapshot uint64 `json:"snapshot"`
	// Segments is how many files were moved, with First to Last in them; 0 if there were none to move.
	Segments int    `json:"segments"`
	First    uint64 `json:"first,omitempty"`
	Last     uint64 `json:"last,omitempty"`
	Bytes    int64  `json:"bytes"`
	Dir      string `json:"dir,omitempty"`
}

func newLogArchive() *cobra.Command {
	var open reading
	var before, to string
	var out output
	cmd := &cobra.Command{
		Use:   "archive LOG --before SEQ|AGE --to DIR",
		Short: "Move old segments of a log to another directory",
		Long: `Moves the sealed segments that lie wholly before a point and below a snapshot. The snapshot is
restored first, and compared with the state that the entries make: all of them from the log's first one
on, or from its first snapshot on if the entries before that are not found. Nothing is moved if it is
another state, or if they cannot be compared. What was moved where stands in the log, whose chain and
hash tree stay whole: every command reads the whole log as long as the files are there, or with
--archive where they are then. Without them, commands begin with the snapshot. A writer may have the
log. On a disk that is full, remove the log's oldest snapshot first: archiving writes a page of its own.`,
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
			facts, err := archive(cmd, open, args[0], before, to)
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), facts, facts.writeText)
		},
	}
	f := cmd.Flags()
	f.StringVar(&before, "before", "", "an entry's number, a time, or an age such as 720h, counted back from the log's last entry by the entries' own time")
	f.StringVar(&to, "to", "", "the directory to move them to; made if it is not there")
	_ = cmd.MarkFlagDirname("to")
	open.register(cmd)
	out.register(cmd)
	return cmd
}

func archive(cmd *cobra.Command, open reading, path, before, to string) (*archiveFacts, error) {
	if bundle.Is(path) {
		return nil, usageError{fmt.Errorf("%s is a bundle: it has no segments", path)}
	}
	facts := &archiveFacts{Path: path}
	snap, err := facts.findSnapshot(cmd, open, path, before)
	if err != nil {
		return nil, err
	}
	if snap == nil {
		return facts, nil
	}
	p := newProgress()
	done, err := boltlog.Archive(path, min(facts.Before, facts.Snapshot+1), to, func(done, total int64) {
		p.show("%d of %d bytes", done, total)
	})
	p.done()
	switch {
	case errors.Is(err, boltlog.ErrInside):
		return nil, usageError{err}
	case isOfDisk(err):
		return nil, fmt.Errorf("%w\nThe log is as it was, or its first segments are in %s already, and every command finds them. If its disk is full, remove its oldest snapshot, "+
			"the first of %s, and run the command again", err, to, snapshotsOf(path).Path())
	case err != nil:
		return nil, err
	}
	facts.Segments, facts.Bytes = done.Segments, done.Bytes
	facts.First, facts.Last, facts.Dir = done.First, done.Last, done.Dir
	if done.Segments > 0 {
		err = facts.keepSnapshot(snap)
	}
	return facts, err
}

// keepSnapshot sees that the snapshot is there which the log depends on from now on. A writer knows by now that it is
// to keep it, but may have dropped it just before.
func (f *archiveFacts) keepSnapshot(data []byte) error {
	dir := snapshotsOf(f.Path)
	seqs, err := dir.List()
	if err != nil || slices.ContainsFunc(seqs, func(seq uint64) bool { return seq >= f.Last && seq <= f.Snapshot }) {
		return err
	}
	return dir.Add(f.Snapshot, data)
}

// findSnapshot finds the entry that before stands for, and the newest usable snapshot of it or of one before it,
// which it returns; none, and no error, if nothing is that old.
func (f *archiveFacts) findSnapshot(cmd *cobra.Command, open reading, path, before string) ([]byte, error) {
	log, err := open.open(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if f.Before, err = findBefore(cmd, log, before); err != nil {
		return nil, err
	}
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	if damage := log.damageBehind(last); damage != nil {
		return nil, fmt.Errorf("nothing is archived: %w", log.advise(damage))
	}
	if segments, ok := log.records.(interface{ Archivable(before uint64) bool }); ok && !segments.Archivable(f.Before) {
		return nil, nil
	}
	m, refused := log.snapshots.Newest(1, min(f.Before, last))
	noteRefused(refused)
	if m == nil {
		return nil, fmt.Errorf("nothing is archived: there is no snapshot of entry %d or one before it that could stand for the entries; %s", f.Before, f.adviceOnSnapshots(log, last))
	}
	f.Snapshot = m.Seq()
	if err := log.follows(cmd.Context(), m); err != nil {
		return nil, fmt.Errorf("nothing is archived: %w", err)
	}
	position, err := log.RecordHash(f.Snapshot)
	if err != nil {
		return nil, err
	}
	snap, err := snapshot.Encode(m, position) // the file may be gone already
	if err != nil {
		return nil, err
	}
	return snap, f.checkWhole(cmd, log)
}

// adviceOnSnapshots says how to come to a snapshot where there is none old enough.
func (f *archiveFacts) adviceOnSnapshots(log *source, last uint64) string {
	if log.mayKeepSnapshots() == nil {
		return fmt.Sprintf("write one with rollcall log snapshot %s --at %d", f.Path, min(max(f.Before, 2)-1, last))
	}
	advice := "the log is being written to, and only its writer writes snapshots, as often as its --snapshot-every and --snapshot-age say: "
	if seqs, err := log.snapshots.Store.List(); err == nil && len(seqs) > 0 {
		return advice + fmt.Sprintf("the first there is is of entry %d, give --before that or a later one", seqs[0])
	}
	return advice + "there is none yet, wait for the first"
}

// checkWhole reads what is to be archived and was not read to compare the snapshot: damage must be found before it is out
// of the way, behind that one.
func (f *archiveFacts) checkWhole(cmd *cobra.Command, log *source) error {
	base, err := log.base()
	if err != nil {
		return err
	}
	p := newProgress()
	defer p.done()
	for r, err := range log.Records(log.First()) {
		if err == nil {
			err = cmd.Context().Err()
		}
		if err != nil {
			return fmt.Errorf("nothing is archived: %w", err)
		}
		if r.Seq > base {
			return nil
		}
		if r.Seq%10000 == 0 {
			p.show("checking what is to be archived: entry %d", r.Seq)
		}
	}
	return nil
}

// findBefore returns the entry that the flag stands for: all before it are old.
func findBefore(cmd *cobra.Command, log *source, before string) (uint64, error) {
	if seq, err := strconv.ParseUint(before, 10, 64); err == nil {
		if seq == 0 {
			return 0, usageError{errors.New("--before is 0: entries are numbered from 1")}
		}
		return seq, nil
	}
	var point eventlog.Time
	if age, err := time.ParseDuration(before); err == nil && age > 0 {
		if point, err = lastTime(log); err != nil {
			return 0, err
		}
		point = point.Add(-age)
	} else if t, err := time.Parse(time.RFC3339Nano, before); err == nil {
		point = eventlog.TimeOf(t)
	} else {
		return 0, usageError{fmt.Errorf("--before is %q: want an entry's number above 0, an age such as 720h, or a time such as 2026-01-03T14:03:00Z", before)}
	}
	for e, err := range log.Read(log.First()) {
		if err == nil {
			err = cmd.Context().Err()
		}
		if err != nil {
			return 0, err
		}
		if e.Time >= point {
			return e.Seq, nil
		}
	}
	last, err := log.Last()
	return last + 1, err
}

// lastTime returns the last entry's time.
func lastTime(log *source) (eventlog.Time, error) {
	last, err := log.Last()
	if err != nil || last == 0 {
		return 0, err
	}
	for e, err := range log.Read(last) {
		return e.Time, err
	}
	return 0, nil
}

func (f *archiveFacts) writeText(w io.Writer) error {
	if f.Segments == 0 && f.Snapshot == 0 {
		_, err := fmt.Fprintf(w, "nothing to archive: no segment that is sealed lies wholly before entry %d\n", f.Before)
		return err
	}
	if f.Segments == 0 {
		_, err := fmt.Fprintf(w, "nothing to archive: no segment that is sealed lies wholly before entry %d and below the snapshot of entry %d\n", f.Before, f.Snapshot)
		return err
	}
	_, err := fmt.Fprintf(w, "archived  %d segments, entries %d to %d, %d bytes\nto        %s\nfrom now  the log begins with entry %d in %s, and the snapshot of entry %d stands for what was before\n",
		f.Segments, f.First, f.Last, f.Bytes, f.Dir, f.Last+1, f.Path, f.Snapshot)
	return err
}
