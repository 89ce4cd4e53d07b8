package crashfs

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// blockSize is the unit in which an image keeps a file's bytes.
const blockSize = 4096

// An image is the content of a directory on the disk. Its files' blocks are shared among copies, and never changed.
type image struct {
	files map[int]*file
	names map[int]map[string]int // by directory; a directory that is missing has no names
	dirs  map[int]bool           // which numbers are directories; never changed
}

type file struct {
	size   int64
	blocks map[int64]*[blockSize]byte // absent: zeros
}

func newImage() *image {
	return &image{files: map[int]*file{}, names: map[int]map[string]int{Root: {}}, dirs: map[int]bool{Root: true}}
}

func (m *image) clone() *image {
	c := &image{
		files: make(map[int]*file, len(m.files)),
		names: make(map[int]map[string]int, len(m.names)),
		dirs:  m.dirs,
	}
	for n, f := range m.files {
		c.files[n] = &file{size: f.size, blocks: maps.Clone(f.blocks)}
	}
	for n, names := range m.names {
		c.names[n] = maps.Clone(names)
	}
	return c
}

// file returns the file of the number, and makes it if it does not exist: an inode exists whether or not a name of it
// has reached the disk.
func (m *image) file(n int) *file {
	f := m.files[n]
	if f == nil {
		f = &file{blocks: map[int64]*[blockSize]byte{}}
		m.files[n] = f
	}
	return f
}

func (m *image) dir(n int) map[string]int {
	d := m.names[n]
	if d == nil {
		d = map[string]int{}
		m.names[n] = d
	}
	return d
}

// apply does what o did. From a Write it writes only the sectors that keep accepts; nil accepts all.
func (m *image) apply(o Op, keep func(sector int) bool) {
	switch o.Kind {
	case Create:
		m.file(o.File)
		m.dir(o.Dir)[o.Name] = o.File
	case Mkdir:
		m.dir(o.Dir)[o.Name] = o.File
	case Link:
		m.dir(o.Dir)[o.Name] = o.File
	case Rename:
		// A file that already lost its old name, or never had one on the disk, still gets the new one.
		if m.dir(o.OldDir)[o.OldName] == o.File {
			delete(m.dir(o.OldDir), o.OldName)
		}
		m.dir(o.Dir)[o.Name] = o.File
	case Unlink:
		if m.dir(o.Dir)[o.Name] == o.File {
			delete(m.dir(o.Dir), o.Name)
		}
	case Truncate:
		m.file(o.File).truncate(o.Offset)
	case Write:
		m.file(o.File).write(o.Data, o.Offset, keep)
	}
}

func (f *file) truncate(size int64) {
	for at := range f.blocks {
		switch left := size - at*blockSize; {
		case left <= 0:
			delete(f.blocks, at)
		case left < blockSize:
			b := *f.blocks[at]
			clear(b[left:])
			f.blocks[at] = &b
		}
	}
	f.size = size
}

func (f *file) write(data []byte, offset int64, keep func(sector int) bool) {
	f.size = max(f.size, offset+int64(len(data)))
	for done := 0; done < len(data); {
		at := offset + int64(done)
		n := min(len(data)-done, int(sectorSize-at%sectorSize))
		if keep == nil || keep(int(at/sectorSize-offset/sectorSize)) {
			b := [blockSize]byte{}
			if old := f.blocks[at/blockSize]; old != nil {
				b = *old
			}
			if keep == nil { // no need to go by sectors
				n = min(len(data)-done, int(blockSize-at%blockSize))
			}
			copy(b[at%blockSize:], data[done:done+n])
			f.blocks[at/blockSize] = &b
		}
		done += n
	}
}

var seed = maphash.MakeSeed()

// sum is equal for equal images, whatever files without a name they have.
func (m *image) sum() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	m.sumDir(&h, Root)
	return h.Sum64()
}

func (m *image) sumDir(h *maphash.Hash, n int) {
	for _, name := range slices.Sorted(maps.Keys(m.names[n])) {
		child := m.names[n][name]
		fmt.Fprintf(h, "%q", name)
		if m.dirs[child] {
			h.WriteByte('{')
			m.sumDir(h, child)
			h.WriteByte('}')
			continue
		}
		f := m.file(child)
		fmt.Fprintf(h, "%d", f.size)
		for _, at := range slices.Sorted(maps.Keys(f.blocks)) {
			fmt.Fprintf(h, ",%d:", at)
			h.Write(f.blocks[at][:])
		}
	}
}

// build makes the image's files in dir, an empty directory.
func (m *image) build(dir string) error { return m.buildDir(dir, Root, map[int]string{}) }

func (m *image) buildDir(dir string, n int, made map[int]string) error {
	// any order: the names of a directory are made one as the other
	for name, child := range m.names[n] {
		path := filepath.Join(dir, name)
		var err error
		switch {
		case m.dirs[child]:
			if err = os.Mkdir(path, 0o700); err == nil {
				err = m.buildDir(path, child, made)
			}
		case made[child] != "":
			err = os.Link(made[child], path)
		default:
			made[child] = path
			err = m.file(child).build(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *file) build(path string) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(0o600))
	if err != nil {
		return err
	}
	err = out.Truncate(f.size)
	// any order: blocks do not overlap
	for at, b := range f.blocks {
		offset := at * blockSize
		_, e := out.WriteAt(b[:min(blockSize, f.size-offset)], offset)
		err = errors.Join(err, e)
	}
	return errors.Join(err, out.Close())
}
