package boltlog

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// archivedLog makes a log of four segments of ten entries, of which the first two are archived.
func archivedLog(t testing.TB) (path, dir string) {
	t.Helper()
	path = newSegments(t, 4, 10)
	dir = filepath.Join(t.TempDir(), "archive")
	got, err := Archive(path, 21, dir, nil)
	must(t, err)
	if got.First != 1 || got.Last != 20 || got.Segments != 2 || got.Dir != dir || got.Bytes == 0 {
		t.Fatalf("archived %+v", got)
	}
	return path, dir
}

// wantEntries checks that the log reads as logtest's entries from first to last, whatever reading begins with, and
// that what is before is an *ArchivedError.
func wantEntries(t testing.TB, l *Log, first, last uint64) {
	t.Helper()
	if got := l.First(); got != first {
		t.Errorf("the first entry is %d, want %d", got, first)
	}
	if got, err := l.Last(); got != last || err != nil {
		t.Errorf("the last entry is %d, error %v, want %d", got, err, last)
	}
	trees, hashes := naiveTrees(t, int(last))
	for from := uint64(0); from <= last+1; from++ {
		next := max(from, 1)
		var err error
		for _, err = range l.Read(context.Background(), from) {
			if err != nil {
				break
			}
			next++
		}
		if max(from, 1) < first {
			wantArchived(t, err, max(from, 1), first)
			_, err := l.RecordHash(context.Background(), from)
			if from > 0 && from != first-1 {
				wantArchived(t, err, from, first)
			}
			continue
		}
		if err != nil || (from <= last && next != last+1) {
			t.Errorf("reading from %d ends before %d, error %v", from, next, err)
		}
	}
	wantPlaces(t, l, first-1, trees, hashes)
	if first > 2 {
		_, err := l.KnownTree(context.Background(), first-2)
		wantArchived(t, err, first-2, first)
	}
}

func wantArchived(t testing.TB, err error, seq, first uint64) {
	t.Helper()
	var archived *eventlog.ArchivedError
	if !errors.As(err, &archived) || archived.Seq != seq || archived.First != first {
		t.Errorf("error %v, want that entry %d is archived and the first is %d", err, seq, first)
	}
}

// openBoth runs f on the log opened for reading, and then for appending.
func openBoth(t *testing.T, o Options, path string, f func(t *testing.T, l *Log)) {
	t.Helper()
	for name, open := range map[string]func(string) (*Log, error){"for reading": o.OpenReadOnly,
		"for appending": o.Open} {
		t.Run(name, func(t *testing.T) {
			l, err := open(path)
			must(t, err)
			defer l.Close()
			f(t, l)
		})
	}
}

func TestArchivedEntriesAreReadWhereTheyAre(t *testing.T) {
	path, _ := archivedLog(t)
	if got, err := segmentPaths(
		path,
	); err != nil ||
		!slices.Equal(got, []string{segment(path, 21), segment(path, 31)}) {
		t.Errorf("the log has %v, error %v", got, err)
	}
	openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 40) })
	l, err := everyAppend.Open(path)
	must(t, err)
	must(t, l.Append(context.Background(), 40, logtest.Entries(41, 5)))
	wantEntries(t, l, 1, 45)
	must(t, l.Close())
}

func TestArchiveThatIsNotThere(t *testing.T) {
	path, dir := archivedLog(t)
	moved := dir + ".elsewhere"
	must(t, os.Rename(dir, moved))
	openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) {
		wantEntries(t, l, 21, 40)
		for _, err := range l.Read(context.Background(), 1) {
			if !strings.Contains(err.Error(), dir) || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error %v does not say where the entry should be", err)
			}
		}
	})
	openBoth(t, Options{Archives: []string{moved}}, path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 40) })
	if _, err := (Options{Archives: []string{dir}}).OpenReadOnly(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an archive that is named and not there: error %v", err)
	}
	if _, err := (Options{Archives: []string{t.TempDir()}}).Open(
		path,
	); err == nil ||
		!strings.Contains(err.Error(), "the segment that ends with entry 20 is not there") {
		t.Errorf("an archive that has nothing: error %v", err)
	}
	// Some of it is there.
	must(t, os.Remove(segment(moved, 1)))
	must(t, os.Rename(moved, dir))
	openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, 11, 40) })
}

// Whatever step archiving is interrupted after, the log reads as before, continues, and archiving again does the rest.
func TestInterruptedArchivingIsFinished(t *testing.T) {
	for name, undo := range map[string]func(t *testing.T, path, dir string){
		"nothing": func(t *testing.T, path, dir string) {},
		"before the first file": func(t *testing.T, path, dir string) {
			restore(t, path, dir, 1)
			restore(t, path, dir, 11)
			must(t, os.Remove(filepath.Join(path, originName)))
		},
		"before the last file went": func(t *testing.T, path, dir string) { restore(t, path, dir, 11) },
		"before any file went": func(t *testing.T, path, dir string) {
			restore(t, path, dir, 1)
			restore(t, path,
				dir, 11)
		},
		"in the middle of a copy": func(t *testing.T, path, dir string) {
			restore(t, path, dir, 1)
			restore(t, path, dir, 11)
			must(t, errors.Join(os.Remove(filepath.Join(path, originName)), os.Remove(segment(dir, 11))))
			must(t, os.WriteFile(segment(dir, 11)+".77.tmp", make([]byte, 9000), fileMode))
		},
		"in the middle of ORIGIN": func(t *testing.T, path, dir string) {
			restore(t, path, dir, 1)
			restore(t, path, dir, 11)
			origin := filepath.Join(path, originName)
			must(t, os.Rename(origin, origin+".77.tmp"))
			must(t, os.Truncate(origin+".77.tmp", 20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, dir := archivedLog(t)
			undo(t, path, dir)
			openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 40) })
			l, err := everyAppend.Open(path)
			must(t, err)
			must(t, l.Append(context.Background(), 40, logtest.Entries(41, 5)))
			must(t, l.Close())
			_, err = Archive(path, 31, dir, nil)
			must(t, err)
			if got, _ := segmentPaths(path); !slices.Equal(got, []string{segment(path, 31), segment(path, 41)}) {
				t.Errorf("the log still has %v", got)
			}
			begin, err := readBeginning(path)
			must(t, err)
			if want := []Part{{1, 30, dir}}; !slices.Equal(begin.Archived, want) || begin.Origin.Seq != 30 {
				t.Errorf("archived is %v up to %d, want %v", begin.Archived, begin.Origin.Seq, want)
			}
			openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 45) })
			for _, dir := range []string{dir, path} {
				if rest, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(rest) > 0 {
					t.Errorf("left behind: %v", rest)
				}
			}
			if again, err := Archive(path, 31, dir, nil); err != nil || again != (Archived{}) {
				t.Errorf("archiving once more: %v, error %v", again, err)
			}
		})
	}
}

// restore puts a copy of an archived segment back into the log's directory.
func restore(t *testing.T, path, dir string, first uint64) {
	t.Helper()
	content, err := os.ReadFile(segment(dir, first))
	must(t, err)
	must(t, os.WriteFile(segment(path, first), content, fileMode))
}

func TestArchivingToSeveralPlaces(t *testing.T) {
	path := newSegments(t, 5, 10)
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, step := range []struct {
		before uint64
		dir    string
		first  uint64 // of the segments that stay
		want   []Part
	}{
		{10, a, 1, nil}, // entry 10 is in the first segment
		{11, a, 11, []Part{{1, 10, a}}},
		{30, a, 21, []Part{{1, 20, a}}},
		{31, b, 31, []Part{{1, 20, a}, {21, 30, b}}},
		{1000, b, 41, []Part{{1, 20, a}, {21, 40, b}}}, // never the live segment
		{1000, a, 41, []Part{{1, 20, a}, {21, 40, b}}},
	} {
		_, err := Archive(path, step.before, step.dir, nil)
		must(t, err)
		paths, err := segmentPaths(path)
		must(t, err)
		begin, err := readBeginning(path)
		must(t, err)
		if paths[0] != segment(path, step.first) || (begin != nil) != (step.want != nil) ||
			(begin != nil && !slices.Equal(begin.Archived, step.want)) {
			t.Errorf("before %d: the log has %v, and says of the rest %+v", step.before, paths, begin)
		}
		openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 50) })
	}
	must(t, os.RemoveAll(a))
	openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, 21, 50) })
}

func TestArchivingIsRefused(t *testing.T) {
	path := newSegments(t, 4, 10)
	dir := t.TempDir()
	want := func(name, text string, is error, before uint64, to string) {
		t.Helper()
		listed := snapshotDir(t, path)
		_, err := Archive(path, before, to, nil)
		if err == nil || !strings.Contains(err.Error(), text) || (is != nil && !errors.Is(err, is)) {
			t.Errorf("%s: error %v, want %q", name, err, text)
		}
		if now := snapshotDir(t, path); !slices.Equal(now, listed) {
			t.Errorf("%s: the log was changed", name)
		}
	}
	for _, name := range []string{filepath.Join(path, archiveLockName), filepath.Join(dir, intoLockName)} {
		lock, err := lockArchiving(name)
		must(t, err)
		tmp := segment(dir, 1) + ".1" + tmpSuffix // which who has the lock is making
		must(t, os.WriteFile(tmp, nil, fileMode))
		want("someone else is at it", "someone else is archiving", eventlog.ErrInUse, 21, dir)
		if _, err := os.Stat(tmp); err != nil {
			t.Errorf("what someone else is making was removed: %v", err)
		}
		must(t, lock.Close())
	}
	want("another log", "is a log itself", fs.ErrExist, 21, newSegments(t, 1, 1))
	must(t, os.WriteFile(segment(dir, 11), []byte("something else"), fileMode))
	want("a file of that name", segment(dir, 11)+": it is a segment of another log", fs.ErrExist, 21, dir)
	must(t, os.Remove(segment(dir, 11)))
	must(t, os.Symlink(segment(path, 11), segment(dir, 11)))
	want("a link to the log's own segment", "is no file of its own", fs.ErrExist, 21, dir)
	must(t, os.Remove(segment(dir, 11)))
	content, err := os.ReadFile(segment(otherSegments(t), 11))
	must(t, err)
	must(t, os.WriteFile(segment(dir, 11), content, fileMode))
	want(
		"another log's segment of that name",
		segment(dir, 11)+": it is a segment of another log",
		fs.ErrExist,
		21,
		dir,
	)
	must(t, os.Rename(segment(dir, 11), segment(dir, 12)))
	want("another log's segment", segment(dir, 12)+": it is a segment of another log", fs.ErrExist, 21, dir)
	must(t, os.Remove(segment(dir, 12)))
	content, err = os.ReadFile(segment(path, 11))
	must(t, err)
	content[len(content)-1] ^= 1
	must(t, os.WriteFile(segment(dir, 11), content, fileMode))
	want("a file that is not the same", "another segment has this name", fs.ErrExist, 21, dir)
	must(t, os.Remove(segment(dir, 11)))
	must(t, os.Truncate(segment(path, 11), 5*pageSize))
	want("a damaged log", "cut short", nil, 21, dir)
	if _, err := Archive(filepath.Join(dir, "nolog"), 21, dir, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: error %v", err)
	}
}

// TestALogIsNotArchivedIntoItself names the log's directory, with LOCK and without, and what lies in it in every way.
func TestALogIsNotArchivedIntoItself(t *testing.T) {
	for _, locked := range []bool{true, false} {
		path := newSegments(t, 4, 10)
		must(t, os.Mkdir(filepath.Join(path, "snapshots"), 0o700))
		if !locked { // as copies may
			must(t, os.Remove(filepath.Join(path, lockName)))
		}
		links := t.TempDir()
		must(t, os.Symlink(path, filepath.Join(links, "log")))
		must(t, os.Symlink(filepath.Join(path, "snapshots"), filepath.Join(links, "below")))
		t.Chdir(path)
		for _, to := range []string{path, path + "/", ".", "..//" + filepath.Base(path), "snapshots",
			filepath.Join(path, "snapshots"), filepath.Join(path, "new", "er"),
			filepath.Join(links, "log"), filepath.Join(links, "log", "new"), filepath.Join(links, "below"),
			filepath.Join(links, "below", "a", "b")} {
			listed := filesBelow(t, path)
			if _, err := Archive(path, 21, to, nil); !errors.Is(err, ErrInside) {
				t.Errorf("to %s: error %v, want %v", to, err, ErrInside)
			}
			if now := filesBelow(t, path); !maps.Equal(now, listed) {
				t.Fatalf("to %s: the log was changed, there are %d files, want %d", to, len(now), len(listed))
			}
		}
		// Nor if nobody had seen that it is the same.
		l, err := OpenReadOnly(path)
		must(t, err)
		if err := discard(l.segments[:1], filepath.Join(links, "log")); err == nil {
			t.Error("a segment was removed that stands nowhere else")
		}
		must(t, l.Close())
		openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 40) })
	}
}

// TestArchivingMakesTheDirectoriesAboveToo also through a link in the log's directory to a segment on another disk.
func TestArchivingMakesTheDirectoriesAboveToo(t *testing.T) {
	path, dir := newSegments(t, 4, 10), t.TempDir()
	elsewhere := segment(dir, 1)
	must(t, os.Rename(segment(path, 1), elsewhere))
	relative, err := filepath.Rel(path, elsewhere)
	must(t, err)
	must(t, os.Symlink(relative, segment(path, 1)))
	done, err := Archive(path, 21, filepath.Join(dir, "a", "b", "c"), nil)
	must(t, err)
	if done.Segments != 2 {
		t.Errorf("%+v", done)
	}
	openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 40) })
}

// A segment that a crash left sealed and without a successor is the writer's to continue from.
func TestLastSegmentIsNotArchived(t *testing.T) {
	for name, build := range map[string]func(testing.TB) string{
		"sealed": unfinished, "empty": withEmpty, "sealed and cut": func(t testing.TB) string {
			path := withEmpty(t)
			must(t, os.Remove(segment(path, 31)))
			return path
		},
	} {
		path := build(t)
		paths, err := segmentPaths(path)
		must(t, err)
		if _, err := Archive(path, 1000, path+".archive", nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if left, err := segmentPaths(path); err != nil || !slices.Equal(left, paths[len(paths)-1:]) {
			t.Errorf("%s: the log has %v, error %v, want the last of %v", name, left, err, paths)
		}
		openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 30) })
	}
}

// Missing archives and damage are different errors.
func TestDamageOfAnArchivedLog(t *testing.T) {
	for _, tc := range []struct {
		name  string
		harm  func(t *testing.T, path, dir string)
		first uint64 // the first entry that can be read; 0 if the log is refused
		file  func(path, dir string) string
		seq   uint64
		want  string
	}{
		{"the next segment missing", func(t *testing.T, path, dir string) { must(t, os.Remove(segment(path, 21))) },
			0, func(path, dir string) string { return segment(path, 21) }, 21, "the segment is missing"},
		{"ORIGIN missing", func(t *testing.T, path, dir string) { must(t, os.Remove(filepath.Join(path, originName))) },
			0, func(path, dir string) string { return segment(path, 1) }, 1, "the segment is missing"},
		{"ORIGIN of another place", func(t *testing.T, path, dir string) {
			begin, err := readBeginning(path)
			must(t, err)
			begin.Origin.Hash[3] ^= 1
			must(t, begin.write(path))
		}, 0, func(path, dir string) string { return segment(path, 21) }, 21, "follows a record of hash"},
		{"ORIGIN of another tree", func(t *testing.T, path, dir string) {
			begin, err := readBeginning(path)
			must(t, err)
			begin.Origin.Tree.Nodes[0][3] ^= 1
			must(t, begin.write(path))
		}, 0, func(path, dir string) string { return segment(path, 21) }, 21, "follows a tree"},
		{"ORIGIN of another place, beside what was not moved yet", func(t *testing.T, path, dir string) {
			restore(t, path, dir, 11)
			begin, err := readBeginning(path)
			must(t, err)
			begin.Origin.Hash[3] ^= 1
			must(t, begin.write(path))
		}, 0, func(path, dir string) string { return filepath.Join(path, originName) }, 20, "it says that the record"},
		{"an archived segment cut short", func(t *testing.T, path, dir string) {
			must(t, os.Truncate(segment(dir, 1),
				5*pageSize))
		},
			11, func(path, dir string) string { return segment(dir, 1) }, 1, "cut short"},
		{"an archived record changed", func(t *testing.T, path, dir string) {
			tamper(t, segment(dir, 11), func(tx *bolt.Tx) error {
				return tx.Bucket(bucketLog).Put(key(15),
					[]byte("x"))
			})
			must(t, trim(segment(dir, 11)))
		}, 1, func(path, dir string) string { return segment(dir, 11) }, 15, "too few"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, dir := archivedLog(t)
			tc.harm(t, path, dir)
			file := tc.file(path, dir)
			if tc.first == 0 {
				_, err := Open(path)
				wantDamage(t, err, file, tc.seq, tc.want)
			}
			l, err := OpenReadOnly(path)
			if err == nil {
				defer l.Close()
				for _, err = range l.Read(context.Background(), 1) {
				}
				if got := l.First(); tc.first > 0 && got != tc.first {
					t.Errorf("the first entry is %d, want %d", got, tc.first)
				}
			}
			wantDamage(t, err, file, tc.seq, tc.want)
			if tc.first > 1 {
				n := tc.first
				for _, err := range l.Read(context.Background(), n) {
					must(t, err)
					n++
				}
				if n != 41 {
					t.Errorf("reading from %d ends before %d", tc.first, n)
				}
			}
		})
	}
}

// otherSegments makes another log than newSegments does, of three segments of ten entries.
func otherSegments(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "b.log")
	l, err := everyAppend.Create(path)
	must(t, err)
	entries := logtest.Entries(1, 30)
	for i := range entries {
		entries[i].Time++
	}
	must(
		t,
		errors.Join(
			l.Append(context.Background(), 0, entries[:10]),
			l.Append(context.Background(), 10, entries[10:20]),
			l.Append(context.Background(), 20, entries[20:]),
			l.Close(),
		),
	)
	return path
}

// Two logs in one archive, by hand: each finds its own segments, of the same names in different directories too.
func TestArchivesOfTwoLogsDoNotHideEachOther(t *testing.T) {
	path, dir := archivedLog(t)
	other := otherSegments(t)
	beside := t.TempDir()
	for _, name := range []uint64{1, 11} {
		must(t, os.Rename(segment(other, name), segment(beside, name)))
	}
	// Between the names of this log's segments, and behind them.
	must(t, os.Rename(segment(beside, 1), segment(dir, 5)))
	must(t, os.Rename(segment(beside, 11), segment(dir, 15)))
	openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 40) })
	// The next part goes elsewhere, where the other log's have the same names.
	early, err := OpenReadOnly(path)
	must(t, err)
	elsewhere := t.TempDir()
	_, err = Archive(path, 31, elsewhere, nil)
	must(t, err)
	for _, name := range []uint64{1, 11} {
		content, err := os.ReadFile(segment(dir, name+4))
		must(t, err)
		must(t, os.WriteFile(segment(elsewhere, name), content, fileMode))
		must(t, os.WriteFile(segment(dir, 21), content, fileMode))
	}
	wantEntries(t, early, 1, 40) // a reader that existed before the last part went
	must(t, early.Close())
	openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 40) })
}

// More is archived where all that was archived before was moved to, or while some of that is not there.
func TestArchivingGoesOnWhereTheArchiveIs(t *testing.T) {
	path, dir := archivedLog(t)
	moved := dir + ".moved"
	must(t, os.Rename(dir, moved))
	_, err := Archive(path, 31, moved, nil)
	must(t, err)
	openBoth(t, Options{Archives: []string{moved}}, path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 40) })

	path, dir = archivedLog(t)
	must(t, os.Remove(segment(dir, 11)))
	_, err = Archive(path, 31, dir, nil)
	must(t, err)
	openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, 21, 40) })
}

// Another log's segments in the archive are not treated as this one's.
func TestArchiveOfAnotherLog(t *testing.T) {
	path, dir := archivedLog(t)
	content, err := os.ReadFile(segment(otherSegments(t), 11))
	must(t, err)
	must(t, os.WriteFile(segment(dir, 11), content, fileMode))
	l, err := OpenReadOnly(path)
	must(t, err)
	wantEntries(t, l, 21, 40)
	for _, err := range l.Read(context.Background(), 11) {
		if !strings.Contains(err.Error(), "is not the segment that ends with entry 20") {
			t.Errorf("error %v", err)
		}
	}
	must(t, l.Close())
}

// Segments are archived while the log is written to and read, in this process and others: nobody loses an entry.
func TestArchivingBesideAWriter(t *testing.T) {
	path, dir := newSegments(t, 2, 10), filepath.Join(t.TempDir(), "archive")
	w, err := everyAppend.Open(path)
	must(t, err)
	const rounds = 30
	var group sync.WaitGroup
	stop := make(chan struct{})
	read := func(l *Log) {
		last, err := l.Last()
		if err != nil {
			t.Error(err)
		}
		next := uint64(1)
		for e, err := range l.Read(context.Background(), 1) {
			if err != nil || e.Seq != next {
				t.Errorf("entry %d, error %v, want %d", e.Seq, err, next)
				return
			}
			next++
		}
		if next <= last {
			t.Errorf("reading ends before %d, the last is %d", next, last)
		}
		if first := l.First(); first != 1 {
			t.Errorf("the first entry is %d", first)
		}
	}
	group.Go(func() { // readers that come and go
		for running := true; running; {
			select {
			case <-stop:
				running = false
			default:
			}
			l, err := OpenReadOnly(path)
			if err != nil {
				t.Error(err)
				return
			}
			read(l)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	group.Go(func() { // a reader in the writer's own process
		for running := true; running; {
			select {
			case <-stop:
				running = false
			default:
			}
			read(w)
		}
	})
	for i := range uint64(rounds) {
		must(t, w.Append(context.Background(), 20+10*i, logtest.Entries(21+10*i, 10)))
		if i%3 == 0 {
			if _, err := Archive(path, 10*i, dir, nil); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	group.Wait()
	must(t, os.RemoveAll(dir))
	wantArchived(t, onlyError(w.Read(context.Background(), 5)), 5, 261)
	if w.First() != 261 {
		t.Errorf("the first entry is %d", w.First())
	}
	must(t, w.Close())
}

func onlyError(seq func(func(eventlog.Entry, error) bool)) error {
	for _, err := range seq {
		return err
	}
	return nil
}

// The other file system is /dev/shm, if there is one.
func TestArchivingToAnotherFileSystem(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "rollcall")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	path := newSegments(t, 4, 10)
	if os.Link(segment(path, 1), filepath.Join(dir, "probe")) == nil {
		t.Skip("/dev/shm is the same file system")
	}
	var told []int64
	got, err := Archive(path, 31, dir, func(done, total int64) { told = append(told, done, total) })
	must(t, err)
	if got.Segments != 3 || len(told) != 6 || told[4] != got.Bytes || told[1] != got.Bytes {
		t.Errorf("archived %+v, told %v", got, told)
	}
	openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, 1, 40) })
	for _, first := range []uint64{1, 11, 21} {
		info, err := os.Stat(segment(dir, first))
		if err != nil || info.Mode().Perm() != fileMode {
			t.Errorf("mode of segment %d: %v, error %v", first, info, err)
		}
	}
}
