package boltlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/durable"
	"github.com/rollcall-sched/rollcall/internal/regular"
)

// lockName is the file whose lock gives the right to append, or to read the live segment.
const lockName = "LOCK"

// errLocked is returned by flock if another process has the lock.
var errLocked = errors.New("locked")

// A dirLock is held as long as its file is open.
type dirLock struct{ f *os.File }

// lockForWriting locks the log at dir for one writer, and writes the writer's name into LOCK. If other processes have
// it, the error is an ErrInUse that names them. A writer whose LOCK was removed counts, too.
func lockForWriting(dir string) (*dirLock, error) {
	f, err := regular.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	switch err := flock(f, true); {
	case errors.Is(err, errLocked):
		err = fmt.Errorf("open log %s: %w: %w", dir, eventlog.ErrInUse, holder(f))
		return nil, errors.Join(err, f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock log %s: %w", dir, err), f.Close())
	}
	if writer, err := writerWithoutLock(dir); writer != nil || err != nil {
		if writer != nil {
			err = fmt.Errorf("open log %s: %w: %w", dir, eventlog.ErrInUse, writer)
		}
		return nil, errors.Join(err, f.Close())
	}
	lock := &dirLock{f}
	lock.sign()
	return lock, nil
}

// sign writes the lock's owner into the file. Only people read it, and a full disk is no reason not to open the log:
// errors do not matter.
func (l *dirLock) sign() {
	_ = l.f.Truncate(0)
	_, _ = l.f.WriteAt([]byte(self()), 0)
}

// lockForReading shares the log at dir with other readers. It returns nil, without an error, if a writer has it, and
// an empty lock if the log has no LOCK, as copies may, and no writer.
func lockForReading(dir string) (*dirLock, error) {
	lock := &dirLock{}
	f, err := regular.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if err == nil {
		switch err := flock(f, false); {
		case errors.Is(err, errLocked):
			return nil, f.Close()
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock log %s: %w", dir, err), f.Close())
		}
		lock.f = f
	}
	if writer, err := writerWithoutLock(dir); writer != nil || err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return lock, nil
}

// writerWithoutLock returns the writer of the log at dir that LOCK does not show: the file was removed, and perhaps
// made again. bbolt has a lock of its own on the file that it writes to.
func writerWithoutLock(dir string) (writer, err error) {
	paths, err := segmentPaths(dir)
	if err != nil {
		return nil, err
	}
	f, err := regular.Open(paths[len(paths)-1])
	if err != nil {
		return nil, nil // readers report the fault
	}
	defer f.Close()
	if !errors.Is(flock(f, false), errLocked) {
		return nil, nil
	}
	who := "someone"
	if writers := lockedBy(f, "WRITE"); len(writers) > 0 {
		who = strings.Join(writers, ", ")
	}
	return fmt.Errorf("%s is writing to it, and its file %s was removed or replaced meanwhile", who, lockName), nil
}

// isIn returns an error if the directory now has another lock file: it was replaced when it had just been locked.
func (l *dirLock) isIn(dir *heldDir) error {
	there, err := durable.LstatIn(dir.root, lockName)
	if err != nil {
		return fmt.Errorf("lock log %s: %w", dir.path, err)
	}
	if held, err := l.f.Stat(); err != nil || !os.SameFile(there, held) {
		replaced := fmt.Errorf("lock log %s: its file %s was replaced meanwhile: try again", dir.path, lockName)
		return errors.Join(replaced, err)
	}
	return nil
}

// release releases the lock, if there is one.
func (l *dirLock) release() error {
	if l == nil || l.f == nil {
		return nil
	}
	return l.f.Close()
}

// self is a writer's description of itself.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("process %d (%s) on host %s", os.Getpid(), filepath.Base(os.Args[0]), host)
}

// holder describes the owner of the lock of f: a writer, from the file's content, or readers. The file's time is the
// time at which the writer opened the log.
func holder(f *os.File) error {
	readers := lockedBy(f, "READ")
	if flock(f, false) == nil {
		if len(readers) > 0 {
			return fmt.Errorf("%w by %s", eventlog.ErrBeingRead, strings.Join(readers, ", "))
		}
		return eventlog.ErrBeingRead
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
	info, statErr := f.Stat()
	if err != nil || statErr != nil || len(text) == 0 {
		return errors.New("it is being written to")
	}
	return fmt.Errorf("%s has been writing to it since %s", strings.TrimSpace(string(text)),
		info.ModTime().UTC().Format(time.RFC3339))
}
