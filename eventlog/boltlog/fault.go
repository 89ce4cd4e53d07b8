package boltlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/regular"
)

// A faultError is a panic of bbolt, or a memory fault, on the pages of a damaged file.
type faultError struct{ value any }

// Error implements error.
func (e *faultError) Error() string {
	return fmt.Sprintf("the file is cut short or its pages are damaged: %v", e.value)
}

// unreadable returns the system's error if that caused err, and nil if err is about the file's content. A memory fault
// may be either: if the file can be read to its end without the mapping, pages are damaged, or missing.
func unreadable(file *os.File, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var fault *faultError
	if file == nil || !errors.As(err, &fault) {
		return nil
	}
	return readToEnd(file)
}

// readToEnd returns the error from reading the whole file, nil at its end. It skips holes where the system reports
// them.
func readToEnd(file *os.File) error {
	b := make([]byte, 1<<20)
	for at := int64(0); ; at += int64(len(b)) {
		at = skipHole(file, at)
		if _, err := file.ReadAt(b, at); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// readThrough is readToEnd for the file at path.
func readThrough(path string) error {
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(readToEnd(f), f.Close())
}

// CheckReadable returns an *eventlog.UnreadableError if the system cannot read all of the file of a segment.
func CheckReadable(path string, seq uint64) error {
	if err := readThrough(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &eventlog.UnreadableError{Path: path, Seq: seq, Err: err}
	}
	return nil
}

// guard runs f, which reads pages that may be damaged. bbolt trusts its pages: it panics on a wrong one, and touching
// one after the file's end is a memory fault.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			err = &faultError{value: v}
		}
	}()
	return f()
}
