package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATargetChangesOnlyWhenItIsWhole(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "out.csv"), filepath.Join(dir, "link")
	if err := os.Symlink("out.csv", link); err != nil {
		t.Fatal(err)
	}
	wantFiles := func(files, content string) {
		t.Helper()
		var names []string
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		data, _ := os.ReadFile(path)
		if got := strings.Join(names, " "); got != files || string(data) != content {
			t.Errorf("there are %s, and out.csv has %q; want %s and %q", got, data, files, content)
		}
	}
	put := func(at, content string, err error) error {
		t.Helper()
		out := target{flag: "--report", path: at}
		if err := out.open(); err != nil {
			t.Fatal(err)
		}
		defer out.discard()
		return out.write(nil, func(w io.Writer) error {
			fmt.Fprint(w, content)
			return err
		})
	}
	full := errors.New("no space left on device")
	if err := put(path, "half", full); !errors.Is(err, full) || !strings.HasPrefix(err.Error(), "--report "+path+": ") {
		t.Errorf("%v", err)
	}
	wantFiles("link", "")
	if err := put(path, "one", nil); err != nil {
		t.Error(err)
	}
	wantFiles("link out.csv", "one")
	if err := put(path, "half", full); err == nil {
		t.Error("no error")
	}
	wantFiles("link out.csv", "one")
	if err := put(link, "two", nil); err != nil {
		t.Error(err)
	}
	wantFiles("link out.csv", "two")
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link is gone")
	}
	opened := target{flag: "--report", path: path}
	if err := opened.open(); err != nil {
		t.Fatal(err)
	}
	opened.discard() // the work failed
	wantFiles("link out.csv", "two")
}
