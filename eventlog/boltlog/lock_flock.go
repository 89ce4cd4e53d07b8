//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltlog

import (
	"errors"
	"os"
	"syscall"
)

// flock locks f for one, or for all who do not ask to be the only one, until it is closed. It does not wait.
func flock(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
