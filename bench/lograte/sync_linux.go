package lograte

import (
	"os"
	"syscall"
)

// syncData brings a file's bytes to the disk, with only the metadata needed to read them.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
