package index

import (
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

const (
	suffix = ".index"
	// Only the owner reads an index: it tells about the workloads of a whole cluster.
	dirMode = 0o700
)

// A Range is one of entries.
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

// Dir is a directory of parts, each a file that is named by its range. Its methods may be called by several processes
// at once: a part is a function of the log, and a file appears when it is whole.
type Dir struct {
	path string
	// Held, if it is not nil, is asked before anything is written or removed: its error says that the directory is not
	// the one any more that it was.
	Held func() error
}

// NewDir returns the directory at path. Put makes it.
func NewDir(path string) *Dir { return &Dir{path: path} }

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }

// File returns the path of the file that is, or would be, the part of a range.
func (d *Dir) File(r Range) string { return filepath.Join(d.path, r.name()) }

// List returns the ranges of which there are parts, sorted by their first entry, then by their last. A directory that
// is not there has none.
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
	return ranges, nil // the names are sorted, and have the order of the ranges
}

// Facts returns those of the part of a range. fs.ErrNotExist says that there is none, ErrDamaged that it is not whole.
func (d *Dir) Facts(r Range) (f Facts, err error) {
	file, err := regular.Open(d.File(r))
	if err != nil {
		return f, err
	}
	defer file.Close()
	begin := make([]byte, prefixSize+2<<10)
	n, err := file.ReadAt(begin, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return f, err
	}
	size, err := headSize(begin[:n])
	if err != nil {
		return f, fmt.Errorf("%s: %w", file.Name(), err)
	}
	if size > n {
		info, err := file.Stat()
		if err != nil {
			return f, err
		}
		begin = make([]byte, min(int64(size), info.Size()))
		if n, err = file.ReadAt(begin, 0); err != nil && !errors.Is(err, io.EOF) {
			return f, err
		}
	}
	f, err = DecodeFacts(begin[:n])
	return f, d.checked(r, f, err)
}

// Get returns the part of a range. Errors are those of Facts.
func (d *Dir) Get(r Range) (*Part, error) {
	file, err := regular.Open(d.File(r))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := regular.ReadAll(file, MaxFile)
	if err != nil {
		return nil, err
	}
	p, err := Decode(content)
	if err != nil {
		return nil, d.checked(r, Facts{}, err)
	}
	return p, d.checked(r, p.Facts, nil)
}

// checked adds to err where it is, or says that f is of another range.
func (d *Dir) checked(r Range, f Facts, err error) error {
	if err == nil && (f.First != r.First || f.Last != r.Last) {
		err = fmt.Errorf("%w: it says that it is of entries %d to %d", ErrDamaged, f.First, f.Last)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.File(r), err)
	}
	return nil
}

// Put keeps a part, durably, in the place of what there was of its range.
func (d *Dir) Put(p *Part) error {
	r := Range{p.First, p.Last}
	if err := d.put(r, p.Encode()); err != nil {
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

// Drop removes the parts of entries before first alone, and what a crash left unfinished. It returns how many parts it
// removed.
func (d *Dir) Drop(first uint64) (dropped int, err error) {
	files, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return 0, nil
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

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Cover chooses of ranges, which are sorted as List returns them, those that cover the entries from first to last as
// far as they do, without overlapping: each begins behind the one before it, and of several that begin at the same
// entry it is the longest.
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
