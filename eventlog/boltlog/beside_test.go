package boltlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// besides are logs of 40 entries that readers come to before a writer does.
var besides = []struct {
	name string
	make func(t *testing.T) string
}{
	{"one segment", func(t *testing.T) string { return newLog(t, 40) }},
	{"sealed segments and a last one", func(t *testing.T) string { return newSegments(t, 4, 10) }},
	{"every segment sealed", func(t *testing.T) string {
		path := newSegments(t, 4, 10)
		l, err := everyAppend.Open(path)
		must(t, err)
		must(t, l.rotate())
		must(t, l.Close())
		must(t, os.Remove(segment(path, 41))) // as a crash leaves it
		return path
	}},
}

func TestAWriterComesAndAppendsWhileALogIsRead(t *testing.T) {
	for _, tc := range besides {
		for at := uint64(0); at <= 40; at += 20 {
			t.Run(fmt.Sprintf("%s, at %d", tc.name, at), func(t *testing.T) {
				path := tc.make(t)
				reader, err := OpenReadOnly(path)
				must(t, err)
				defer reader.Close()
				origin, err := eventlog.OriginAt(context.Background(), reader, 40)
				must(t, err)
				write := func() {
					w := startWriter(t, path)
					for last := uint64(50); last <= 200; last += 10 { // in segments of their own
						w.append(t, last)
					}
					w.kill()
				}
				if at == 0 {
					write()
				}
				want, next := logtest.Entries(1, 40), uint64(1)
				for e, err := range reader.Read(context.Background(), 1) {
					must(t, err)
					if next > 40 || !reflect.DeepEqual(e, want[next-1]) {
						t.Fatalf("entry %d is %+v", next, e)
					}
					if next == at {
						write()
					}
					next++
				}
				last, err := reader.Last()
				if next != 41 || last != 40 || err != nil || reader.First() != 1 || reader.Live() {
					t.Errorf(
						"read up to entry %d; first %d, last %d, %v, live %t",
						next-1,
						reader.First(),
						last,
						err,
						reader.Live(),
					)
				}
				if now, err := eventlog.OriginAt(
					context.Background(),
					reader,
					40,
				); err != nil ||
					!reflect.DeepEqual(now, origin) {
					t.Errorf("the place behind entry 40 was %+v, and is %+v (%v)", origin, now, err)
				}
				if n, err := readUntil(t, path, 1); n != 200 || err != nil {
					t.Errorf("a new reader finds %d entries, %v", n, err)
				}
			})
		}
	}
}

// A reader's segments are found again in the archive, or stay open, including the one that was last when it opened the
// log.
func TestALogThatIsReadIsAppendedToAndArchived(t *testing.T) {
	for _, tc := range besides {
		for at := uint64(0); at <= 40; at += 10 {
			t.Run(fmt.Sprintf("%s, at %d", tc.name, at), func(t *testing.T) {
				path := tc.make(t)
				reader, err := OpenReadOnly(path)
				must(t, err)
				defer reader.Close()
				archiveAll := func() {
					w, err := everyAppend.Open(path)
					must(t, err)
					for last := uint64(40); last < 100; last += 10 {
						must(t, w.Append(context.Background(), last, logtest.Entries(last+1, 10)))
					}
					must(t, w.Close())
					done, err := Archive(path, 80, filepath.Join(t.TempDir(), "archive"), nil)
					if err != nil || done.Last < 40 {
						t.Fatalf("archived %+v, %v", done, err)
					}
				}
				if at == 0 {
					archiveAll()
				}
				next := uint64(1)
				for e, err := range reader.Records(context.Background(), 1) {
					must(t, err)
					if e.Seq != next {
						t.Fatalf("entry %d is %d", next, e.Seq)
					}
					if next == at {
						archiveAll()
					}
					next++
				}
				if next != 41 || reader.First() != 1 {
					t.Errorf("read up to entry %d; the first is %d", next-1, reader.First())
				}
			})
		}
	}
}

func TestTheFilesOfALogCanBeCheckedWhileAWriterComes(t *testing.T) {
	for _, tc := range besides {
		t.Run(tc.name, func(t *testing.T) {
			path := tc.make(t)
			files, err := List(path)
			must(t, err)
			defer files.Close()
			w := startWriter(t, path)
			w.append(t, 50)
			w.append(t, 60)
			last := uint64(0)
			for i, path := range files.Paths {
				open := func() (*Segment, error) { return OpenSegment(path) }
				if i == len(files.Paths)-1 {
					open = func() (*Segment, error) { return OpenSegmentCopy(path, files.Tail) }
				}
				s, err := open()
				must(t, err)
				must(t, errors.Join(s.Sound(), s.Check()))
				for r, err := range s.Records(context.Background(), s.First, s.Last) {
					must(t, err)
					last = r.Seq
				}
				if s.Path != path {
					t.Errorf("%s says that it is %s", path, s.Path)
				}
				must(t, s.Close())
			}
			if last != 40 {
				t.Errorf("the last entry is %d, want 40", last)
			}
		})
	}
}

func TestTheCopyOfALiveSegmentIsRemoved(t *testing.T) {
	path, tmp := newSegments(t, 4, 10), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	l, err := OpenReadOnly(path)
	must(t, err)
	defer l.Close()
	files, err := List(path)
	must(t, err)
	defer files.Close()
	if left, err := os.ReadDir(tmp); len(left) > 0 || err != nil {
		t.Errorf("there is %v, %v", left, err)
	}
	if n := len(files.Paths); n != 4 {
		t.Errorf("%d segments", n)
	}
}

// If a reader cannot make a copy, or while archiving, no writer can open the log, and the error names the reader.
func TestAWriterThatIsKeptOutIsToldByWhom(t *testing.T) {
	reads := map[string]func(path string) (interface{ Close() error }, error){
		"a log":     func(path string) (interface{ Close() error }, error) { return OpenReadOnly(path) },
		"its files": func(path string) (interface{ Close() error }, error) { return List(path) },
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			path := newSegments(t, 4, 10)
			t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
			reader, err := read(path)
			must(t, err)
			again, err := OpenReadOnly(path)
			must(t, err)
			if err := again.Append(
				context.Background(),
				40,
				logtest.Entries(41, 1),
			); !errors.Is(
				err,
				eventlog.ErrReadOnly,
			) {
				t.Errorf("append to a log opened for reading: %v", err)
			}
			must(t, again.Close())
			_, err = Open(path)
			if !errors.Is(err, eventlog.ErrInUse) || !errors.Is(err, eventlog.ErrBeingRead) {
				t.Fatalf("a writer beside a reader: error %v", err)
			}
			if _, noProc := os.Stat(
				"/proc/locks",
			); !errors.Is(noProc, fs.ErrNotExist) &&
				!strings.Contains(err.Error(), fmt.Sprintf("it is being read by process %d (", os.Getpid())) {
				t.Errorf("error %q does not say who reads", err)
			}
			must(t, reader.Close())
			w, err := Open(path)
			must(t, err)
			must(t, w.Close())
		})
	}
}

// A segment that lacks its seal is still to be written to: a reader of such a log keeps writers out.
func TestAReaderOfALogThatNeedsRepairKeepsWritersOut(t *testing.T) {
	path := newSegments(t, 1, 10)
	copied, err := os.ReadFile(segment(path, 1))
	must(t, err)
	l, err := everyAppend.Open(path)
	must(t, err)
	must(t, l.rotate())
	must(t, l.Close())
	must(t, os.WriteFile(segment(path, 1), copied, fileMode)) // the seal did not reach the disk
	reader, err := OpenReadOnly(path)
	must(t, err)
	if _, err := Open(path); !errors.Is(err, eventlog.ErrBeingRead) {
		t.Errorf("a writer beside a reader: error %v", err)
	}
	must(t, reader.Close())
	w, err := Open(path)
	must(t, err)
	must(t, w.Close())
	wantWhole(t, path)
}
