package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// maxInterrupted is the largest number of attempts at a call that signals interrupt.
const maxInterrupted = 100

// Uninterrupted calls f, and calls it again while a signal interrupts it (EINTR). Package os does so for most system
// calls, but not for linkat and fstatat of an os.Root.
func Uninterrupted[T any](f func() (T, error)) (result T, err error) {
	for range maxInterrupted {
		if result, err = f(); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	return result, err
}

// LstatIn is Lstat of dir, also if signals interrupt it.
func LstatIn(dir *os.Root, name string) (fs.FileInfo, error) {
	return Uninterrupted(func() (fs.FileInfo, error) { return dir.Lstat(name) })
}

// StatIn is Stat of dir, also if signals interrupt it.
func StatIn(dir *os.Root, name string) (fs.FileInfo, error) {
	return Uninterrupted(func() (fs.FileInfo, error) { return dir.Stat(name) })
}

// linkAgain makes a hard link with link. If a signal interrupts that, the link may have been made: then linked reports
// whether the name is one of the file.
func linkAgain(link func() error, linked func() bool) error {
	interrupted := false
	_, err := Uninterrupted(func() (struct{}, error) {
		err := link()
		if interrupted && errors.Is(err, fs.ErrExist) && linked() {
			return struct{}{}, nil
		}
		interrupted = interrupted || errors.Is(err, syscall.EINTR)
		return struct{}{}, err
	})
	return err
}
