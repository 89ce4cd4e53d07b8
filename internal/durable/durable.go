// Package durable brings files and their names to the disk, in steps that a crash cannot tear.
//
// A file that is written, synced and closed is on the disk. Its name is on the disk only after its directory is synced
// too. So the code that adds, renames or removes a name ends with Sync of the directory. The package knows nothing
// about the contents of the files.
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
	// do not wait for a file of another kind that replaced it
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Publish gives the file at tmp the name path. It makes a hard link, which never replaces a file of another process:
// if there is one, the error wraps fs.ErrExist. Only where the file system has no hard links it renames the file, and
// only if path does not exist. A link that fails for any other reason is an error. The name is durable once the
// directory is synced.
func Publish(tmp, path string) error {
	return publishAt(tmp, path, func() error { return os.Link(tmp, path) })
}

// publishAt is Publish with a function that makes the hard link. Package os repeats a link that a signal interrupts. If
// the first attempt has made it, the next one finds a name of the same file.
func publishAt(tmp, path string, link func() error) error {
	linked := link()
	if errors.Is(linked, fs.ErrExist) && isOneFile(os.Lstat, tmp, path) {
		return nil
	}
	return publish(linked, path, os.Lstat, func() error { return os.Rename(tmp, path) })
}

// isOneFile reports whether a and b are names of one file.
func isOneFile(lstat func(string) (fs.FileInfo, error), a, b string) bool {
	infoA, errA := lstat(a)
	infoB, errB := lstat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// hasNoLinks reports whether err, from making a hard link, means that the file system has none. link(2) returns EPERM
// for that, and some file systems return that the call is not supported.
func hasNoLinks(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM)
}

// PublishIn is Publish within one directory, even if the directory's path now leads elsewhere.
func PublishIn(dir *os.Root, tmp, name string) error {
	return publishIn(dir, tmp, name, func() error { return dir.Link(tmp, name) })
}

// publishIn is PublishIn with a function that makes the hard link.
func publishIn(dir *os.Root, tmp, name string, link func() error) error {
	lstat := func(name string) (fs.FileInfo, error) { return LstatIn(dir, name) }
	linked := linkAgain(link, func() bool { return isOneFile(lstat, tmp, name) })
	return publish(linked, name, lstat, func() error { return dir.Rename(tmp, name) })
}

// publish completes the naming of a file after linking it has ended with linked.
func publish(linked error, name string, lstat func(string) (fs.FileInfo, error), rename func() error) error {
	if !hasNoLinks(linked) {
		return linked
	}
	if _, err := lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, error(&fs.PathError{Op: "link", Path: name, Err: fs.ErrExist}))
	}
	return rename()
}

// WriteNew calls write to make the content of a new file at path. The file appears there once it is complete and
// durable. An existing file at path is left alone, and the error wraps fs.ErrExist.
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
