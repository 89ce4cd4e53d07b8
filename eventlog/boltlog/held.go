package boltlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/regular"

	"github.com/rollcall-sched/rollcall/internal/durable"
)

// A heldDir is a log's directory as its writer has opened it. The writer makes, cuts and removes files only in that
// directory, wherever the path leads by then. A nil *heldDir holds nothing.
type heldDir struct {
	path string
	root *os.Root
	self fs.FileInfo
}

// holdDir opens the directory at path.
func holdDir(path string) (*heldDir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	self, err := durable.StatIn(root, ".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &heldDir{path: path, root: root, self: self}, nil
}

func (d *heldDir) close() error {
	if d == nil {
		return nil
	}
	return d.root.Close()
}

// sync brings the names in the directory to the disk.
func (d *heldDir) sync() error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// isThere returns an error if the path now leads to another directory, or to none.
func (d *heldDir) isThere() error {
	switch now, err := os.Stat(d.path); {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("its directory was moved away or removed")
	case err != nil:
		return err
	case !os.SameFile(now, d.self):
		return errors.New("its directory was moved away, and another one is in its place")
	}
	return nil
}

// hasSegment returns an error unless the directory has the segment that the writer holds open as held, under its name.
func (d *heldDir) hasSegment(name string, held fs.FileInfo) error {
	switch now, err := durable.LstatIn(d.root, name); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("its segment %s was moved away or removed", name)
	case err != nil:
		return err
	case !os.SameFile(now, held):
		return fmt.Errorf("its segment %s was replaced by another file", name)
	}
	return nil
}

// openSegment opens the segment of that name in the directory, also if signals interrupt that.
func (d *heldDir) openSegment(name string, readOnly bool) (*Segment, error) {
	return durable.Uninterrupted(func() (*Segment, error) {
		f, err := d.openFile(name, os.O_RDWR)
		if err != nil {
			return nil, fmt.Errorf("open log: %w", err)
		}
		return openSegmentFile(filepath.Join(d.path, name), readOnly, f)
	})
}

// openFile opens a file of the directory. Its errors have the whole path.
func (d *heldDir) openFile(name string, flag int) (*os.File, error) {
	f, err := regular.OpenIn(d.root, name, flag, fileMode)
	var at *fs.PathError
	if errors.As(err, &at) {
		at.Path = filepath.Join(d.path, at.Path)
	}
	return f, err
}

// createTemp makes an empty file with a new name: name, a number, and tmpSuffix.
func (d *heldDir) createTemp(name string) (tmp string, f *os.File, err error) {
	for i := range 100 { // another writer, where locks do not work, may be making one
		tmp = fmt.Sprintf("%s.%d%s", name, i+1, tmpSuffix)
		if f, err = d.openFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return tmp, f, err
}

// removeLeftovers removes the incomplete files that a crash left, whose names match pattern up to the number.
func (d *heldDir) removeLeftovers(pattern string) error {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if match, err := path.Match(pattern+".*"+tmpSuffix, e.Name()); err != nil {
			return err
		} else if !match {
			continue
		}
		if err := d.root.Remove(e.Name()); err != nil {
			return fmt.Errorf("remove what a crash left: %w", err)
		}
	}
	return nil
}

// holds returns an *eventlog.DisplacedError if the log's directory or its live segment has moved since the log was
// opened. Entries appended then would not be found under the log's name.
func (l *Log) holds() error {
	err := l.dir.isThere()
	if err == nil {
		held, failed := l.tail.file.Stat()
		if failed != nil {
			return nil // the file itself is broken: the append will report that, with its outcome
		}
		err = l.dir.hasSegment(filepath.Base(l.tail.Path), held)
	}
	if err != nil {
		return l.isDisplaced(err)
	}
	l.unlocked = l.relock()
	return nil
}

func (l *Log) isDisplaced(why error) error {
	return &eventlog.DisplacedError{Path: l.path, Last: l.end.Seq, Err: why}
}

// relock locks the present file LOCK if the file that the log has locked was removed or replaced. It fails if another
// process has locked the new file, or if that file cannot be opened.
func (l *Log) relock() error {
	if l.lock == nil || l.lock.isIn(l.dir) == nil { // nil: locks do not work here, or another writer took over the log
		return nil
	}
	f, err := l.dir.openFile(lockName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if err := flock(f, true); err != nil {
		return errors.Join(fmt.Errorf("its file %s was removed or replaced: %w", lockName, err), f.Close())
	}
	lost := l.lock
	l.lock = &dirLock{f}
	l.lock.sign()
	return lost.release()
}

// Held returns an *eventlog.DisplacedError if the log's directory is no longer the one that was opened for writing.
// Code that keeps files of its own in it calls Held before it writes or removes any.
func (l *Log) Held() error {
	err := l.dir.isThere()
	if err == nil {
		return nil
	}
	last, closed := l.Last()
	return errors.Join(&eventlog.DisplacedError{Path: l.path, Last: last, Err: err}, closed)
}
