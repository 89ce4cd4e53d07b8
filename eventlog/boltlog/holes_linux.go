package boltlog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// skipHole returns where the file has data from at on, so that a file of 60 GB of nothing is read at once. Of a hole at
// the file's end the last byte is enough.
func skipHole(file *os.File, at int64) int64 {
	data, err := file.Seek(at, unix.SEEK_DATA)
	if err == nil {
		return data
	}
	if info, failed := file.Stat(); failed == nil && errors.Is(err, unix.ENXIO) {
		return max(at, info.Size()-1)
	}
	return at
}
