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
)

// lockName is the file whose lock is the right to append, or to read what is appended to.
const lockName = "LOCK"

// errLocked is returned by flock if someone else has the lock.
var errLocked = errors.New("locked")

// A dirLock is held as long as its file is open.
type dirLock struct{ f *os.File }

// lockForWriting takes the log at dir for one writer, and leaves in LOCK who that is. Others have it: the
// error is an ErrInUse that names them.
func lockForWriting(dir string) (*dirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	switch err := flock(f, true); {
	case errors.Is(err, errLocked):
		err = fmt.Errorf("open log %s: %w: %w", dir, ErrInUse, holder(f))
		return nil, errors.Join(err, f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock log %s: %w", dir, err), f.Close())
	}
	// Only people read it, and a full disk is no reason not to open the log: errors do not matter.
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(self()), 0)
	return &dirLock{f}, nil
}

// lockForReading shares the log at dir with other readers; it is nil, with no error, if a writer has it, and
// empty if the log has no LOCK, as copies may.
func lockForReading(dir string) (*dirLock, error) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return &dirLock{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	switch err := flock(f, false); {
	case errors.Is(err, errLocked):
		return nil, f.Close()
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock log %s: %w", dir, err), f.Close())
	}
	return &dirLock{f}, nil
}

// release lets go of the lock, if there is one.
func (l *dirLock) release() error {
	if l == nil || l.f == nil {
		return nil
	}
	return l.f.Close()
}

// self is what a writer says of itself.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("process %d (%s) on host %s", os.Getpid(), filepath.Base(os.Args[0]), host)
}

// holder says who has the lock of f: a writer, by what stands in it, or readers. The file's time is when the
// writer came.
func holder(f *os.File) error {
	readers := lockedForReading(f)
	if flock(f, false) == nil {
		if len(readers) > 0 {
			return fmt.Errorf("%w by %s", ErrBeingRead, strings.Join(readers, ", "))
		}
		return ErrBeingRead
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
	info, statErr := f.Stat()
	if err != nil || statErr != nil || len(text) == 0 {
		return errors.New("it is being written to")
	}
	return fmt.Errorf("%s has been writing to it since %s", strings.TrimSpace(string(text)),
		info.ModTime().UTC().Format(time.RFC3339))
}
