package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Format is the version of the file's layout that this package writes, and the highest that it reads.
// Versions are a ladder: none is ever reused.
//
//	1  buckets meta, log and snap
const Format = 1

var (
	// ErrInUse says that another process, or another Log of this one, has the file open for writing, or
	// for reading when it is to be opened for writing.
	ErrInUse = errors.New("the log is in use by another process")
	// ErrNotALog says that a file is no Rollcall log.
	ErrNotALog = errors.New("not a Rollcall log")
)

// FormatError says that a file has a layout that this program does not know.
type FormatError struct {
	Path string
	// Format is the file's; this program reads up to the constant Format.
	Format uint32
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: the log has format %d, written by a newer version of Rollcall: this one reads up to %d",
		e.Path, e.Format, Format)
}

// The buckets and the keys of bucketMeta.
var (
	bucketMeta = []byte("meta")
	bucketLog  = []byte("log")
	bucketSnap = []byte("snap")

	metaType   = []byte("type")
	metaFormat = []byte("format")
)

// fileType is the value of metaType.
const fileType = "rollcall log"

const (
	// lockTimeout is how long opening waits for another process to let go of the file.
	lockTimeout = time.Second
	// initialMmapSize is address space, not memory. While the file is smaller, a writer that makes it grow
	// need not wait for readers.
	initialMmapSize = 1 << 30
	// minSize is the size of a new file: four pages, none of them smaller than 4 KiB.
	minSize = 4 * 4096
	// allocSize is by how much the file grows at once.
	allocSize = 4 << 20
)

// options never has NoSync: durability is what the package is for.
func options(readOnly bool) *bolt.Options {
	o := &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType, ReadOnly: readOnly}
	if !readOnly {
		o.InitialMmapSize = initialMmapSize
	}
	return o
}

// Open opens the log at path for appending. It checks the layout and the last record. Errors: fs.ErrNotExist,
// ErrInUse, ErrNotALog, a *FormatError, or an *eventlog.DamagedError.
func Open(path string) (*Log, error) {
	// Opening for reading first finds most damage. To open for writing, bbolt reads pages that it panics on
	// if they are damaged, and then keeps the file locked.
	l, err := open(path, true)
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	return open(path, false)
}

// OpenReadOnly opens the log at path for reading. Others may read it too, but no one may have it open for
// appending. Errors are those of Open, but that the last record is not checked: what is good of a damaged
// log can be read.
func OpenReadOnly(path string) (*Log, error) { return open(path, true) }

func open(path string, readOnly bool) (*Log, error) {
	if err := checkFile(path); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{path: path, readOnly: readOnly}
	if err := l.openDB(); err != nil {
		return nil, err
	}
	if err := l.check(); err != nil {
		return nil, errors.Join(err, l.db.Close())
	}
	return l, nil
}

// checkFile refuses what bbolt would take for a new file or explain badly.
func checkFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: it is a directory", ErrNotALog)}
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: it is not a regular file", ErrNotALog)}
	case info.Size() < minSize:
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: it has only %d bytes", ErrNotALog, info.Size())}
	}
	return nil
}

// openDB opens the bbolt file.
func (l *Log) openDB() error {
	o := options(l.readOnly)
	o.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		var err error
		l.file, err = os.OpenFile(name, flag&^os.O_CREATE, mode)
		return l.file, err
	}
	err := guard(func() (err error) {
		l.db, err = bolt.Open(l.path, fileMode, o)
		return err
	})
	var fault *faultError
	switch {
	case err == nil:
		l.db.AllocSize = allocSize
		return nil
	case errors.As(err, &fault):
		// bbolt's mapping of the file stays, and with it the lock, for as long as the process lives.
		return errors.Join(l.damaged(1, err), l.file.Close())
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open log %s: %w", l.path, ErrInUse)
	case errors.Is(err, bolterrors.ErrChecksum):
		return l.damaged(1, err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("open log %s: %w: %w", l.path, ErrNotALog, err)
	}
	return fmt.Errorf("open log %s: %w", l.path, err)
}

// check reads the layout's version and finds the last entry.
func (l *Log) check() error {
	err := guard(func() error {
		return l.db.View(func(tx *bolt.Tx) error {
			if err := l.checkMeta(tx); err != nil {
				return err
			}
			if info, err := os.Stat(l.path); err != nil {
				return err
			} else if info.Size() < tx.Size() {
				return l.damaged(1, fmt.Errorf("the file is cut short: it has %d bytes of %d", info.Size(), tx.Size()))
			}
			return l.findLast(tx.Bucket(bucketLog))
		})
	})
	var fault *faultError
	if errors.As(err, &fault) {
		return l.damaged(1, err)
	}
	return err
}

func (l *Log) checkMeta(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || string(meta.Get(metaType)) != fileType {
		return fmt.Errorf("open log %s: %w: it is a bbolt file of another kind", l.path, ErrNotALog)
	}
	format := meta.Get(metaFormat)
	if len(format) != 4 {
		return l.damaged(1, errors.New("the format's version is missing"))
	}
	if v := binary.BigEndian.Uint32(format); v != Format {
		return &FormatError{Path: l.path, Format: v}
	}
	if tx.Bucket(bucketLog) == nil {
		return l.damaged(1, errors.New("the bucket of entries is missing"))
	}
	return nil
}

// findLast sets the last sequence number and, if entries may be appended, its record's hash.
func (l *Log) findLast(b *bolt.Bucket) error {
	k, rec := b.Cursor().Last()
	if k == nil {
		return nil
	}
	if len(k) != 8 {
		return l.damaged(1, fmt.Errorf("a key of %d bytes", len(k)))
	}
	l.last = binary.BigEndian.Uint64(k)
	if l.readOnly {
		return nil
	}
	e, _, err := eventlog.DecodeRecord(rec)
	if err == nil && e.Seq != l.last {
		err = fmt.Errorf("its record is that of entry %d", e.Seq)
	}
	if err != nil {
		return l.damaged(l.last, err)
	}
	l.prev = eventlog.HashRecord(rec)
	return nil
}

// A faultError is a panic of bbolt, or a memory fault, on the pages of a damaged file.
type faultError struct{ value any }

// Error implements error.
func (e *faultError) Error() string {
	return fmt.Sprintf("the file is cut short or its pages are damaged: %v", e.value)
}

// guard runs f, which reads pages that may be damaged. bbolt trusts its pages: it panics on a wrong one,
// and touching one behind the file's end is a memory fault.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			err = &faultError{value: v}
		}
	}()
	return f()
}
