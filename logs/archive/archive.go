// Package archive moves old segments of a log to another directory, once a snapshot makes them dispensable.
//
// It owns the decision which segments may be moved: the sealed ones that lie wholly before a point and before a
// snapshot whose state was compared with the entries. It never moves a segment before it has read it without errors,
// and never leaves a log without a snapshot to begin with. The backend moves the files, and notes their new place in
// the log (boltlog.Archive).
//
// Start reading at Run.
package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// A Point separates old entries from others. It is a moment of the log, or an age, counted back from the log's last
// entry by the entries' own times.
type Point struct{ moment history.Moment }

// ParsePoint parses the value of --before. Its errors are *logs.RequestErrors.
func ParsePoint(text string) (Point, error) {
	moment := text
	if age, err := time.ParseDuration(text); err == nil && age > 0 {
		moment = "-" + text
	}
	m, err := history.ParseMoment(moment)
	if err != nil {
		return Point{}, logs.Refuse("--before is %q: %s, or an age such as 720h", text, err)
	}
	return Point{m}, nil
}

// Options select the segments to archive, and configure the reading of the log.
type Options struct {
	logs.Options
	// Before is the point before which segments are archived.
	Before Point
	// Dir is the target directory; it is made if it does not exist.
	Dir string
	// Moved, if not nil, gets the number of bytes moved so far, and the total.
	Moved func(done, total int64)
}

// Report is the result of Run.
type Report struct {
	Path string `json:"path"`
	// Before is the entry that Options.Before means.
	Before uint64 `json:"before"`
	// Snapshot is the entry of the snapshot that makes the archived segments dispensable; 0 if no entry is old enough
	// to need one.
	Snapshot uint64 `json:"snapshot"`
	// Segments is the number of files that were moved, with entries First to Last; 0 if there were none to move.
	Segments int    `json:"segments"`
	First    uint64 `json:"first,omitempty"`
	Last     uint64 `json:"last,omitempty"`
	Bytes    int64  `json:"bytes"`
	Dir      string `json:"dir,omitempty"`
	// Leaps are the places where the time of the entries that Retain examined jumps by more than a day: the scheduler
	// was not running, or the clock was set. Each counts as one day.
	Leaps []Leap `json:"leaps,omitempty"`
}

// Run archives segments of the log with a name. A writer may have the log.
func Run(ctx context.Context, name string, opts Options) (*Report, error) {
	path, err := logs.Path(name)
	if err != nil {
		return nil, err
	}
	if bundle.Is(path) {
		return nil, logs.Refuse("%s is a bundle: it has no segments", path)
	}
	r := &Report{Path: path}
	snap, err := r.findSnapshot(ctx, opts)
	if err != nil || snap == nil {
		return r, err
	}
	done, err := boltlog.Archive(path, min(r.Before, r.Snapshot+1), opts.Dir, opts.Moved)
	switch {
	case errors.Is(err, boltlog.ErrInside):
		return nil, &logs.RequestError{Err: err}
	case logs.IsDiskError(err):
		return nil, fmt.Errorf(
			"%w\nThe log is as it was, or its first segments are in %s already, and every command finds "+
				"them. If its disk is full, remove its oldest snapshot, the first of %s, and run the command again",
			err,
			opts.Dir,
			logs.SnapshotsOf(path).Path(),
		)
	case err != nil:
		return nil, err
	}
	r.Segments, r.Bytes = done.Segments, done.Bytes
	r.First, r.Last, r.Dir = done.First, done.Last, done.Dir
	if done.Segments > 0 {
		err = r.keepSnapshot(snap)
	}
	return r, err
}

// keepSnapshot makes sure that the snapshot exists on which the log depends from now on. A writer knows by now that it
// must keep it, but may have dropped it just before.
func (r *Report) keepSnapshot(data []byte) error {
	dir := logs.SnapshotsOf(r.Path)
	seqs, err := dir.List()
	if err != nil || slices.ContainsFunc(seqs, func(seq uint64) bool { return seq >= r.Last && seq <= r.Snapshot }) {
		return err
	}
	return dir.Add(r.Snapshot, data)
}

// findSnapshot finds the entry that the point means, and the newest usable snapshot of it or of an earlier entry. It
// returns that snapshot; none, and no error, if no entry is that old.
func (r *Report) findSnapshot(ctx context.Context, opts Options) ([]byte, error) {
	log, err := opts.Open(ctx, r.Path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if r.Before, err = opts.Before.find(ctx, log); err != nil {
		return nil, err
	}
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	if damage := log.DamageBehind(last); damage != nil {
		return nil, fmt.Errorf("nothing is archived: %w", log.Advise(damage))
	}
	if !log.Archivable(r.Before) {
		return nil, nil
	}
	m := log.Newest(1, min(r.Before, last))
	if m == nil {
		return nil, fmt.Errorf(
			"nothing is archived: there is no snapshot of entry %d or one before it that could stand for "+
				"the entries; %s",
			r.Before,
			r.adviceOnSnapshots(log, last),
		)
	}
	r.Snapshot = m.Seq()
	if err := log.Confirm(ctx, m); err != nil {
		return nil, fmt.Errorf("nothing is archived: %w", err)
	}
	snap, err := log.EncodeSnapshot(m) // the file may be deleted already
	if err != nil {
		return nil, err
	}
	return snap, checkWhole(ctx, log)
}

// adviceOnSnapshots says how to get a snapshot where none is old enough.
func (r *Report) adviceOnSnapshots(log *logs.Source, last uint64) string {
	if log.MayTakeSnapshots() == nil {
		return fmt.Sprintf("write one with rollcall log snapshot %s --at %d", r.Path, min(max(r.Before, 2)-1, last))
	}
	advice := "the log is being written to, and only its writer writes snapshots, as often as its --snapshot-every " +
		"and " +
		"--snapshot-age say: "
	if seqs, err := log.Snapshots().Store.List(); err == nil && len(seqs) > 0 {
		return advice + fmt.Sprintf("the first there is is of entry %d, give --before that or a later one", seqs[0])
	}
	return advice + "there is none yet, wait for the first"
}

// checkWhole reads the segments to archive that were not read while comparing the snapshot: damage must be found
// before the segments are moved away.
func checkWhole(ctx context.Context, log *logs.Source) error {
	base, err := log.Base()
	if err != nil {
		return err
	}
	for r, err := range log.Records(ctx, log.First()) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("nothing is archived: %w", err)
		}
		if r.Seq > base {
			return nil
		}
		if r.Seq%10000 == 0 {
			log.Progress("checking what is to be archived", r.Seq, 0)
		}
	}
	return nil
}

// find returns the entry that the point means: all entries before it are old. It reports the entry chosen for a time.
func (p Point) find(ctx context.Context, log *logs.Source) (uint64, error) {
	seq, at, err := p.moment.In(ctx, log)
	if err != nil || seq > 0 {
		return seq, err
	}
	for e, err := range log.Read(ctx, log.First()) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, err
		}
		if e.Time >= at {
			log.ReportMoment(&p.moment, at, e)
			return e.Seq, nil
		}
	}
	last, err := log.Last()
	return last + 1, err
}
