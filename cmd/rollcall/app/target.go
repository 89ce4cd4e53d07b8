package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// A target is a file that a flag names, to be written at the end of long work. It appears, or changes, when it is
// whole: the content goes to another file beside it first. Only special files (a pipe, a terminal) are written
// directly.
type target struct {
	flag, path string // - for standard output; "" for nothing to be written
	file       *os.File
	renamed    string // where the file is to be in the end; "" for where it is
}

// open makes sure that the target can be written, as far as that can be known before.
func (t *target) open() error {
	if t.path == "" || t.path == "-" {
		return nil
	}
	place := t.path
	if at, err := filepath.EvalSymlinks(place); err == nil {
		place = at // what a link points to is written, and the link stays
	}
	info, err := os.Stat(place)
	switch {
	case err == nil && info.IsDir():
		return t.failed(errors.New("it is a directory"))
	case err == nil && !info.Mode().IsRegular():
		t.file, err = os.OpenFile(place, os.O_WRONLY, 0)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		t.renamed = place
		beside := filepath.Join(filepath.Dir(place), "."+filepath.Base(place)+"."+strconv.Itoa(os.Getpid())+".tmp")
		t.file, err = os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	}
	if err != nil {
		return t.failed(err)
	}
	return nil
}

// write writes the content, to stdout for "-".
func (t *target) write(stdout io.Writer, content func(io.Writer) error) error {
	if t.path == "-" {
		if err := content(stdout); err != nil {
			return t.failed(err)
		}
		return nil
	}
	f := t.file
	err := content(f)
	if t.renamed == "" {
		t.file = nil
		if err = errors.Join(err, f.Close()); err != nil {
			return t.failed(err)
		}
		return nil
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), t.renamed)
	}
	if err != nil {
		return t.failed(err)
	}
	t.file = nil
	return nil
}

// discard removes an incomplete file.
func (t *target) discard() {
	if t.file == nil {
		return
	}
	_ = t.file.Close()
	if t.renamed != "" {
		_ = os.Remove(t.file.Name())
	}
}

func (t *target) failed(err error) error { return fmt.Errorf("%s %s: %w", t.flag, t.path, err) }
