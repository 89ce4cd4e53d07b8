package regular_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rollcall-sched/rollcall/internal/regular"
)

// Whatever stands at a path, opening it ends, and gives a regular file or none.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("content"), 0o600),
		os.Symlink(at("file"), at("link")),
		os.Symlink("/dev/zero", at("zero")),
		os.Symlink(at("nowhere"), at("dangling")),
		os.Symlink(at("circle"), at("circle")),
		syscall.Mkfifo(at("fifo"), 0o600),
		os.Symlink(at("fifo"), at("link to fifo")),
		os.Mkdir(at("directory"), 0o700),
		os.WriteFile(at("sparse"), nil, 0o600),
		os.Truncate(at("sparse"), 60<<30),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]struct{ read, write error }{
		"file":         {nil, nil},
		"link":         {nil, regular.ErrNotAFile},
		"zero":         {regular.ErrNotAFile, regular.ErrNotAFile},
		"dangling":     {regular.ErrNotAFile, regular.ErrNotAFile},
		"circle":       {regular.ErrNotAFile, regular.ErrNotAFile},
		"fifo":         {regular.ErrNotAFile, regular.ErrNotAFile},
		"link to fifo": {regular.ErrNotAFile, regular.ErrNotAFile},
		"directory":    {regular.ErrNotAFile, syscall.EISDIR},
		"sparse":       {regular.ErrTooLarge, nil},
		"nothing":      {os.ErrNotExist, nil},
	} {
		if _, err := regular.ReadFile(at(name), 1<<20); !errors.Is(err, want.read) {
			t.Errorf("%s: reading it: %v, want %v", name, err, want.read)
		}
		f, err := regular.OpenFile(at(name), os.O_RDWR|os.O_CREATE, 0o600)
		if !errors.Is(err, want.write) {
			t.Errorf("%s: writing to it: %v, want %v", name, err, want.write)
		}
		if err == nil {
			_ = f.Close()
		}
	}
	if _, err := os.Lstat(at("nothing")); err != nil {
		t.Errorf("%v", err) // OpenFile makes a file where there is none,
	}
	if content, err := os.ReadFile(at("file")); err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err) // and empties none
	}
}

func TestADirectoryIsNoLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := regular.Directory(dir); err != nil {
		t.Error(err)
	}
	if err := regular.Directory(filepath.Join(dir, "link")); err == nil {
		t.Error("a link is taken for a directory")
	}
}
