package boltlog

import (
	"encoding/binary"
	"fmt"
)

// flagFreelist is the kind of the page that lists the free pages.
const flagFreelist = 0x10

// checkFreelist checks that no page which bbolt believes free holds data: it would be overwritten. It is needed before
// writing; w has visited all pages of the tree. A free page that is not in the list is lost space and nothing worse.
func (w *pageWalk) checkFreelist(list uint64) error {
	if list == 1<<64-1 {
		return nil // there is none
	}
	used := make([]bool, w.pages)
	mark := func(id uint64) error {
		var head [pageHeaderSize]byte
		if id < 2 || id >= w.pages {
			return fmt.Errorf("page %d is none of %d", id, w.pages)
		}
		if _, err := w.file.ReadAt(head[:], int64(id)*w.size); err != nil {
			return err
		}
		over := uint64(binary.NativeEndian.Uint32(head[pageOverflowAt:]))
		if over >= w.pages-id {
			return fmt.Errorf("page %d says that it goes on over %d pages of %d", id, over, w.pages)
		}
		for i := id; i <= id+over; i++ {
			if used[i] {
				return fmt.Errorf("page %d is in use twice", i)
			}
			used[i] = true
		}
		return nil
	}
	// any order: one that is in use twice is found either way
	for id := range w.seen {
		if err := mark(id); err != nil {
			return err
		}
	}
	if err := mark(list); err != nil {
		return err
	}
	free, err := w.readFreelist(list)
	if err != nil {
		return err
	}
	last := uint64(1)
	for _, id := range free {
		switch {
		case id <= last || id >= w.pages:
			return fmt.Errorf("the list of free pages has page %d of %d behind page %d", id, w.pages, last)
		case used[id]:
			return fmt.Errorf("the list of free pages has page %d, which is in use", id)
		}
		last = id
	}
	return nil
}

// readFreelist reads the numbers in the list that begins with page id, which continues over pages that exist.
func (w *pageWalk) readFreelist(id uint64) ([]uint64, error) {
	head := make([]byte, pageHeaderSize+8)
	if _, err := w.file.ReadAt(head, int64(id)*w.size); err != nil {
		return nil, err
	}
	self, flags := binary.NativeEndian.Uint64(head), binary.NativeEndian.Uint16(head[8:])
	count := uint64(binary.NativeEndian.Uint16(head[10:]))
	over := uint64(binary.NativeEndian.Uint32(head[pageOverflowAt:]))
	at := uint64(pageHeaderSize)
	if count == 0xFFFF { // more than fit into the header: their number comes first
		count = binary.NativeEndian.Uint64(head[pageHeaderSize:])
		at += 8
	}
	if size := (over + 1) * uint64(w.size); self != id || flags != flagFreelist || count > (size-at)/8 {
		return nil, fmt.Errorf(
			"the list of free pages is said to be page %d of kind %#x, and to have %d numbers",
			self,
			flags,
			count,
		)
	}
	list := make([]byte, 8*count)
	if _, err := w.file.ReadAt(list, int64(id)*w.size+int64(at)); err != nil {
		return nil, err
	}
	ids := make([]uint64, count)
	for i := range ids {
		ids[i] = binary.NativeEndian.Uint64(list[8*i:])
	}
	return ids, nil
}
