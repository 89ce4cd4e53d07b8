package boltlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/durable"
)

var (
	// ErrNotALog says that a file or directory is no Rollcall log.
	ErrNotALog = errors.New("not a Rollcall log")
	// ErrNoSegments is the ErrNotALog of a directory without any trace of a log.
	ErrNoSegments = fmt.Errorf("%w: it is a directory without segments", ErrNotALog)
)

// FormatError says that another version of Rollcall wrote a log, with a layout that this one does not read: a newer
// one, or one from before the first release.
type FormatError struct {
	Path string
	// Format is the file's format.
	Format uint32
}

// Error implements error.
func (e *FormatError) Error() string {
	if e.Format < Format {
		return fmt.Sprintf("%s: the log has layout %d, written before the first release of Rollcall: this version "+
			"reads layout %d: read the log with the program that wrote it, or with one built from commit %s",
			e.Path, e.Format, Format, eventlog.LastPrerelease)
	}
	return fmt.Sprintf("%s: the log has format %d, written by a newer version of Rollcall: this one reads up to %d",
		e.Path, e.Format, Format)
}

// Open opens the log at path for appending, for this Log alone. It completes the steps that a crash has interrupted,
// and checks every segment's place among the others and the last record. Errors: fs.ErrNotExist, ErrInUse, ErrNotALog,
// a *FormatError, an *eventlog.FormatError or an *eventlog.DamagedError.
func (o Options) Open(path string) (*Log, error) {
	if _, err := segmentPaths(path); err != nil {
		return nil, err
	}
	lock, err := lockForWriting(path)
	if err != nil {
		return nil, err
	}
	l := &Log{path: path, opts: o, lock: lock}
	if err := l.takeOver(); err != nil {
		return nil, errors.Join(err, l.dir.close(), lock.release())
	}
	return l, nil
}

// Open is DefaultOptions().Open.
func Open(path string) (*Log, error) { return DefaultOptions().Open(path) }

// takeOver fills l from the disk, and repairs it.
func (l *Log) takeOver() error {
	dir, err := holdDir(l.path)
	if err != nil {
		return err
	}
	l.dir = dir
	if err := l.lock.isIn(dir); err != nil {
		return err
	}
	if err := dir.removeLeftovers("*" + suffix); err != nil {
		return err
	}
	damage, err := l.scan()
	if err != nil {
		return err
	}
	if damage != nil {
		return damage
	}
	l.last = l.segments[len(l.segments)-1].Last
	if err := l.repair(); err != nil {
		return err
	}
	// Opening every file for reading first finds most damage. To open for writing, bbolt reads pages that it panics on
	// if they are damaged, and then keeps the file locked.
	last := l.segments[len(l.segments)-1].Path
	if err := mayBeWritten(last); err != nil {
		return err
	}
	tail, err := dir.openSegment(filepath.Base(last), false)
	if err != nil {
		return err
	}
	l.tail, l.end = tail, eventlog.Chain{Seq: l.last, Hash: tail.Previous}
	if err := l.resume(); err != nil {
		return errors.Join(err, tail.close())
	}
	l.mark.Raise(l.last)
	return nil
}

// scan fills l.begin, l.segments and l.absent. It returns the damage that survey finds.
func (l *Log) scan() (*eventlog.DamagedError, error) {
	var tried []string
	for {
		paths, err := segmentPaths(l.path)
		if err != nil {
			return nil, err
		}
		// This comes second, because an archiver writes it before it removes the first segment.
		if l.begin, err = readBeginning(l.path); err != nil {
			return nil, err
		}
		if l.live {
			// A writer seals a segment before the next one gets its name: all but the last are sealed.
			paths = paths[:len(paths)-1]
		}
		before := l.begin.before(paths)
		segments, damage, err := survey(paths, before, l.begin)
		if errors.Is(err, fs.ErrNotExist) && !slices.Equal(paths, tried) {
			tried = paths
			continue // archived meanwhile
		}
		if err != nil {
			return nil, err
		}
		archived, absent := l.opts.recall(l.begin, before)
		if l.absent = absent; absent != nil && len(l.opts.Archives) > 0 {
			return nil, fmt.Errorf(
				"open log %s: the archive %s: %w",
				l.path,
				strings.Join(l.opts.Archives, ", "),
				absent,
			)
		}
		l.segments = append(archived, segments...)
		return damage, nil
	}
}

// resume reads the place that the next entries follow.
func (l *Log) resume() error {
	if l.last < l.tail.First {
		return nil
	}
	for e, err := range l.tail.Read(context.Background(), l.tail.First, l.tail.First) {
		if err != nil {
			return err
		}
		l.began = e.Time
	}
	rec, err := l.tail.record(l.last)
	if err != nil {
		return err
	}
	e, _, err := eventlog.DecodeRecord(rec)
	if err == nil && e.Seq != l.last {
		err = fmt.Errorf("its record is that of entry %d", e.Seq)
	}
	if err != nil {
		return l.tail.damaged(l.last, err)
	}
	l.end.Hash = eventlog.HashRecord(rec)
	return nil
}

// OpenReadOnly opens the present log at path for reading. Others may read it too, and a writer may come and append to
// it. The entries that are not sealed yet are read from a copy (copyOf). Only if none can be made, no writer can open
// the log while it is open here. If a writer has the log already, this opens the sealed segments (Live). It returns
// the same errors as Open. Damage is an error only if it leaves nothing to read; otherwise reading ends there. Missing
// archived segments are an error if o names directories, and otherwise an error of reading them.
func (o Options) OpenReadOnly(path string) (*Log, error) { return o.openReadOnly(path, false) }

// openReadOnly is OpenReadOnly; with alone no writer can open the log while it is open.
func (o Options) openReadOnly(path string, alone bool) (*Log, error) {
	if _, err := segmentPaths(path); err != nil {
		return nil, err
	}
	lock, err := lockForReading(path)
	if err != nil {
		return nil, err
	}
	l := &Log{path: path, opts: o, readOnly: true, lock: lock}
	l.live = l.lock == nil
	free, err := l.load(alone)
	if err != nil || free {
		err = errors.Join(err, l.lock.release())
		l.lock = nil
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// OpenReadOnly is DefaultOptions().OpenReadOnly.
func OpenReadOnly(path string) (*Log, error) { return DefaultOptions().OpenReadOnly(path) }

// load fills l, which is only read, from the disk. free reports whether a writer may come from now on: not if l is to
// be alone.
func (l *Log) load(alone bool) (free bool, err error) {
	damage, err := l.scan()
	if err != nil {
		return false, err
	}
	if damage != nil && len(l.segments) == 0 {
		return false, damage
	}
	if l.damage = damage; len(l.segments) == 0 {
		l.last = l.begin.before(nil).Last
		return !alone, nil
	}
	end := l.segments[len(l.segments)-1]
	l.last = end.Last
	if damage != nil {
		l.last = min(l.last, damage.Seq-1)
	}
	free = !alone && allClosed(l.segments[:len(l.segments)-1])
	if !end.Sealed {
		l.tail, err = durable.Uninterrupted(func() (*Segment, error) {
			var copied *os.File
			if free {
				copied = copyOf(end.Path)
				free = copied != nil
			}
			return openSegmentFile(end.Path, true, copied)
		})
	}
	return free, err
}

// A SegmentFile is the file of a segment.
type SegmentFile struct {
	// First is the number of the segment's first entry, or the number that it will have.
	First uint64
	Bytes int64
}

// OwnFiles returns the segments in the directory of a log, in order, by their names alone. Others may archive or
// remove the first ones meanwhile.
func OwnFiles(path string) ([]SegmentFile, error) {
	paths, err := segmentPaths(path)
	if err != nil {
		return nil, err
	}
	var files []SegmentFile
	for _, p := range paths {
		first, ok := parseName(filepath.Base(p))
		info, err := os.Stat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case ok:
			files = append(files, SegmentFile{first, info.Size()})
		}
	}
	return files, nil
}

// Files are the segments of a log, for a caller that reads them one by one.
type Files struct {
	// Paths are the segments in order, beginning with the archived ones that are found.
	Paths []string
	// Before are the facts of the segment before the first, as far as they are known: the zero Facts if the first one
	// is the log's first.
	Before Facts
	// Absent is the reason why archived segments are not among Paths, if there are such.
	Absent error
	// Live says that a writer has the log: its live segment is not among Paths, because only the writer can open it.
	Live bool
	// Tail is a copy of the last one of Paths, which a writer may append to: for OpenSegmentCopy, until Close. It is
	// nil beside a writer, and if no copy could be made: then no writer can open the log until Close.
	Tail *os.File
	lock *dirLock
}

// List finds the segments of the log at path. Errors: fs.ErrNotExist, ErrNotALog, or an *eventlog.DamagedError if the
// beginning of the log is unknown.
func (o Options) List(path string) (*Files, error) {
	if _, err := segmentPaths(path); err != nil {
		return nil, err
	}
	lock, err := lockForReading(path)
	if err != nil {
		return nil, err
	}
	f := &Files{Live: lock == nil, lock: lock}
	if err := f.fill(path, o); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return f, nil
}

// List is DefaultOptions().List.
func List(path string) (*Files, error) { return DefaultOptions().List(path) }

// fill finds the segments of the log at path, which is a directory.
func (f *Files) fill(path string, o Options) error {
	paths, err := segmentPaths(path)
	if err != nil {
		return err
	}
	begin, err := readBeginning(path)
	if err != nil {
		return err
	}
	if f.Live {
		paths = paths[:len(paths)-1] // see scan
	}
	f.Before = begin.before(paths)
	archived, absent := o.recall(begin, f.Before)
	if f.Absent = absent; absent != nil && len(o.Archives) > 0 {
		return fmt.Errorf("open log %s: the archive %s: %w", path, strings.Join(o.Archives, ", "), absent)
	}
	if len(archived) > 0 {
		f.Before = archived[0].predecessor()
	}
	for _, facts := range archived {
		f.Paths = append(f.Paths, facts.Path)
	}
	f.Paths = append(f.Paths, paths...)
	if n := len(paths); !f.Live && (n < 2 || isClosedAt(paths[n-2])) {
		f.Tail = copyOf(paths[n-1])
	}
	if f.Tail == nil {
		return nil
	}
	err = f.lock.release()
	f.lock = nil
	return err
}

// Close closes the copy, or lets writers open the log.
func (f *Files) Close() error {
	var err error
	if f.Tail != nil {
		err = f.Tail.Close()
	}
	return errors.Join(err, f.lock.release())
}

// SegmentOf reports whether path is a segment in the directory of a log, which it returns, by their names.
func SegmentOf(path string) (log string, ok bool) {
	if _, ok := parseName(filepath.Base(path)); !ok {
		return "", false
	}
	info, err := os.Stat(path)
	return filepath.Dir(path), err == nil && !info.IsDir()
}

// segmentPaths returns the segments of the log at path in order.
func segmentPaths(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if !info.IsDir() {
		return nil, notADirectory(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if _, ok := parseName(e.Name()); ok {
			paths = append(paths, filepath.Join(path, e.Name()))
		} else if strings.HasSuffix(e.Name(), suffix) {
			return nil, &fs.PathError{Op: "open", Path: filepath.Join(path, e.Name()),
				Err: fmt.Errorf("%w: no segment has this name: move the file elsewhere", ErrNotALog)}
		}
	}
	if len(paths) == 0 {
		if damage := emptied(path); damage != nil {
			return nil, damage
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrNoSegments}
	}
	slices.Sort(paths) // twenty digits each: the order of their numbers
	return paths, nil
}

// notADirectory says why the file at path is not a log: it is a segment of one, a log of layout 1, which was one file,
// or something else.
func notADirectory(path string) error {
	if log, ok := SegmentOf(path); ok {
		return &fs.PathError{Op: "open", Path: path,
			Err: fmt.Errorf("%w: it is a file of one: name the log, %s", ErrNotALog, log)}
	}
	_, err := openSegment(path, true) // which fails: it does not have a segment's name
	return err
}

// emptied returns an error, damage, for a directory that had a log but has no segments, or nil.
func emptied(path string) error {
	first := uint64(1)
	begin, err := readBeginning(path)
	if err != nil {
		return err
	}
	if begin != nil {
		first = begin.Origin.Seq + 1
	} else if _, err := os.Stat(filepath.Join(path, lockName)); err != nil {
		return nil
	}
	return &eventlog.DamagedError{
		Path: path,
		Seq:  first,
		Err: errors.New(
			"there is none of its segments, and a log always has one: all its entries are missing; bring its .seg " +
				"files back from where they are",
		),
	}
}

// survey reads the facts of the segments at paths, and checks that each follows the one before it, and the first one
// prev. It stops at the first damage: the facts are then the facts of the good segments before it. The error means
// that the segments could not be read.
func survey(paths []string, prev Facts, begin *beginning) (segments []Facts, damage *eventlog.DamagedError, err error) {
	for _, path := range paths {
		facts, err := factsOf(path)
		if err != nil && !errors.As(err, &damage) {
			return nil, nil, err
		}
		if damage != nil {
			// A segment missing before it counts as the first damage.
			facts = Facts{Path: path, First: damage.Seq}
			if first, ok := parseName(filepath.Base(path)); ok {
				facts.First = first
			}
			facts.Previous = prev.Hash
		} else if !prev.Sealed && prev.Path != "" {
			if err := treatAsSealed(&prev, facts); err != nil {
				return nil, nil, err
			}
		}
		var gap *eventlog.DamagedError
		if errors.As(facts.Follows(prev), &gap) {
			return segments, gap, nil
		}
		if damage != nil {
			return segments, damage, nil
		}
		segments = append(segments, facts)
		if errors.As(facts.Sound(), &damage) || errors.As(begin.agrees(filepath.Dir(path), facts), &damage) {
			return segments, damage, nil
		}
		prev = facts
	}
	return segments, nil, nil
}

// factsOf opens a segment only to read its facts.
func factsOf(path string) (Facts, error) {
	s, err := openSegment(path, true)
	if err != nil {
		return Facts{}, err
	}
	return s.Facts, s.close()
}

// treatAsSealed treats prev as sealed if it lacks nothing but its seal before next. The error says that it cannot be
// read.
func treatAsSealed(prev *Facts, next Facts) error {
	rec, err := lastRecord(prev.Path)
	var unreadable *eventlog.UnreadableError
	if errors.As(err, &unreadable) {
		return err
	}
	if hash := eventlog.HashRecord(rec); err == nil && prev.MayPrecede(next, hash) {
		prev.Sealed, prev.Hash = true, hash
	}
	return nil
}

// lastRecord returns the last record of the segment at path.
func lastRecord(path string) ([]byte, error) {
	s, err := openSegment(path, true)
	if err != nil {
		return nil, err
	}
	rec, err := s.record(s.Last)
	return rec, errors.Join(err, s.close())
}

// removeLeftovers removes the incomplete files that a crash left in dir, segments or others, whose names match
// pattern.
func removeLeftovers(dir, pattern string) error {
	held, err := holdDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(held.removeLeftovers(pattern), held.close())
}
