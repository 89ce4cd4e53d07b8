package index

import (
	"errors"
	"fmt"
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

const (
	suffix = ".index"
	// Only the owner may read an index: it shows the workloads of a whole cluster.
	dirMode = 0o700
)

// A Range is a range of entries, both ends included.
type Range struct{ First, Last uint64 }

func (r Range) name() string { return fmt.Sprintf("%020d-%020d%s", r.First, r.Last, suffix) }

// rangeOf is the inverse of name.
func rangeOf(name string) (r Range, ok bool) {
	text, ok := strings.CutSuffix(name, suffix)
	first, last, cut := strings.Cut(text, "-")
	if !ok || !cut {
		return r, false
	}
	var err, err2 error
	r.First, err = strconv.ParseUint(first, 10, 64)
	r.Last, err2 = strconv.ParseUint(last, 10, 64)
	return r, err == nil && err2 == nil && r.First > 0 && r.Last >= r.First && r.name() == name
}

// Dir is a directory of parts, each in a file named by its range. Several processes may call its methods at once: a
// part is a function of the log, and its file appears only when it is complete.
type Dir struct {
	path string
	// Held, if not nil, is called before each write or removal. Its error means that the path now leads to another
	// directory.
	Held func() error
}

// NewDir returns the directory at path. Put makes it.
func NewDir(path string) *Dir { return &Dir{path: path} }

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }

// File returns the path of the file for the part of a range, whether or not it exists.
func (d *Dir) File(r Range) string { return filepath.Join(d.path, r.name()) }

// List returns the ranges of the parts, sorted by first entry, then by last. A missing directory has no parts.
func (d *Dir) List() ([]Range, error) {
	files, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the parts of the index: %w", err)
	}
	var ranges []Range
	for _, f := range files {
		if r, ok := rangeOf(f.Name()); ok {
			ranges = append(ranges, r)
		}
	}
	return ranges, nil // the names are sorted, which sorts the ranges
}

// Facts returns the facts of the part of a range. The error is fs.ErrNotExist if there is no part, and ErrDamaged if
// it is incomplete.
func (d *Dir) Facts(r Range) (f Facts, err error) {
	err = d.read(r, func(file *os.File, size int64) error {
		f, _, err = readFacts(file, size)
		return err
	})
	return f, d.checked(r, f, err)
}

// Get returns the part of a range. It returns the same errors as Facts.
func (d *Dir) Get(r Range) (p *Part, err error) {
	err = d.read(r, func(file *os.File, size int64) error {
		p, err = readPart(file, size)
		return err
	})
	if err != nil {
		return nil, d.checked(r, Facts{}, err)
	}
	return p, d.checked(r, p.Facts, nil)
}

// read calls read with the file of a part and its size in bytes.
func (d *Dir) read(r Range, read func(file *os.File, size int64) error) error {
	file, err := regular.Open(d.File(r))
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		err = read(file, info.Size())
	}
	return errors.Join(err, file.Close())
}

// checked adds the path to err, or returns an error if f is about another range.
func (d *Dir) checked(r Range, f Facts, err error) error {
	if err == nil && (f.First != r.First || f.Last != r.Last) {
		err = fmt.Errorf("%w: it says that it is of entries %d to %d", ErrDamaged, f.First, f.Last)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.File(r), err)
	}
	return nil
}

// Put keeps a part, durably. It replaces an earlier part of the same range. It keeps no part that could not be read.
func (d *Dir) Put(p *Part) error {
	r := Range{p.First, p.Last}
	content := p.Encode()
	end, err := headSize(content)
	if err == nil {
		_, err = decodeFacts(content[:end])
	}
	if err == nil && len(content) > MaxFile {
		err = fmt.Errorf("it has %d bytes, and no part may have more than %d", len(content), MaxFile)
	}
	if err == nil {
		err = d.put(r, content)
	}
	if err != nil {
		return fmt.Errorf("keep the index of entries %d to %d: %w", r.First, r.Last, err)
	}
	return nil
}

func (d *Dir) put(r Range, content []byte) error {
	if d.Held != nil {
		if err := d.Held(); err != nil {
			return err
		}
	}
	if err := d.create(); err != nil {
		return err
	}
	f, err := os.CreateTemp(d.path, r.name()+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), d.File(r))
	}
	if err != nil {
		return errors.Join(err, removeIfThere(f.Name()))
	}
	return durable.Sync(d.path)
}

// create makes the directory, durably.
func (d *Dir) create() error {
	if err := regular.Directory(d.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(d.path, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.Sync(filepath.Dir(d.path))
}

// Drop removes the parts whose entries are all before first, and the unfinished files of a crash. It returns the
// number of parts it removed. It removes nothing through a symbolic link.
func (d *Dir) Drop(first uint64) (dropped int, err error) {
	files, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return 0, nil
	}
	if err == nil {
		err = regular.Directory(d.path)
	}
	if err == nil && d.Held != nil {
		err = d.Held()
	}
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		r, isPart := rangeOf(f.Name())
		unfinished := strings.Contains(f.Name(), suffix+".") && strings.HasSuffix(f.Name(), ".tmp")
		if !unfinished && (!isPart || r.Last >= first) {
			continue
		}
		if err := removeIfThere(filepath.Join(d.path, f.Name())); err != nil {
			return dropped, err
		}
		if isPart {
			dropped++
		}
	}
	return dropped, nil
}

// Remove removes the part of a range, whatever is there under its name. It removes nothing through a symbolic link.
func (d *Dir) Remove(r Range) error {
	err := regular.Directory(d.path)
	if err == nil && d.Held != nil {
		err = d.Held()
	}
	if err == nil {
		err = removeIfThere(d.File(r))
	}
	if err != nil {
		return fmt.Errorf("remove the index of entries %d to %d: %w", r.First, r.Last, err)
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Cover chooses ranges that cover the entries from first to last as far as possible, without overlapping. The ranges
// are sorted as by List. Each chosen range begins after the one before it, and it is the longest that begins at its
// entry.
func Cover(ranges []Range, first, last uint64) (chosen []Range) {
	next := first
	for i, r := range ranges {
		if i+1 < len(ranges) && ranges[i+1].First == r.First && ranges[i+1].Last <= last {
			continue // a longer one follows
		}
		if r.First >= next && r.Last <= last {
			chosen = append(chosen, r)
			next = r.Last + 1
		}
	}
	return slices.Clip(chosen)
}
