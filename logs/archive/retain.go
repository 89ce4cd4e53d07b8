package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/logs"
)

// Retention limits the part of a log that is kept. Older entries are removed in whole segments, the oldest first. The
// segment that is written to and the one before it always stay.
type Retention struct {
	logs.Options
	// Age is the age from which entries are removed; 0 for none. It is measured from the last entry by the entries'
	// own times, and not by the clock of this machine, which may be wrong. The time between two entries counts as at
	// most a day: see Report.Leaps.
	Age time.Duration
	// Bytes is the total size of the log's segments above which the oldest are removed; 0 for none. Snapshots do not
	// count.
	Bytes int64
	// Dir is the target directory; if it is empty the segments are removed.
	Dir string
}

// Retain moves or removes the entries that a log need not keep. The log may have a writer. No entry is removed without
// a later snapshot whose state was compared with the entries. If there is none yet, a later call removes them.
//
// The report's Before is 0 if no entry is to be removed, and its Snapshot is 0 if some are and there is no snapshot
// for it.
func Retain(ctx context.Context, name string, keep Retention) (*Report, error) {
	path, err := logs.Path(name)
	if err != nil {
		return nil, err
	}
	r := &Report{Path: path, Dir: keep.Dir}
	files, err := boltlog.OwnFiles(path)
	if err != nil || len(files) < 3 || keep.Age == 0 && sizeOf(files) <= keep.Bytes {
		return r, err
	}
	log, err := keep.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	end, err := keep.end(ctx, log, files, r)
	if err != nil || end == 0 {
		return r, err
	}
	r.Before = end + 1
	snap, err := r.snapshotBehind(ctx, log, end)
	if err != nil || snap == nil {
		return r, err
	}
	var done boltlog.Archived
	if keep.Dir != "" {
		done, err = boltlog.Archive(path, r.Before, keep.Dir, nil)
	} else {
		done, err = boltlog.Remove(path, r.Before)
	}
	if err != nil {
		return r, err
	}
	r.Segments, r.Bytes, r.First, r.Last = done.Segments, done.Bytes, done.First, done.Last
	if done.Segments == 0 {
		return r, nil
	}
	if err := r.keepSnapshot(snap); err != nil || keep.Dir != "" {
		return r, err
	}
	if err := r.dropSnapshots(); err != nil {
		return r, err
	}
	_, err = logs.IndexOf(r.Path).Drop(r.Last + 1)
	return r, err
}

func sizeOf(files []boltlog.SegmentFile) (size int64) {
	for _, f := range files {
		size += f.Bytes
	}
	return size
}

// end returns the last entry of the segments to remove, 0 for none.
func (r *Retention) end(ctx context.Context, log *logs.Source, files []boltlog.SegmentFile, report *Report,
) (end uint64, err error) {
	var known *ages
	if r.Age > 0 {
		if known, err = agesIn(ctx, log, files[1].First); err != nil {
			return 0, err
		}
		report.Leaps = known.leaps
	}
	size := sizeOf(files)
	for i := range files[:len(files)-2] {
		next := instant{seq: files[i+1].First}
		goes := r.Bytes > 0 && size > r.Bytes
		if !goes && known != nil {
			if next.at, err = timeOf(ctx, log, next.seq); err != nil {
				return 0, err
			}
			goes = known.of(next) > r.Age // all entries of the segment are older
		}
		if !goes {
			break
		}
		end, size = next.seq-1, size-files[i].Bytes
	}
	return end, nil
}

// snapshotBehind finds the first usable snapshot of entry end or a later one, compares it with the entries, and
// returns it; nil, and no error, if there is none.
func (r *Report) snapshotBehind(ctx context.Context, log *logs.Source, end uint64) ([]byte, error) {
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	if damage := log.DamageBehind(last); damage != nil {
		return nil, log.Advise(damage)
	}
	base, err := log.Base()
	if err != nil {
		return nil, err
	}
	m, refused := log.Snapshots().Oldest(max(end, base), last)
	for _, err := range refused {
		log.Report("not used: %v", err)
	}
	if m == nil {
		return nil, nil
	}
	r.Snapshot = m.Seq()
	if err := log.Confirm(ctx, m); err != nil {
		return nil, fmt.Errorf("nothing is taken from the log: %w", err)
	}
	snap, err := log.EncodeSnapshot(m)
	if err != nil {
		return nil, err
	}
	return snap, checkWhole(ctx, log)
}

// dropSnapshots removes the snapshots of removed entries: no entry can be read after them.
func (r *Report) dropSnapshots() error {
	dir := logs.SnapshotsOf(r.Path)
	seqs, err := dir.List()
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		if seq >= r.Last {
			break
		}
		if err := dir.Drop(seq); err != nil {
			return err
		}
	}
	return nil
}
