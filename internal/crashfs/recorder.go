//go:build linux

package crashfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A recorder turns the successful system calls of one process into operations.
type recorder struct {
	root  string
	ops   Recording
	made  int            // the number of files and directories made
	paths map[string]int // of everything below root now, and of root
	open  map[int]*opened
}

// An opened file is one below the root.
type opened struct {
	file   int
	at     int64 // where the next write goes
	append bool
}

func newRecorder(root string) *recorder {
	return &recorder{
		root:  filepath.Clean(root),
		paths: map[string]int{filepath.Clean(root): Root},
		open:  map[int]*opened{},
	}
}

func (r *recorder) below(path string) bool {
	return path == r.root || strings.HasPrefix(path, r.root+"/")
}

// add records an operation.
func (r *recorder) add(o Op) { r.ops = append(r.ops, o) }

// place returns the directory of a path, and its name there.
func (r *recorder) place(path string) (dir int, name string, err error) {
	dir, ok := r.paths[filepath.Dir(path)]
	if !ok {
		return 0, "", fmt.Errorf("%s is in a directory that was not recorded", path)
	}
	return dir, filepath.Base(path), nil
}

func (r *recorder) opened(path string, flags, fd int) error {
	path = filepath.Clean(path)
	if !r.below(path) {
		delete(r.open, fd)
		return nil
	}
	n, there := r.paths[path]
	switch {
	case !there && flags&os.O_CREATE == 0:
		return fmt.Errorf("%s was not there when the recording began", path)
	case !there:
		dir, name, err := r.place(path)
		if err != nil {
			return err
		}
		r.made++
		n = r.made
		r.paths[path] = n
		r.add(Op{Kind: Create, File: n, Dir: dir, Name: name})
	case flags&os.O_TRUNC != 0:
		r.add(Op{Kind: Truncate, File: n})
	}
	r.open[fd] = &opened{file: n, append: flags&os.O_APPEND != 0}
	return nil
}

// wrote records a write at an offset, or at the file's position if the offset is -1.
func (r *recorder) wrote(pid, fd int, data []byte, offset int64) error {
	f := r.open[fd]
	switch {
	case f == nil && fd == Notes:
		r.add(Op{Kind: Note, Text: string(data)})
		return nil
	case f == nil:
		return r.stranger(pid, fd)
	case f.append:
		return fmt.Errorf("it is not known how to record appending")
	case offset < 0:
		offset = f.at
		f.at += int64(len(data))
	}
	r.add(Op{Kind: Write, File: f.file, Data: data, Offset: offset})
	return nil
}

// stranger refuses a file below the root that was not opened there.
func (r *recorder) stranger(pid, fd int) error {
	if r.underRoot(pid, fd) {
		return fmt.Errorf("file %d is below %s, but was not seen to be opened", fd, r.root)
	}
	return nil
}

func (r *recorder) moved(fd int, n int64) {
	if f := r.open[fd]; f != nil {
		f.at += n
	}
}

func (r *recorder) sought(fd int, at int64) error {
	if f := r.open[fd]; f != nil {
		f.at = at
	}
	return nil
}

func (r *recorder) copied(pid, from, to int, offsets bool, n int64) error {
	r.moved(from, n)
	f := r.open[to]
	if f == nil {
		return r.stranger(pid, to)
	}
	if offsets {
		return fmt.Errorf("it is not known how to record a copy between given places")
	}
	data, err := readBack(pid, to, f.at, n)
	if err != nil {
		return err
	}
	return r.wrote(pid, to, data, -1)
}

func (r *recorder) truncated(pid, fd int, size int64) error {
	f := r.open[fd]
	if f == nil {
		return r.stranger(pid, fd)
	}
	r.add(Op{Kind: Truncate, File: f.file, Offset: size})
	return nil
}

func (r *recorder) truncatedPath(path string, size int64) error {
	if path = filepath.Clean(path); !r.below(path) {
		return nil
	}
	r.add(Op{Kind: Truncate, File: r.paths[path], Offset: size})
	return nil
}

func (r *recorder) synced(pid, fd int) error {
	f := r.open[fd]
	if f == nil {
		return r.stranger(pid, fd)
	}
	r.add(Op{Kind: Sync, File: f.file})
	return nil
}

func (r *recorder) mapped(fd int, writable bool) error {
	if f := r.open[fd]; f != nil && writable {
		return fmt.Errorf("file %d is written through memory, which cannot be recorded", f.file)
	}
	return nil
}

// named records that a name was made or removed; from is the other name of a Link or Rename.
func (r *recorder) named(kind Kind, path, from string) error {
	path, from = filepath.Clean(path), filepath.Clean(from)
	if !r.below(path) && !r.below(from) {
		return nil
	}
	dir, name, err := r.place(path)
	if err != nil {
		return err
	}
	o := Op{Kind: kind, Dir: dir, Name: name}
	switch kind {
	case Mkdir:
		r.made++
		o.File = r.made
		r.paths[path] = o.File
	case Unlink:
		o.File = r.paths[path]
		delete(r.paths, path)
	case Link:
		o.File = r.paths[from]
		r.paths[path] = o.File
	case Rename:
		if o.OldDir, o.OldName, err = r.place(from); err != nil {
			return err
		}
		o.File = r.paths[from]
		r.move(from, path)
	}
	r.add(o)
	return nil
}

// move gives from, and everything below it, its new path.
func (r *recorder) move(from, to string) {
	moved := map[string]int{}
	// any order: the paths differ in their beginnings
	for path, n := range r.paths {
		if path == from || strings.HasPrefix(path, from+"/") {
			moved[to+strings.TrimPrefix(path, from)] = n
			delete(r.paths, path)
		}
	}
	// any order: the new paths differ from each other
	for path, n := range moved {
		r.paths[path] = n
	}
}
