// Package durable brings files and their names to the disk, in the steps that a crash cannot tear.
//
// A file that is written, synced and closed is on the disk; its name is only once its directory is synced too. So
// whoever adds, renames or removes a name ends with Sync of the directory. The package knows nothing about what the
// files hold.
//
// Start reading at Sync.
package durable

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Sync brings the file at path to the disk; for a directory, the names in it.
func Sync(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // what came in its place is not waited for
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Publish gives the file at tmp the name path. A hard link does not replace what another process may have put there
// meanwhile: that is an error that wraps fs.ErrExist. Only where the file system has no hard links is the file renamed,
// and only if there is nothing at path; if a link fails for any other reason, that is an error. The name
// is on the disk once the directory is synced.
func Publish(tmp, path string) error {
	return publish(os.Link(tmp, path), path, os.Lstat, func() error { return os.Rename(tmp, path) })
}

// hasNoLinks reports whether err, of making a hard link, says that the file system has none: link(2) names EPERM for
// that, and some file systems say that they do not have the call.
func hasNoLinks(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM)
}

// PublishIn is Publish within one directory, whatever its path leads to by now.
func PublishIn(dir *os.Root, tmp, name string) error {
	return publish(dir.Link(tmp, name), name, dir.Lstat, func() error { return dir.Rename(tmp, name) })
}

// publish ends giving a file its name, if linking it has ended with linked.
func publish(linked error, name string, lstat func(string) (fs.FileInfo, error), rename func() error) error {
	if !hasNoLinks(linked) {
		return linked
	}
	if _, err := lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, error(&fs.PathError{Op: "link", Path: name, Err: fs.ErrExist}))
	}
	return rename()
}

// WriteNew lets write make the content of a new file at path. The file appears there when it is whole and durable. If
// there is a file at path already, that is left alone, and the error wraps fs.ErrExist.
func WriteNew(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already if all went well
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := Publish(f.Name(), path); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}
