package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Store is where snapshots are kept.
type Store interface {
	// Put keeps the snapshot of entry seq. When it returns without an error the snapshot is durable; a crash
	// before that leaves what was there before. It may drop older ones.
	Put(seq uint64, data []byte) error
	// List returns the entries of which there are snapshots, ascending.
	List() ([]uint64, error)
	// Get returns the snapshot of entry seq.
	Get(seq uint64) ([]byte, error)
}

const (
	suffix     = ".snapshot"
	unfinished = ".tmp"
)

// Dir is a Store of one file a snapshot in a directory. It is not safe for concurrent use.
type Dir struct {
	path string
	keep int
}

var _ Store = (*Dir)(nil)

// NewDir returns the Store over the directory, which is made by the first Put if it is not there. It keeps
// the last keep snapshots, at least one.
func NewDir(path string, keep int) *Dir { return &Dir{path: path, keep: max(1, keep)} }

func (d *Dir) file(seq uint64) string {
	return filepath.Join(d.path, fmt.Sprintf("%020d%s", seq, suffix))
}

// Put implements Store. Snapshots of later entries than seq are dropped too: they are of a log that was lost.
func (d *Dir) Put(seq uint64, data []byte) error {
	if err := d.put(seq, data); err != nil {
		return fmt.Errorf("keep the snapshot of entry %d: %w", seq, err)
	}
	return nil
}

func (d *Dir) put(seq uint64, data []byte) error {
	if err := d.create(); err != nil {
		return err
	}
	tmp := d.file(seq) + unfinished
	if err := writeDurably(tmp, data); err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	if err := os.Rename(tmp, d.file(seq)); err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	if err := syncDir(d.path); err != nil {
		return err
	}
	return d.prune(seq)
}

// create makes the directory, durably.
func (d *Dir) create() error {
	if _, err := os.Stat(d.path); err == nil {
		return nil
	}
	if err := os.Mkdir(d.path, 0o755); err != nil {
		return err
	}
	return syncDir(filepath.Dir(d.path))
}

// prune drops what is not to be kept any more, and what a crash left unfinished.
func (d *Dir) prune(newest uint64) error {
	left, err := filepath.Glob(filepath.Join(d.path, "*"+suffix+unfinished))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := removeIfThere(path); err != nil {
			return err
		}
	}
	seqs, err := d.List()
	if err != nil {
		return err
	}
	at, _ := slices.BinarySearch(seqs, newest)
	for i, seq := range seqs {
		if i > at || i <= at-d.keep {
			if err := removeIfThere(d.file(seq)); err != nil {
				return err
			}
		}
	}
	return nil
}

// List implements Store. A directory that is not there holds none; files that are no snapshots by their name
// are passed over.
func (d *Dir) List() ([]uint64, error) {
	files, err := os.ReadDir(d.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var seqs []uint64
	for _, f := range files {
		digits, ok := strings.CutSuffix(f.Name(), suffix)
		if seq, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && f.Name() == filepath.Base(d.file(seq)) {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	return seqs, nil
}

// Get implements Store.
func (d *Dir) Get(seq uint64) ([]byte, error) {
	data, err := os.ReadFile(d.file(seq))
	if err != nil {
		return nil, fmt.Errorf("read the snapshot of entry %d: %w", seq, err)
	}
	return data, nil
}

func writeDurably(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
