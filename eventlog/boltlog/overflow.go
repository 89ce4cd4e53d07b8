package boltlog

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// The places in bbolt's pages that checkOverflow reads, in the machine's byte order.
const (
	pageOverflowAt = 12 // in a page's header: the number of pages that continue it, 4 bytes
	metaFreelistAt = 48 // of a meta page: the number of the page of the free list, 8 bytes
)

// checkOverflow checks that no page claims more continuation pages than exist: bbolt's own check believes a page, and
// records each of them, up to four billion.
func (s *Segment) checkOverflow(tx *bolt.Tx) error {
	size := int64(tx.DB().Info().PageSize)
	pages := uint64(tx.Size() / size)
	tree := tx.Cursor().Bucket().Stats() // of the bucket that holds the others, and so of all
	if n := uint64(
		tree.BranchPageN,
	) + uint64(
		tree.LeafPageN,
	) + uint64(
		tree.BranchOverflowN,
	) + uint64(
		tree.LeafOverflowN,
	); n > pages {
		return fmt.Errorf("%d pages are said to be in use, but the file has only %d", n, pages)
	}
	var b [8]byte
	at := int64(tx.ID()%2)*size + metaFreelistAt
	if _, err := s.file.ReadAt(b[:8], at); err != nil {
		return err
	}
	list := binary.NativeEndian.Uint64(b[:8])
	if list >= pages {
		return nil // there is none, or the check says so
	}
	if _, err := s.file.ReadAt(b[:4], int64(list)*size+pageOverflowAt); err != nil {
		return err
	}
	if n := uint64(binary.NativeEndian.Uint32(b[:4])); n >= pages-list {
		return fmt.Errorf(
			"the list of free pages is said to go on over %d pages from page %d, but the file has only %d",
			n,
			list,
			pages,
		)
	}
	return nil
}
