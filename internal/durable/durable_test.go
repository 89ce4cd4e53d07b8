package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func writing(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func TestANewFileAppearsWhenItIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	err := WriteNew(path, func(w io.Writer) error {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("while it is written it is there already: %v", err)
		}
		return writing("content")(w)
	})
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "content" {
		t.Errorf("the file holds %q, %v", content, err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("what was made on the way is left: %q", got)
	}
}

func TestANewFileThatCannotBeWrittenLeavesNothing(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("broken")
	err := WriteNew(filepath.Join(dir, "file"), func(w io.Writer) error {
		return errors.Join(writing("half")(w), broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("want the error of writing, got %v", err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestAFileThatIsThereIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	path, tmp := filepath.Join(dir, "file"), filepath.Join(dir, "tmp")
	for _, p := range []string{path, tmp} {
		if err := os.WriteFile(p, []byte(filepath.Base(p)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Publish(tmp, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Publish: want that it exists, got %v", err)
	}
	if err := WriteNew(path, writing("new")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("WriteNew: want that it exists, got %v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "file" {
		t.Errorf("the file was changed: %q, %v", content, err)
	}
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("left behind: %q", got)
	}
}

func TestWhatIsNotThereCannotBeSynced(t *testing.T) {
	dir := t.TempDir()
	if err := Sync(dir); err != nil {
		t.Errorf("a directory: %v", err)
	}
	if err := Sync(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want that it does not exist, got %v", err)
	}
}

func TestAFileIsRenamedOnlyWhereThereAreNoLinks(t *testing.T) {
	for errno, noLinks := range map[syscall.Errno]bool{
		syscall.EPERM: true, syscall.ENOTSUP: true, syscall.ENOSYS: true, syscall.EIO: false, syscall.ENOSPC: false,
		syscall.EACCES: false, syscall.EMLINK: false, syscall.EROFS: false, syscall.EXDEV: false, syscall.EEXIST: false,
	} {
		dir := t.TempDir()
		tmp, path := filepath.Join(dir, "tmp"), filepath.Join(dir, "file")
		link := &os.LinkError{Op: "link", Old: tmp, New: path, Err: errno}
		give := func() error {
			return publish(link, path, os.Lstat, func() error { return os.Rename(tmp, path) })
		}
		if err := os.WriteFile(tmp, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := give(); (err == nil) != noLinks || err != nil && !errors.Is(err, errno) {
			t.Errorf("linking fails with %v: error %v, renamed is to be %t", errno, err, noLinks)
		}
		if !noLinks {
			continue
		}
		if err := os.WriteFile(tmp, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := give(); !errors.Is(err, fs.ErrExist) {
			t.Errorf("linking fails with %v, and there is a file already: error %v", errno, err)
		}
	}
}
