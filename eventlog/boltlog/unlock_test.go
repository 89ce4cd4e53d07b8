package boltlog

import (
	"os"
	"syscall"
)

// unlock lets go of the lock that bbolt has on f.
func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
