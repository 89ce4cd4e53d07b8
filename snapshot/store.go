package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rollcall-sched/rollcall/internal/durable"
	"github.com/rollcall-sched/rollcall/internal/regular"
)

// Store keeps snapshots.
type Store interface {
	// Put keeps the snapshot of entry seq. When it returns without an error the snapshot is durable; a crash before
	// that leaves the earlier content. It may drop older ones.
	Put(seq uint64, data []byte) error
	// List returns the entries of which there are snapshots, ascending.
	List() ([]uint64, error)
	// Get returns the snapshot of entry seq. fs.ErrNotExist says that there is none, ErrForeign that it is known to be
	// of another log, a *DamagedError that it is not whole, any other error nothing.
	Get(seq uint64) ([]byte, error)
	// Drop removes the snapshot of entry seq, if there is one, durably.
	Drop(seq uint64) error
}

// Apart is a Store that is reached by another way than its log, such as a bucket beside a stream. Its snapshots may be
// missing, or out of reach, while the log is whole, and others may append to the log meanwhile. So a snapshot that
// cannot be read says nothing about the log. A snapshot of a later entry shows a loss only if the log, asked again,
// does not have that entry.
type Apart interface {
	Store
	// Reaches reports whether the log has entry seq by now.
	Reaches(seq uint64) (bool, error)
}

// Name returns the name of the snapshot of entry seq where snapshots are kept by name. Names have the order of the
// entries.
func Name(seq uint64) string { return fmt.Sprintf("%020d%s", seq, suffix) }

// SeqOf returns the entry of which a snapshot with a name is; false if it is no name of a snapshot.
func SeqOf(name string) (seq uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, ok && err == nil && name == Name(seq)
}

const (
	suffix     = ".snapshot"
	unfinished = ".tmp"

	// Only the owner reads a snapshot: it tells the workloads of a whole cluster.
	dirMode = 0o700
)

// Dir is a Store of one file a snapshot in a directory. It is not safe for concurrent use.
type Dir struct {
	// Spacing is Retention.Spacing.
	Spacing uint64
	// Base returns Retention.Base: the entry before the first one that was not archived, 0 if none was. It is called
	// before any snapshot is dropped, because a log is archived while it is written to; if it fails, none is dropped.
	// nil means 0.
	Base func() (uint64, error)

	// Held, if it is not nil, is asked before anything is written or removed: its error says that the directory is no
	// longer the same.
	Held func() error

	path string
	keep int
}

var _ Store = (*Dir)(nil)

// NewDir returns the Store over the directory, which is made by the first Put if it is not there. Put keeps the newest
// keep snapshots, at least one, and older ones by Dir.Spacing and Dir.Base.
func NewDir(path string, keep int) *Dir { return &Dir{path: path, keep: max(1, keep)} }

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }

// File returns the path of the file that is, or would be, the snapshot of entry seq.
func (d *Dir) File(seq uint64) string { return d.file(seq) }

func (d *Dir) file(seq uint64) string { return filepath.Join(d.path, Name(seq)) }

// Add is Put, but drops no other snapshot.
func (d *Dir) Add(seq uint64, data []byte) error {
	if err := d.add(seq, data); err != nil {
		return fmt.Errorf("keep the snapshot of entry %d: %w", seq, err)
	}
	return nil
}

// Put implements Store. It drops no snapshot of a later entry: they may show that the log was longer.
func (d *Dir) Put(seq uint64, data []byte) error {
	if err := d.Add(seq, data); err != nil {
		return err
	}
	if err := d.prune(seq); err != nil {
		return fmt.Errorf("drop snapshots before that of entry %d: %w", seq, err)
	}
	return nil
}

// Drop implements Store.
func (d *Dir) Drop(seq uint64) error {
	err := d.held()
	if err == nil {
		err = regular.Directory(d.path) // not a link to one
	}
	if err == nil {
		err = removeIfThere(d.file(seq))
	}
	if err == nil {
		err = durable.Sync(d.path)
	}
	if err != nil {
		return fmt.Errorf("drop the snapshot of entry %d: %w", seq, err)
	}
	return nil
}

func (d *Dir) add(seq uint64, data []byte) error {
	if err := d.held(); err != nil {
		return err
	}
	if err := d.create(); err != nil {
		return err
	}
	f, err := os.CreateTemp(d.path, filepath.Base(d.file(seq))+".*"+unfinished)
	if err != nil {
		return err
	}
	tmp := f.Name()
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	if err := os.Rename(tmp, d.file(seq)); err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	return durable.Sync(d.path)
}

// held calls Held, if there is one.
func (d *Dir) held() error {
	if d.Held == nil {
		return nil
	}
	return d.Held()
}

// create makes the directory, durably.
func (d *Dir) create() error {
	if err := regular.Directory(d.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(d.path, dirMode); err != nil {
		return err
	}
	return durable.Sync(filepath.Dir(d.path))
}

// prune drops the snapshots that are no longer to be kept, and files that a crash left unfinished.
func (d *Dir) prune(newest uint64) error {
	if err := d.held(); err != nil {
		return err
	}
	files, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), unfinished) || !strings.Contains(f.Name(), suffix+".") {
			continue
		}
		if err := removeIfThere(filepath.Join(d.path, f.Name())); err != nil {
			return err
		}
	}
	seqs, err := d.List()
	if err != nil {
		return err
	}
	var base uint64
	if d.Base != nil {
		if base, err = d.Base(); err != nil {
			return fmt.Errorf("where the log begins is not known: %w", err)
		}
	}
	retention := Retention{Last: d.keep, Spacing: d.Spacing, Base: base}
	for _, seq := range retention.Superfluous(seqs, newest) {
		if err := removeIfThere(d.file(seq)); err != nil {
			return err
		}
	}
	return nil
}

// List implements Store. A directory that does not exist holds none; List ignores files that are no snapshots by their
// name.
func (d *Dir) List() ([]uint64, error) {
	files, err := os.ReadDir(d.path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if _, lerr := os.Lstat(d.path); lerr != nil { // of a log that is one file, too
			return nil, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var seqs []uint64
	for _, f := range files {
		if seq, ok := SeqOf(f.Name()); ok {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	return seqs, nil
}

// Get implements Store.
func (d *Dir) Get(seq uint64) ([]byte, error) {
	data, err := readFile(d.file(seq))
	if err != nil {
		return nil, fmt.Errorf("read the snapshot of entry %d: %w", seq, err)
	}
	return data, nil
}

// readFile returns the content of a snapshot's file; only the beginning, if it does not begin as a snapshot does.
func readFile(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	begin := make([]byte, headerSize)
	n, err := f.ReadAt(begin, 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case n < headerSize || string(begin[:len(magic)]) != magic:
		return begin[:n], nil
	}
	data, err := regular.ReadAll(f, Largest(begin))
	if errors.Is(err, regular.ErrTooLarge) {
		return nil, &DamagedError{Check: "length", Err: err}
	}
	return data, err
}

// Largest returns the largest number of bytes of a snapshot that begins so. A file that does not begin as a snapshot is
// to be read no further.
func Largest(begin []byte) int64 {
	switch {
	case len(begin) < headerSize:
		return 2 * MaxState
	case string(begin[:len(magic)]) != magic:
		return headerSize
	case binary.BigEndian.Uint32(begin[offsetVersion:]) != FormatVersion:
		return 2 * MaxState
	}
	size := int64(min(binary.BigEndian.Uint64(begin[offsetSize:]), MaxState))
	return headerSize + size + size/1000 + 1<<10 + sha256.Size // gzip adds five bytes to 64 KiB that it cannot pack
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
