package regular_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rollcall-sched/rollcall/internal/regular"
)

// Opening any kind of file ends, and gives a regular file or an error.
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
		t.Errorf("%v", err) // OpenFile creates a missing file,
	}
	if content, err := os.ReadFile(at("file")); err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err) // and does not truncate an existing one
	}
}

// The same holds within an open directory, also for a link to a file in it.
func TestOnlyRegularFilesAreOpenedInADirectory(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("content"), 0o600),
		os.Symlink("file", at("link")),
		syscall.Mkfifo(at("fifo"), 0o600),
		os.Mkdir(at("directory"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]error{
		"file": nil, "link": regular.ErrNotAFile, "fifo": regular.ErrNotAFile, "directory": regular.ErrNotAFile,
		"nothing": nil,
	} {
		f, err := regular.OpenIn(root, name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err == nil {
			_ = f.Close()
		}
	}
	if content, err := os.ReadFile(at("file")); err != nil || string(content) != "content" {
		t.Errorf("%q, %v: it was emptied", content, err)
	}
}

// A process keeps replacing a file by a link: the target of the link is never opened.
func TestALinkThatComesMeanwhileIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("target"), nil, 0o600), os.WriteFile(at("file"), nil, 0o600), os.Symlink("target", at("link")),
		os.Link(at("file"), at("name")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	target, err := os.Stat(at("target"))
	if err != nil {
		t.Fatal(err)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			// A rename over a name is one step: one of the two always exists.
			_ = os.Symlink("target", at("other"))
			_ = os.Rename(at("other"), at("name"))
			_ = os.Link(at("file"), at("other"))
			_ = os.Rename(at("other"), at("name"))
		}
	}()
	for range 20000 {
		f, err := regular.OpenIn(root, "name", os.O_RDWR, 0o600)
		if err != nil {
			continue
		}
		held, err := f.Stat()
		if err != nil || os.SameFile(held, target) {
			t.Errorf("the link was followed (%v)", err)
		}
		_ = f.Close()
	}
	close(end)
	<-ended
}

// An error that prevents the creation of a file is returned as it is.
func TestWhatIsThereAlreadyIsNoOtherError(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	_, err := regular.OpenFile(link, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if !errors.Is(err, os.ErrExist) || errors.Is(err, regular.ErrNotAFile) {
		t.Errorf("%v, want %v", err, os.ErrExist)
	}
}

// A file that is shorter than its reported size is read as far as it goes.
func TestAFileThatIsShorterThanItsSizeIsRead(t *testing.T) {
	const short = "/sys/kernel/mm/transparent_hugepage/enabled" // it has the size of a page, and a line
	if info, err := os.Stat(short); err != nil || info.Size() < 1000 {
		t.Skipf("skipped: it takes %s (%v)", short, err)
	}
	if content, err := regular.ReadFile(short, 1<<20); err != nil || len(content) == 0 {
		t.Errorf("%q, %v", content, err)
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
