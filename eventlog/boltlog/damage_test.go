package boltlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
	"github.com/rollcall-sched/rollcall/internal/durable"
)

// newLog makes a closed log of n entries in one segment.
func newLog(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.log")
	l, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for first := 1; first <= n; first += 500 {
		if err := l.Append(
			context.Background(),
			uint64(first)-1,
			logtest.Entries(uint64(first), min(500, n+1-first)),
		); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// segment returns the file of the segment that begins with entry first.
func segment(log string, first uint64) string { return filepath.Join(log, segmentName(first)) }

// logOf makes a log of one segment with the given content.
func logOf(t testing.TB, content []byte) (log, file string) {
	t.Helper()
	log = t.TempDir()
	file = segment(log, 1)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return log, file
}

// tamper changes a file of a closed log behind its back.
func tamper(t testing.TB, path string, f func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, fileMode, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(f), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// readUntil reads a log and returns how many entries came before the error.
func readUntil(t testing.TB, path string, from uint64) (int, error) {
	t.Helper()
	l, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := 0
	for _, err := range l.Read(context.Background(), from) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func wantDamage(t testing.TB, err error, path string, seq uint64, text string) {
	t.Helper()
	var damaged *eventlog.DamagedError
	if !errors.As(err, &damaged) {
		t.Errorf("error %v, want damage", err)
		return
	}
	if damaged.Path != path || damaged.Seq != seq || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want damage of %s at entry %d with %q", err, path, seq, text)
	}
}

func TestDamageIsFoundAtItsEntry(t *testing.T) {
	const total, at = 1000, 700
	record := func(tx *bolt.Tx, seq uint64) []byte { return bytes.Clone(tx.Bucket(bucketLog).Get(key(seq))) }
	for _, tc := range []struct {
		name string
		f    func(tx *bolt.Tx) error
		seq  uint64
		want string
	}{
		{"a flipped bit", func(tx *bolt.Tx) error {
			rec := record(tx, at)
			rec[len(rec)/2] ^= 1
			return tx.Bucket(bucketLog).Put(key(at), rec)
		}, at, "checksum"},
		{"a missing entry", func(tx *bolt.Tx) error { return tx.Bucket(bucketLog).Delete(key(at)) }, at, "missing"},
		{"another entry's record", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketLog).Put(key(at), record(tx, at-1))
		}, at, "its record is that of entry 699"},
		{"an entry rewritten with a checksum that fits", func(tx *bolt.Tx) error {
			e, prev, err := eventlog.DecodeRecord(record(tx, at))
			if err != nil {
				return err
			}
			e.Time++
			rec, err := eventlog.AppendRecord(nil, e, prev)
			if err != nil {
				return err
			}
			return tx.Bucket(bucketLog).Put(key(at), rec)
		}, at + 1, "follows a record of hash"},
		{"an empty record", func(tx *bolt.Tx) error { return tx.Bucket(bucketLog).Put(key(at), nil) }, at, "too few"},
		{"a key of another size", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketLog).Put(append(key(at-1), 0), []byte("x"))
		}, at, "missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := newLog(t, total)
			tamper(t, segment(path, 1), tc.f)
			n, err := readUntil(t, path, 1)
			wantDamage(t, err, segment(path, 1), tc.seq, tc.want)
			if n != int(tc.seq)-1 {
				t.Errorf("%d entries came before it, want %d", n, tc.seq-1)
			}
			if tc.seq == at {
				_, err = readUntil(t, path, at)
				wantDamage(t, err, segment(path, 1), at, tc.want)
			}
		})
	}
}

func TestDamagedLastEntryForbidsAppending(t *testing.T) {
	path := newLog(t, 10)
	tamper(t, segment(path, 1), func(tx *bolt.Tx) error { return tx.Bucket(bucketLog).Put(key(10), []byte("junk")) })
	_, err := Open(path)
	wantDamage(t, err, segment(path, 1), 10, "too few")
	if n, err := readUntil(t, path, 1); n != 9 {
		t.Errorf("%d entries read, error %v, want the 9 before it", n, err)
	}
}

func TestWhatIsNoLogIsRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign := filepath.Join(dir, "foreign")
	db, err := bolt.Open(foreign, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "absent"): fs.ErrNotExist,
		dir:                          ErrNotALog,
		write("empty", nil):          ErrNotALog,
		write("short", []byte("x")):  ErrNotALog,
		write("text", bytes.Repeat([]byte("some text\n"), 10000)): ErrNotALog,
		write("zeros", make([]byte, 1<<16)):                       ErrNotALog,
		foreign:                                                   ErrNotALog,
	} {
		for name, open := range map[string]func(string) (*Log, error){"Open": Open, "OpenReadOnly": OpenReadOnly} {
			if _, err := open(path); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s(%s): error %v, want %v", name, path, err, want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "absent")); err == nil {
		t.Error("opening made a file")
	}
}

// A log of another layout is refused by name, and left as it is. One of layout 1 was one file.
func TestAnotherLayoutIsRefusedByName(t *testing.T) {
	for layout, want := range map[uint32]string{
		1:          "layout 1, written before the first release",
		Format - 1: "written before the first release of Rollcall: this version reads layout 3: read the log with the",
		Format + 1: "newer version",
	} {
		path := newLog(t, 1)
		tamper(t, segment(path, 1), func(tx *bolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(metaFormat, binary.BigEndian.AppendUint32(nil, layout))
		})
		if layout == 1 {
			must(t, os.Rename(segment(path, 1), path+".db"))
			path += ".db"
		}
		for _, open := range []func() error{
			func() error { _, err := Open(path); return err },
			func() error { _, err := OpenReadOnly(path); return err },
		} {
			err := open()
			var format *FormatError
			if !errors.As(err, &format) || format.Format != layout || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want a FormatError with %q", err, want)
			}
		}
	}
}

func TestAFileIsNoLog(t *testing.T) {
	log := newLog(t, 10)
	if _, err := OpenReadOnly(segment(log, 1)); !errors.Is(err, ErrNotALog) ||
		!strings.Contains(err.Error(), "name the log, "+log) {
		t.Errorf("a segment: error %v", err)
	}
	path := filepath.Join(t.TempDir(), "moved")
	must(t, os.Rename(segment(log, 1), path))
	if _, err := List(path); err == nil || !strings.Contains(err.Error(), "does not have its name") {
		t.Errorf("a segment without its name: error %v", err)
	}
}

// A record that another version wrote in a format of its own is no damage: nothing may be cut for it. It is found
// wherever it stands.
func TestAnEntryOfAnotherFormatIsNoDamage(t *testing.T) {
	const total, at = 100, 70
	for name, tc := range map[string]struct {
		seq    uint64
		format byte
	}{
		"newer, in the middle": {at, eventlog.FormatVersion + 1},
		"newer, the last":      {total, eventlog.FormatVersion + 1},
		"older, the first":     {1, 9},
		"older, the last":      {total, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := newLog(t, total)
			tamper(t, segment(path, 1), func(tx *bolt.Tx) error {
				rec := bytes.Clone(tx.Bucket(bucketLog).Get(key(tc.seq)))
				rec[0] = tc.format
				body := rec[:len(rec)-crc32.Size]
				rec = binary.BigEndian.AppendUint32(body, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
				return tx.Bucket(bucketLog).Put(key(tc.seq), rec)
			})
			want := eventlog.FormatError{Path: segment(path, 1), Seq: tc.seq, Format: tc.format}
			n, err := readUntil(t, path, 1)
			wantFormat(t, err, want)
			if n != int(tc.seq)-1 {
				t.Errorf("%d entries came before it, want %d", n, tc.seq-1)
			}
			if tc.seq == total {
				_, err := Open(path)
				wantFormat(t, err, want)
			}
		})
	}
}

func wantFormat(t *testing.T, err error, want eventlog.FormatError) {
	t.Helper()
	var format *eventlog.FormatError
	var damaged *eventlog.DamagedError
	if !errors.As(err, &format) || *format != want || errors.As(err, &damaged) {
		t.Errorf("error %v, want %v", err, &want)
	}
}

// pages returns the part of a file that bbolt uses: the rest is room to grow.
func pages(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tamper(t, path, func(tx *bolt.Tx) error {
		content = content[:tx.Size()]
		return nil
	})
	return content
}

// However a file is cut, opening and reading it ends in an error or in the entries before the damage, and
// never in a panic.
func TestCutFilesAreReported(t *testing.T) {
	whole := pages(t, segment(newLog(t, 700), 1))
	for size := 1; size < len(whole); size += 4096 + 511 {
		log, _ := logOf(t, whole[:size])
		wantError(t, fmt.Sprintf("cut to %d bytes", size), log)
	}
}

// The same for pages that were overwritten.
func TestOverwrittenPagesAreReported(t *testing.T) {
	whole := pages(t, segment(newLog(t, 700), 1))
	for page := 2; page < len(whole)/4096; page++ { // 0 and 1 are in for each other
		for _, fill := range []byte{0, 0xff, 0x10} {
			bad := bytes.Clone(whole)
			copy(bad[page*4096:], bytes.Repeat([]byte{fill}, 4096))
			path, file := logOf(t, bad)
			// A free page may be overwritten, and a damaged one is an error that names the file.
			l, err := Open(path)
			if err == nil {
				for _, err = range l.Read(context.Background(), 1) {
					if err != nil {
						break
					}
				}
				l.Close()
			}
			if err != nil && !strings.Contains(err.Error(), file) {
				t.Errorf("page %d filled with %#x: error %v does not name the file", page, fill, err)
			}
		}
	}
}

func wantError(t *testing.T, what, path string) {
	t.Helper()
	for name, open := range map[string]func(string) (*Log, error){"Open": Open, "OpenReadOnly": OpenReadOnly} {
		l, err := open(path)
		if err == nil {
			l.Close()
			t.Errorf("%s: %s of it did not fail", what, name)
			continue
		}
		var damaged *eventlog.DamagedError
		if !errors.As(err, &damaged) {
			t.Errorf("%s: %s: error %v, want damage", what, name, err)
		}
	}
}

func TestCreateReplacesNothing(t *testing.T) {
	path := newLog(t, 3)
	if _, err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want fs.ErrExist", err)
	}
	if n, err := readUntil(t, path, 1); n != 3 || err != nil {
		t.Errorf("%d entries left, error %v", n, err)
	}
	if err := durable.Publish(segment(newLog(t, 1), 1), segment(path, 1)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that came meanwhile: error %v, want fs.ErrExist", err)
	}
	dir := filepath.Dir(path)
	if _, err := Create(filepath.Join(dir, "absent", "a.log")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: error %v", err)
	}
	if rest, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(rest) > 0 {
		t.Errorf("left behind: %v", rest)
	}
	for file, want := range map[string]fs.FileMode{path: 0o700, segment(path, 1): fileMode} {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s is %v, error %v", file, info.Mode(), err)
		}
	}
}

// A commit that fails leaves open what reached the disk. Both outcomes are played: nothing did, and all did.
func TestFailedCommitHasUnknownOutcome(t *testing.T) {
	path := newLog(t, 3)
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.tail.file.Close(); err != nil { // every write fails from here on
		t.Fatal(err)
	}
	if err := l.Append(
		context.Background(),
		3,
		logtest.Entries(4, 2),
	); err == nil ||
		!strings.Contains(err.Error(), "outcome unknown") {
		t.Errorf("error %v, want one that says that the outcome is unknown", err)
	}
	if err := l.Append(context.Background(), 3, logtest.Entries(4, 2)); !errors.Is(err, eventlog.ErrUnknownOutcome) {
		t.Errorf("error %v, want ErrUnknownOutcome", err)
	}
	l.Close()
	l, err = Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if last, err := l.Last(); last != 3 || err != nil {
		t.Errorf("last is %d, error %v, want 3", last, err)
	}
	if err := l.Append(context.Background(), 3, logtest.Entries(4, 2)); err != nil {
		t.Error(err)
	}
	l.Close()
}

func TestReopenAfterACommitThatReachedTheDisk(t *testing.T) {
	path := newLog(t, 3)
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	end, err := l.batch.Encode(l.end, logtest.Entries(4, 2), limit)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.commit(); err != nil { // durable, but never reported so
		t.Fatal(err)
	}
	l.unknown = &eventlog.Attempt{Before: l.end, After: end}
	l.Close()
	l, err = Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conflict *eventlog.ConflictError
	if err := l.Append(
		context.Background(),
		3,
		logtest.Entries(4, 2),
	); !errors.As(err, &conflict) ||
		conflict.Actual != 5 {
		t.Errorf("error %v, want a conflict with entry 5", err)
	}
}

// A log without any segment was a log: it is damaged, and not something else.
func TestALogThatLostAllItsSegmentsIsDamaged(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(t *testing.T) string
		seq  uint64
	}{
		"all of it":             {func(t *testing.T) string { return newSegments(t, 3, 10) }, 1},
		"what was not archived": {func(t *testing.T) string { path, _ := archivedLog(t); return path }, 21},
		"a copy that has no LOCK": {func(t *testing.T) string {
			path, _ := archivedLog(t)
			must(t, os.Remove(filepath.Join(path, lockName)))
			return path
		}, 21},
	} {
		t.Run(name, func(t *testing.T) {
			path := tc.make(t)
			paths, err := segmentPaths(path)
			must(t, err)
			for _, p := range paths {
				must(t, os.Remove(p))
			}
			_, opened := Open(path)
			_, read := OpenReadOnly(path)
			_, listed := List(path)
			for _, err := range []error{opened, read, listed} {
				wantDamage(t, err, path, tc.seq, "none of its segments")
			}
		})
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNotALog) {
		t.Errorf("an empty directory: error %v", err)
	}
}
