package boltlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// trim is heldDir.trim of the segment at path.
func trim(path string) error {
	dir, err := holdDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.close()
	return dir.trim(filepath.Base(path), nil)
}

// files returns the names and the contents of the files below dir.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		all[path] = string(content)
		return err
	}))
	return all
}

// copyDir copies the files of the directory from to a new one.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.CopyFS(to, os.DirFS(from)))
}

// displacements are changes to a writer's files, and whether it then has to stop.
var displacements = map[string]struct {
	do   func(t *testing.T, path, live string)
	says string // "" if it continues
}{
	"the directory is moved away": {
		func(t *testing.T, path, _ string) { must(t, os.Rename(path, path+".away")) },
		"its directory was moved away or removed",
	},
	"a copy is put in the directory's place": {
		func(t *testing.T, path, _ string) {
			must(t, os.Rename(path, path+".away"))
			copyDir(t, path+".away", path)
		},
		"its directory was moved away, and another one is in its place",
	},
	"an empty directory is put in the directory's place": {
		func(t *testing.T, path, _ string) {
			must(t, os.Rename(path, path+".away"))
			must(t, os.Mkdir(path, 0o700))
		},
		"its directory was moved away, and another one is in its place",
	},
	"the live segment is removed": {
		func(t *testing.T, _, live string) { must(t, os.Remove(live)) },
		"was moved away or removed",
	},
	"the live segment is moved away": {
		func(t *testing.T, _, live string) { must(t, os.Rename(live, live+".away")) },
		"was moved away or removed",
	},
	"a copy is put in the live segment's place": {
		func(t *testing.T, _, live string) {
			content, err := os.ReadFile(live)
			must(t, err)
			must(t, os.Rename(live, live+".away"))
			must(t, os.WriteFile(live, content, fileMode))
		},
		"was replaced by another file",
	},
	"a link to it is put in the live segment's place": {
		func(t *testing.T, _, live string) {
			must(t, os.Rename(live, live+".away"))
			must(t, os.Symlink(live+".away", live))
		},
		"was replaced by another file",
	},
	"the directory is moved away and back": {
		func(t *testing.T, path, _ string) {
			must(t, os.Rename(path, path+".away"))
			must(t, os.Rename(path+".away", path))
		},
		"",
	},
	"the directory is moved away, and its path leads to it": {
		func(t *testing.T, path, _ string) {
			must(t, os.Rename(path, path+".away"))
			must(t, os.Symlink(path+".away", path))
		},
		"",
	},
	"LOCK is replaced": {
		func(t *testing.T, path, _ string) {
			must(t, os.Remove(filepath.Join(path, lockName)))
			must(t, os.WriteFile(filepath.Join(path, lockName), nil, fileMode))
		},
		"",
	},
}

// The files of a writer are moved away, removed or replaced between two appends, of which the second one does and does
// not fill the live segment. The second one fails and changes no file, wherever it is, and so does every other one.
func TestAWriterWhoseFilesAreReplacedAppendsNoMore(t *testing.T) {
	for what, d := range displacements {
		for _, rotates := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, rotates %t", what, rotates), func(t *testing.T) {
				root := t.TempDir()
				path := filepath.Join(root, "a.log")
				opts := Options{}
				if rotates {
					opts.SegmentBytes = 1 // each Append begins a segment
				}
				l, err := opts.Create(path)
				must(t, err)
				must(t, l.Append(context.Background(), 0, logtest.Entries(1, 5)))
				d.do(t, path, segment(path, 1))
				before := files(t, root)
				err = l.Append(context.Background(), 5, logtest.Entries(6, 5))
				if d.says == "" {
					must(t, err)
					must(t, l.Close())
					wantWhole(t, path)
					return
				}
				wantDisplaced(t, err, d.says, 5)
				again := l.Append(context.Background(), 5, logtest.Entries(6, 5))
				wantDisplaced(t, again, d.says, 5)
				must(t, l.Close())
				if after := files(t, root); !maps.Equal(before, after) {
					t.Errorf("files were changed: %q, before %q", slices.Sorted(maps.Keys(after)),
						slices.Sorted(maps.Keys(before)))
				}
			})
		}
	}
}

// wantDisplaced checks what the writer's error says.
func wantDisplaced(t *testing.T, err error, says string, last uint64) {
	t.Helper()
	var displaced *eventlog.DisplacedError
	if !errors.As(err, &displaced) || displaced.Last != last || !strings.Contains(fmt.Sprint(err), says) ||
		errors.Is(err, eventlog.ErrUnknownOutcome) {
		t.Errorf("the writer appends: error %v, want that %s, after entry %d", err, says, last)
	}
}

// A writer takes the LOCK that was put in the place of its own. If another process has it, the writer continues in its
// live segment, on which it has another lock, and stops where it would let go of that to begin the next one.
func TestAWriterTakesTheLockThatReplacesItsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	l, err := Options{SegmentBytes: 1}.Create(path)
	must(t, err)
	must(t, l.Append(context.Background(), 0, logtest.Entries(1, 5)))
	must(t, os.Remove(filepath.Join(path, lockName)))
	must(t, l.Append(context.Background(), 5, logtest.Entries(6, 5)))
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
	must(t, err)
	if err := flock(f, true); !errors.Is(err, errLocked) {
		t.Errorf("the file that replaced LOCK can be locked beside the writer: error %v", err)
	}
	must(t, f.Close())

	must(t, os.Remove(filepath.Join(path, lockName)))
	f, err = os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, fileMode)
	must(t, err)
	must(t, flock(f, true))
	l.opts.SegmentBytes = 0
	must(t, l.Append(context.Background(), 10, logtest.Entries(11, 5)))
	l.opts.SegmentBytes = 1
	before := files(t, path)
	err = l.Append(context.Background(), 15, logtest.Entries(16, 5))
	wantDisplaced(t, err, "its file LOCK was removed or replaced", 15)
	if after := files(t, path); !maps.Equal(before, after) {
		t.Errorf("files were changed: %q", slices.Sorted(maps.Keys(after)))
	}
	must(t, errors.Join(l.Close(), f.Close()))
	wantWhole(t, path)
}

// A rotation that has begun when the directory is replaced continues in the directory that it began in, and neither
// cuts nor removes nor makes anything in the other one.
func TestARotationStaysInItsDirectory(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a.log")
	l, err := Create(path)
	must(t, err)
	must(t, l.Append(context.Background(), 0, logtest.Entries(1, 5)))
	must(t, os.Rename(path, path+".away"))
	copyDir(t, path+".away", path)
	before := files(t, path)
	must(t, l.rotate())
	must(t, l.Close())
	if after := files(t, path); !maps.Equal(before, after) {
		t.Errorf("files of the other directory were changed: %q", slices.Sorted(maps.Keys(after)))
	}
	wantWhole(t, path+".away")
	if _, err := os.Stat(segment(path+".away", 6)); err != nil {
		t.Errorf("the next segment is not in the directory: %v", err)
	}
}
