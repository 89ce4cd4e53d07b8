package boltlog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// skipHole returns the offset of the file's next data from at on, so that a file with a hole of 60 GB is read quickly.
// For a hole at the file's end it returns the last byte.
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
