// Package regular opens the files of logs, which may come from anywhere. In a directory that was unpacked, mounted or
// sent, any file may be a FIFO, a device, huge, or a symbolic link to any file on this machine.
//
// It opens a regular file or returns a *NotAFileError, without waiting. Reading a whole file has a limit. It never
// writes through a symbolic link nor over an existing file: new files have a random name until they are renamed. The
// path of a log's directory is the user's choice, and may lead through links.
//
// The package owns no names and no formats. internal/lint checks that the packages that work on log directories open
// files here.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rollcall-sched/rollcall/internal/durable"
)

// ErrNotAFile is wrapped by the error about a file that is not regular.
var ErrNotAFile = errors.New("it is not a regular file")

// ErrTooLarge is wrapped by the error about a file that is larger than any of its kind may be.
var ErrTooLarge = errors.New("the file is too large")

// Open opens the file at path for reading. It may be a symbolic link to a regular file.
func Open(path string) (*os.File, error) { return open(path, os.O_RDONLY|nonblock, 0) }

// OpenFile opens the file at path, which must not be a symbolic link, with the flags of os.OpenFile. It never
// truncates.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	return open(path, flag&^os.O_TRUNC|nonblock|nofollow, perm)
}

func open(path string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, explain(path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: notAFile(info.Mode())}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenIn is OpenFile in the directory dir.
func OpenIn(dir *os.Root, name string, flag int, perm fs.FileMode) (*os.File, error) {
	there, err := durable.LstatIn(dir, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !there.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: notAFile(there.Mode())}
	}
	f, err := dir.OpenFile(name, flag&^os.O_TRUNC|nonblock, perm)
	if err != nil {
		return nil, err
	}
	if there, err = durable.LstatIn(dir, name); err == nil {
		var held fs.FileInfo
		if held, err = f.Stat(); err == nil && (!held.Mode().IsRegular() || !os.SameFile(there, held)) {
			err = &fs.PathError{Op: "open", Path: name, Err: notAFile(there.Mode())}
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// explain adds to an error of opening whether the kind of the file at path is its cause. It does not treat a link to a
// missing file as a missing file.
func explain(path string, err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	if info, lerr := os.Lstat(path); lerr == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return &fs.PathError{Op: "open", Path: path, Err: notAFile(info.Mode())}
	}
	return err
}

func notAFile(mode fs.FileMode) error {
	what := "something else"
	switch mode.Type() {
	case fs.ModeDir:
		what = "a directory"
	case fs.ModeSymlink:
		what = "a symbolic link"
	case fs.ModeNamedPipe:
		what = "a pipe (FIFO)"
	case fs.ModeSocket:
		what = "a socket"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		what = "a device"
	}
	return fmt.Errorf("%w: it is %s", ErrNotAFile, what)
}

// ReadFile returns the content of the file at path, at most most bytes. It may be a symbolic link to a regular file.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	content, err := ReadAll(f, most)
	return content, errors.Join(err, f.Close())
}

// ReadAll returns the content of f, which Open has opened, at most most bytes.
func ReadAll(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size > most {
		return nil, &fs.PathError{Op: "read", Path: f.Name(),
			Err: fmt.Errorf("%w: it has %d bytes, and none of its kind has more than %d", ErrTooLarge, size, most)}
	}
	content := make([]byte, size)
	n, err := io.ReadFull(io.NewSectionReader(f, 0, size), content)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the file was truncated meanwhile
		err = nil
	}
	return content[:n], err
}

// Directory returns an error unless path is a directory, and not a link to one.
func Directory(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: path,
			Err: fmt.Errorf("it is not a directory: %w", notAFile(info.Mode()))}
	}
	return nil
}
