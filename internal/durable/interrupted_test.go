package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAnInterruptedCallIsMadeAgain(t *testing.T) {
	calls := 0
	got, err := Uninterrupted(func() (int, error) {
		if calls++; calls < 3 {
			return 0, &fs.PathError{Op: "statat", Path: "x", Err: syscall.EINTR}
		}
		return calls, nil
	})
	if got != 3 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	calls = 0
	_, err = Uninterrupted(func() (int, error) { calls++; return 0, syscall.EINTR })
	if !errors.Is(err, syscall.EINTR) || calls != maxInterrupted {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// TestAnInterruptedLink has a signal interrupt a link that is made, and one that is not. A link of another file stays
// an error.
func TestAnInterruptedLink(t *testing.T) {
	for name, c := range map[string]struct {
		made, other bool
		want        error
	}{"made": {made: true}, "not made": {}, "of another file": {other: true, want: fs.ErrExist}} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			dir, err := os.OpenRoot(path)
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			write := func(name string) {
				if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("tmp")
			if c.other {
				write("file")
			}
			first := true
			err = publishIn(dir, "tmp", "file", func() error {
				interrupted := first
				first = false
				if !interrupted {
					return dir.Link("tmp", "file")
				}
				if c.made {
					if err := dir.Link("tmp", "file"); err != nil {
						t.Fatal(err)
					}
				}
				return syscall.EINTR
			})
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// Package os repeats a link that a signal interrupted. If the link was made before, the name is there already.
func TestALinkThatWasMadeBeforeTheSignalIsNoOtherFile(t *testing.T) {
	dir := t.TempDir()
	tmp, path := filepath.Join(dir, "tmp"), filepath.Join(dir, "file")
	if err := os.WriteFile(tmp, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	twice := func() error { return errors.Join(os.Link(tmp, path), os.Link(tmp, path)) }
	if err := publishAt(tmp, path, twice); err != nil {
		t.Errorf("the link is the one of this call: %v", err)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := publishAt(tmp, other, func() error { return os.Link(tmp, other) })
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("another file has the name: %v", err)
	}
}
