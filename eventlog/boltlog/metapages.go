package boltlog

import (
	"encoding/binary"
	"hash/fnv"
	"os"
)

// Where bbolt has what it says about a file, in each of the first two pages: a page's header, 56 bytes, and their
// checksum. In the machine's byte order.
const (
	pageHeaderSize = 16
	metaBodySize   = 56
)

// metaPagesWhole says whether both of a bbolt file's first two pages are good, of which each commit writes one:
// bbolt goes by the newer one that is. One is enough for bbolt, and the other may then have been that of the
// last commit, which nobody sees any more. No crash leaves a bad one: what it has fits into one sector, which a
// disk writes as a whole.
func metaPagesWhole(f *os.File, size int) (bool, error) {
	for page := range 2 {
		var b [metaBodySize + 8]byte
		if _, err := f.ReadAt(b[:], int64(page*size+pageHeaderSize)); err != nil {
			return false, err
		}
		sum := fnv.New64a()
		sum.Write(b[:metaBodySize])
		if sum.Sum64() != binary.NativeEndian.Uint64(b[metaBodySize:]) {
			return false, nil
		}
	}
	return true, nil
}
