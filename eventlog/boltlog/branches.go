package boltlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// bbolt believes what its pages say about each other: a single wrong bit in the page that names the buckets may hide
// all entries, and one in a branch page may send it round in an endless circle. So the few pages that lead to the
// entries are examined before bbolt reads any. The entries themselves have checksums.

// The flags of bbolt's pages and elements, and the sizes of a page's parts.
const (
	flagBranch  = 0x01
	flagLeaf    = 0x02
	flagBucket  = 0x01
	elementSize = 16
)

// A pageWalk visits the branch pages of a bbolt file.
type pageWalk struct {
	file  *os.File
	size  int64           // of a page
	pages uint64          // the number of pages
	seen  map[uint64]bool // the visited pages
}

// A rawPage is a page with the pages that continue it.
type rawPage struct {
	flags, count int
	bytes        []byte
}

// checkBranches checks that the file's root page names exactly our buckets, and that the pages of the entries form a
// tree, down to its leaves. txid is the transaction of that tree. With toWrite it also checks the list of free pages.
func (s *Segment) checkBranches(txid, used int64, toWrite bool) error {
	size := int64(s.db.Info().PageSize)
	w := pageWalk{file: s.file, size: size, pages: uint64(used / size), seen: map[uint64]bool{}}
	var meta [metaBodySize]byte
	if _, err := s.file.ReadAt(meta[:], txid%2*size+pageHeaderSize); err != nil {
		return err
	}
	root, err := w.read(binary.NativeEndian.Uint64(meta[16:]))
	if err != nil {
		return err
	}
	roots, err := w.buckets(root)
	if err != nil {
		return err
	}
	for _, id := range roots {
		if err := w.descend(id); err != nil {
			return err
		}
	}
	if !toWrite {
		return nil
	}
	return w.checkFreelist(binary.NativeEndian.Uint64(meta[metaFreelistAt-pageHeaderSize:]))
}

// read reads a page that was not visited before.
func (w *pageWalk) read(id uint64) (p rawPage, err error) {
	if id < 2 || id >= w.pages || w.seen[id] {
		return p, fmt.Errorf("page %d of %d is none to come to, or is come to twice", id, w.pages)
	}
	w.seen[id] = true
	head := make([]byte, pageHeaderSize)
	if _, err := w.file.ReadAt(head, int64(id)*w.size); err != nil {
		return p, err
	}
	p.flags = int(binary.NativeEndian.Uint16(head[8:]))
	p.count = int(binary.NativeEndian.Uint16(head[10:]))
	over := uint64(binary.NativeEndian.Uint32(head[pageOverflowAt:]))
	if self := binary.NativeEndian.Uint64(
		head,
	); self != id || over >= w.pages-id ||
		p.flags != flagBranch && p.flags != flagLeaf {
		return p, fmt.Errorf(
			"page %d says of itself that it is page %d, of kind %#x, and goes on over %d pages",
			id,
			self,
			p.flags,
			over,
		)
	}
	if p.flags == flagLeaf && len(w.seen) > 1 {
		return p, nil // a leaf of entries
	}
	p.bytes = make([]byte, int64(over+1)*w.size)
	if pageHeaderSize+p.count*elementSize > len(p.bytes) {
		return p, fmt.Errorf("page %d is said to hold %d elements", id, p.count)
	}
	_, err = w.file.ReadAt(p.bytes, int64(id)*w.size)
	return p, err
}

// buckets checks that the root page has our buckets and no others. It returns the root pages of their contents, except
// for buckets inside the root page itself.
func (w *pageWalk) buckets(p rawPage) (roots []uint64, err error) {
	names := [][]byte{bucketLog, bucketMeta, bucketSnap} // as bbolt sorts them
	if p.flags != flagLeaf || p.count != len(names) {
		return nil, fmt.Errorf("the page of the buckets is said to be of kind %#x and to hold %d", p.flags, p.count)
	}
	end := uint64(pageHeaderSize + len(names)*elementSize)
	for i, name := range names {
		at := pageHeaderSize + i*elementSize
		element := p.bytes[at : at+elementSize]
		flags, start := binary.NativeEndian.Uint32(element), uint64(at)+uint64(binary.NativeEndian.Uint32(element[4:]))
		keySize := uint64(binary.NativeEndian.Uint32(element[8:]))
		valueSize := uint64(binary.NativeEndian.Uint32(element[12:]))
		stop := start + keySize + valueSize
		// bbolt writes them without a gap.
		if flags != flagBucket || start != end || keySize != uint64(len(name)) || stop > uint64(len(p.bytes)) ||
			valueSize < 16 ||
			!bytes.Equal(p.bytes[start:start+keySize], name) {
			return nil, fmt.Errorf("the bucket %q is not where it must be", name)
		}
		value := p.bytes[start+keySize : stop]
		root := binary.NativeEndian.Uint64(value)
		if inline := valueSize > 16; inline != (root == 0) {
			return nil, fmt.Errorf("the bucket %q is said to begin at page %d", name, root)
		}
		if root != 0 {
			roots = append(roots, root)
		} else if err := checkInline(value[16:]); err != nil {
			return nil, fmt.Errorf("the bucket %q: %w", name, err)
		}
		end = stop
	}
	return roots, nil
}

// checkInline checks that the page of a bucket inside the root page is a leaf whose elements follow each other and
// fill it. bbolt writes it so, and panics in the middle of an append if there are more or fewer of them.
func checkInline(page []byte) error {
	if len(page) < pageHeaderSize {
		return fmt.Errorf("it has %d bytes", len(page))
	}
	self, flags := binary.NativeEndian.Uint64(page), binary.NativeEndian.Uint16(page[8:])
	count := int(binary.NativeEndian.Uint16(page[10:]))
	over := binary.NativeEndian.Uint32(page[pageOverflowAt:])
	end := uint64(pageHeaderSize + count*elementSize)
	if self != 0 || flags != flagLeaf || over != 0 || end > uint64(len(page)) {
		return fmt.Errorf(
			"it is said to be page %d of kind %#x, to hold %d, and to go on over %d pages",
			self,
			flags,
			count,
			over,
		)
	}
	for i := range count {
		at := pageHeaderSize + i*elementSize
		start := uint64(at) + uint64(binary.NativeEndian.Uint32(page[at+4:]))
		keySize, valueSize := binary.NativeEndian.Uint32(page[at+8:]), binary.NativeEndian.Uint32(page[at+12:])
		if start != end || keySize == 0 || binary.NativeEndian.Uint32(page[at:]) != 0 {
			return fmt.Errorf("the %d. of its %d elements is not where it must be", i+1, count)
		}
		end = start + uint64(keySize) + uint64(valueSize)
	}
	if end != uint64(len(page)) {
		return fmt.Errorf("its %d elements end at byte %d of %d", count, end, len(page))
	}
	return nil
}

// descend visits the tree below page id. All leaves have the same depth, so the first child of a page shows the kind
// of the others. No page is visited twice, so there can be no circle.
func (w *pageWalk) descend(id uint64) error {
	p, err := w.read(id)
	if err != nil || p.flags == flagLeaf {
		return err
	}
	if p.count == 0 {
		return fmt.Errorf("page %d leads nowhere", id)
	}
	leaves := false
	for i := range p.count {
		at := pageHeaderSize + i*elementSize
		keyAt := uint64(at) + uint64(binary.NativeEndian.Uint32(p.bytes[at:]))
		if keySize := binary.NativeEndian.Uint32(p.bytes[at+4:]); keySize != 8 || keyAt+8 > uint64(len(p.bytes)) {
			return fmt.Errorf("page %d has a key of %d bytes at %d", id, keySize, keyAt)
		}
		child := binary.NativeEndian.Uint64(p.bytes[at+8:])
		if i > 0 && leaves {
			if child < 2 || child >= w.pages || w.seen[child] {
				return fmt.Errorf("page %d leads to page %d, which is none or is come to twice", id, child)
			}
			w.seen[child] = true
			continue
		}
		before := len(w.seen)
		if err := w.descend(child); err != nil {
			return err
		}
		leaves = i == 0 && len(w.seen) == before+1
	}
	return nil
}
