package boltlog

import (
	"encoding/binary"
	"hash/fnv"
	"os"
)

// The places, in each of the first two pages, of bbolt's facts about a file: a page's header, 56 bytes, and the
// checksum. They are in the machine's byte order.
const (
	pageHeaderSize = 16
	metaBodySize   = 56
)

// metaPagesWhole reports whether both of a bbolt file's first two pages are good. Each commit writes one of them, and
// bbolt uses the newer good one. One is enough for bbolt, but the other may have been the last commit's, which is then
// lost without notice. No crash leaves a bad one: its content fits into one sector, which a disk writes as a whole.
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
