package boltlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// everyAppend begins a segment with each Append.
var everyAppend = Options{SegmentBytes: 1}

// newSegments makes a closed log of count segments of size entries each.
func newSegments(t testing.TB, count, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.log")
	l, err := everyAppend.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if err := l.Append(context.Background(), uint64(i*size), logtest.Entries(uint64(i*size)+1, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// unfinished makes a log of three segments of ten entries whose last is sealed, but not trimmed, and has no
// successor.
func unfinished(t testing.TB) string {
	t.Helper()
	path := newSegments(t, 3, 10)
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.tail.writeSeal(l.end), l.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// withEmpty makes a log of three sealed segments of ten entries and an empty one.
func withEmpty(t testing.TB) string {
	t.Helper()
	path := unfinished(t)
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// appendBytes makes a file longer.
func appendBytes(t testing.TB, path string, more []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append(content, more...), fileMode))
}

func TestInterruptedRotationIsFinished(t *testing.T) {
	unseal := func(t *testing.T, path string) {
		tamper(t, segment(path, 21), func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Delete(metaSealed) })
	}
	for name, build := range map[string]func(t *testing.T) string{
		"nothing was interrupted":      func(t *testing.T) string { return newSegments(t, 3, 10) },
		"sealed, not trimmed":          func(t *testing.T) string { return unfinished(t) },
		"after the successor was made": func(t *testing.T) string { return withEmpty(t) },
		"sealed and trimmed": func(t *testing.T) string {
			path := withEmpty(t)
			must(t, os.Remove(segment(path, 31)))
			return path
		},
		"the successor half written": func(t *testing.T) string {
			path := unfinished(t)
			must(t, os.WriteFile(segment(path, 31)+".123.tmp", make([]byte, 5000), fileMode))
			return path
		},
		"the successor with both its names": func(t *testing.T) string {
			path := withEmpty(t)
			must(t, os.Link(segment(path, 31), segment(path, 31)+".123.tmp"))
			return path
		},
		"the seal lost though the successor is there": func(t *testing.T) string {
			path := withEmpty(t)
			unseal(t, path)
			return path
		},
		"that mended, but not trimmed": func(t *testing.T) string {
			path := withEmpty(t)
			appendBytes(t, segment(path, 21), make([]byte, 3*pageSize))
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := build(t)
			if n, err := readUntil(t, path, 1); n != 30 || err != nil {
				t.Fatalf("before anything is mended: %d entries, error %v", n, err)
			}
			for round := range 2 {
				l, err := Open(path)
				must(t, err)
				next := uint64(31 + 5*round)
				must(t, l.Append(context.Background(), next-1, logtest.Entries(next, 5)))
				must(t, l.Close())
			}
			if n, err := readUntil(t, path, 1); n != 40 || err != nil {
				t.Errorf("%d entries, error %v, want 40", n, err)
			}
			if rest, _ := filepath.Glob(filepath.Join(path, "*.tmp")); len(rest) > 0 {
				t.Errorf("left behind: %v", rest)
			}
			wantWhole(t, path)
		})
	}
}

// wantWhole checks each segment's structure and its place.
func wantWhole(t *testing.T, path string) {
	t.Helper()
	paths, err := segmentPaths(path)
	must(t, err)
	var prev Facts
	for _, file := range paths {
		s, err := OpenSegment(file)
		must(t, err)
		must(t, errors.Join(s.Follows(prev), s.Sound(), s.Check()))
		prev = s.Facts
		must(t, s.Close())
	}
}

func TestALogThatNoCrashCanLeaveIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		build func(t *testing.T) string
		first uint64 // of the segment that is named
		seq   uint64
		want  string
	}{
		{"a successor with entries, and no seal", func(t *testing.T) string {
			path := newSegments(t, 3, 10)
			tamper(t, segment(path, 11), func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Delete(metaSealed) })
			return path
		}, 11, 21, "not sealed"},
		{"no seal, and an empty successor of something else", func(t *testing.T) string {
			path := withEmpty(t)
			tamper(t, segment(path, 21), func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Delete(metaSealed) })
			tamper(t, segment(path, 31), func(tx *bolt.Tx) error {
				return tx.Bucket(bucketMeta).Put(metaPrevious,
					make([]byte, 32))
			})
			return path
		}, 21, 31, "not sealed"},
		{"a successor of something else", func(t *testing.T) string {
			path := withEmpty(t)
			tamper(t, segment(path, 31), func(tx *bolt.Tx) error {
				return tx.Bucket(bucketMeta).Put(metaPrevious, make([]byte, 32))
			})
			return path
		}, 31, 31, "follows a record of hash"},
		{"a segment that is missing", func(t *testing.T) string {
			path := newSegments(t, 3, 10)
			must(t, os.Remove(segment(path, 11)))
			return path
		}, 11, 11, "the segment is missing"},
		{"a segment that is missing before a damaged one", func(t *testing.T) string {
			path := newSegments(t, 3, 10)
			must(t, os.Remove(segment(path, 11)))
			must(t, os.Truncate(segment(path, 21), 100))
			return path
		}, 11, 11, "the segment is missing"},
		{"two segments swapped", func(t *testing.T) string {
			path := newSegments(t, 4, 10)
			must(t, os.Rename(segment(path, 11), path+".x"))
			must(t, os.Rename(segment(path, 21), segment(path, 11)))
			must(t, os.Rename(path+".x", segment(path, 21)))
			return path
		}, 11, 11, "begins with entry 21"},
		{"another log's segment", func(t *testing.T) string {
			path, other := newSegments(t, 3, 10), filepath.Join(t.TempDir(), "other")
			l, err := everyAppend.Create(other)
			must(t, err)
			entries := logtest.Entries(1, 20)
			for i := range entries {
				entries[i].Time++
			}
			must(t, errors.Join(l.Append(context.Background(), 0, entries[:10]), l.Append(context.Background(), 10,
				entries[10:]), l.Append(context.Background(), 20, logtest.Entries(21, 1)), l.Close()))
			must(t, os.Rename(segment(other, 11), segment(path, 11)))
			return path
		}, 11, 11, "follows a record of hash"},
		{"a segment cut short", func(t *testing.T) string {
			path := newSegments(t, 3, 10)
			must(t, os.Truncate(segment(path, 11), 5*pageSize))
			return path
		}, 11, 11, "cut short"},
		{"an empty file", func(t *testing.T) string {
			path := newSegments(t, 3, 10)
			must(t, os.Truncate(segment(path, 21), 0))
			return path
		}, 21, 21, "only 0 bytes"},
		{"bytes behind a sealed segment", func(t *testing.T) string {
			path := newSegments(t, 3, 10)
			appendBytes(t, segment(path, 11), bytes.Repeat([]byte("x"), 2*pageSize))
			return path
		}, 11, 21, "8192 bytes stand behind"},
		{"some bytes behind the live segment", func(t *testing.T) string {
			path := newSegments(t, 3, 10)
			appendBytes(t, segment(path, 21), []byte("garbage"))
			return path
		}, 21, 31, "no whole number of pages"},
		{"an entry behind the seal", func(t *testing.T) string {
			path := newSegments(t, 3, 10)
			tamper(t, segment(path, 11), func(tx *bolt.Tx) error {
				return tx.Bucket(bucketLog).Put(key(21),
					[]byte("x"))
			})
			return path
		}, 11, 21, "entries stand behind the seal"},
		{"a record changed in a sealed segment", func(t *testing.T) string {
			path := newSegments(t, 3, 10)
			tamper(t, segment(path, 11), func(tx *bolt.Tx) error {
				return tx.Bucket(bucketLog).Put(key(15),
					[]byte("x"))
			})
			must(t, trim(segment(path, 11))) // bbolt made it longer
			return path
		}, 11, 15, "too few"},
		{"the last record of a segment written anew", func(t *testing.T) string {
			path := newSegments(t, 3, 10)
			tamper(t, segment(path, 11), func(tx *bolt.Tx) error {
				e, prev, err := eventlog.DecodeRecord(tx.Bucket(bucketLog).Get(key(20)))
				if err != nil {
					return err
				}
				e.Settled = !e.Settled
				rec, err := eventlog.AppendRecord(nil, e, prev)
				return errors.Join(err, tx.Bucket(bucketLog).Put(key(20), rec))
			})
			must(t, trim(segment(path, 11)))
			return path
		}, 11, 20, "but the segment was sealed with"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := tc.build(t)
			before := snapshotDir(t, path)
			n, err := readUntil(t, path, 1)
			wantDamage(t, err, segment(path, tc.first), tc.seq, tc.want)
			if n != int(tc.seq)-1 {
				t.Errorf("%d entries came before it, want %d", n, tc.seq-1)
			}
			if strings.Contains(tc.name, "record") {
				return // Open does not read all records
			}
			_, err = Open(path)
			wantDamage(t, err, segment(path, tc.first), tc.seq, tc.want)
			if after := snapshotDir(t, path); !slices.Equal(before, after) {
				t.Errorf("refusing it has changed it: %v, before %v", after, before)
			}
		})
	}
}

// snapshotDir returns names and contents, except for the content of LOCK.
func snapshotDir(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	must(t, err)
	var out []string
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(path, e.Name()))
		must(t, err)
		hash := eventlog.HashRecord(content)
		if e.Name() != lockName {
			out = append(out, e.Name()+" "+string(hash[:]))
		}
	}
	return out
}

func TestFirstSegmentMissing(t *testing.T) {
	path := newSegments(t, 3, 10)
	must(t, os.Remove(segment(path, 1)))
	for _, open := range []func(string) (*Log, error){Open, OpenReadOnly} {
		_, err := open(path)
		wantDamage(t, err, segment(path, 1), 1, "the segment is missing")
	}
}

// The successor cannot be made: the log has no part of the Append, and continues after it is opened again.
func TestFailedRotationHasUnknownOutcome(t *testing.T) {
	path := newSegments(t, 1, 10)
	l, err := everyAppend.Open(path)
	must(t, err)
	must(t, os.WriteFile(segment(path, 11), nil, fileMode))
	if err := l.Append(
		context.Background(),
		10,
		logtest.Entries(11, 3),
	); err == nil ||
		!strings.Contains(err.Error(), "outcome unknown") {
		t.Errorf("error %v, want one that says that the outcome is unknown", err)
	}
	if err := l.Append(context.Background(), 10, logtest.Entries(11, 3)); !errors.Is(err, eventlog.ErrUnknownOutcome) {
		t.Errorf("error %v, want ErrUnknownOutcome", err)
	}
	n := 0
	for _, err := range l.Read(context.Background(), 1) {
		must(t, err)
		n++
	}
	if n != 10 {
		t.Errorf("%d entries can be read, want 10", n)
	}
	must(t, l.Close())
	must(t, os.Remove(segment(path, 11)))
	l, err = everyAppend.Open(path)
	must(t, err)
	must(t, l.Append(context.Background(), 10, logtest.Entries(11, 3)))
	must(t, l.Close())
	wantWhole(t, path)
}

func TestSegmentsKeepToTheirSize(t *testing.T) {
	const limit = 256 << 10
	path := filepath.Join(t.TempDir(), "a.log")
	l, err := Options{SegmentBytes: limit}.Create(path)
	must(t, err)
	for first := uint64(1); first <= 20000; first += 100 {
		must(t, l.Append(context.Background(), first-1, logtest.Entries(first, 100)))
	}
	must(t, l.Close())
	paths, err := segmentPaths(path)
	must(t, err)
	if len(paths) < 5 {
		t.Fatalf("only %d segments", len(paths))
	}
	for _, file := range paths[:len(paths)-1] {
		info, err := os.Stat(file)
		must(t, err)
		if size := info.Size(); size > limit+16*pageSize || size < limit/2 {
			t.Errorf("%s has %d bytes, the limit is %d", file, size, limit)
		}
	}
	wantWhole(t, path)
}

// The age counts from the segment's first entry, also if the log was opened in between.
func TestSegmentsKeepToTheirAge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	must(t, create(path, eventlog.Origin{}))
	opts := Options{SegmentAge: time.Hour}
	for i := range 10 {
		l, err := opts.Open(path)
		must(t, err)
		entries := logtest.Entries(uint64(i)+1, 1)
		entries[0].Time = eventlog.Time(i) * eventlog.Time(20*time.Minute)
		must(t, errors.Join(l.Append(context.Background(), uint64(i), entries), l.Close()))
	}
	paths, err := segmentPaths(path)
	must(t, err)
	if want := []string{
		segment(path, 1),
		segment(path, 4),
		segment(path, 7),
		segment(path, 10),
	}; !slices.Equal(
		paths,
		want,
	) {
		t.Errorf("segments %v, want %v", paths, want)
	}
	wantWhole(t, path)
}

// All entries of an Append are in one segment, whatever its limits.
func TestAnAppendIsInOneSegment(t *testing.T) {
	path := newSegments(t, 2, 700)
	paths, err := segmentPaths(path)
	must(t, err)
	if want := []string{segment(path, 1), segment(path, 701)}; !slices.Equal(paths, want) {
		t.Errorf("segments %v, want %v", paths, want)
	}
}

// A reader that has come half way is not disturbed by the segment being sealed under it.
func TestReadingAcrossARotation(t *testing.T) {
	path := newSegments(t, 1, 3000)
	l, err := everyAppend.Open(path)
	must(t, err)
	defer l.Close()
	n := uint64(0)
	for e, err := range l.Read(context.Background(), 1) {
		must(t, err)
		if n++; e.Seq != n {
			t.Fatalf("entry %d, want %d", e.Seq, n)
		}
		if n == 5 {
			must(t, l.Append(context.Background(), 3000, logtest.Entries(3001, 1)))
		}
	}
	if n != 3000 {
		t.Errorf("%d entries, want 3000", n)
	}
}
