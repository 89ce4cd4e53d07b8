package lograte

import (
	"os"
	"syscall"
)

// syncData brings a file's bytes to the disk, and of what is said about it only what is needed to read them.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
