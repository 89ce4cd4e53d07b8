package compat

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// Log is a log or a bundle of an earlier version, with the answers and states that were recorded for it.
type Log struct {
	// Entries and Records read from an entry on, the first of which is First.
	Entries func(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error]
	Records func(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error]
	First   uint64
	// Snapshots are the encoded states after some of its entries, by entry.
	Snapshots map[uint64][]byte
	// States are the hashes of states, or their first bytes, in hex, by entry.
	States map[uint64][]byte
	// Registry has the plugins that its configurations name.
	Registry framework.Registry
}

// Folders returns the folders and archives of every behaviour below the folder testdata of this package whose names
// match a pattern. It is fatal that there are none: then nothing would be tested.
func Folders(t *testing.T, testdata, pattern string) []string {
	t.Helper()
	folders, err := filepath.Glob(testdata + "/behaviour*/" + pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) == 0 {
		t.Fatalf("there is no %s/behaviour*/%s: no log of any behaviour is tested; make those of this one with "+
			"test/compat/generate.sh, as test/compat/doc.go says", testdata, pattern)
	}
	return folders
}

// Each runs f for every log, bundle and story of every behaviour below the folder testdata of this package.
func Each(t *testing.T, testdata string, f func(t *testing.T, l *Log)) {
	t.Helper()
	for _, dir := range Folders(t, testdata, "*") {
		t.Run(
			filepath.Base(filepath.Dir(dir))+"/"+strings.TrimSuffix(filepath.Base(dir), ".tar.gz"),
			func(t *testing.T) {
				if strings.HasSuffix(dir, "stories.tar.gz") {
					forEachStory(t, dir, f)
					return
				}
				f(t, open(t, dir))
			},
		)
	}
}

// open opens a folder of the test data.
func open(t *testing.T, dir string) *Log {
	t.Helper()
	l := &Log{Snapshots: map[uint64][]byte{}, States: map[uint64][]byte{}, Registry: plugins.NewRegistry()}
	for line := range strings.Lines(string(read(t, filepath.Join(dir, "states.txt")))) {
		seq, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(seq, 10, 64)
		if err != nil || len(hash) != 64 {
			t.Fatalf("%s: states.txt has the line %q", dir, line)
		}
		l.States[n] = []byte(hash)
	}
	if path := filepath.Join(dir, "bundle"); bundle.Is(path) {
		l.openBundle(t, path)
		return l
	}
	path, opts := t.TempDir(), boltlog.DefaultOptions()
	unpack(t, filepath.Join(dir, "log.tar.gz"), path)
	if archive := filepath.Join(dir, "archive.tar.gz"); exists(archive) {
		opts.Archives = []string{t.TempDir()}
		unpack(t, archive, opts.Archives[0])
	}
	log, err := opts.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	l.Entries, l.Records, l.First = log.Read, log.Records, 1
	store := snapshot.NewDir(filepath.Join(path, "snapshots"), 1)
	seqs, err := store.List()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, seq := range seqs {
		if l.Snapshots[seq], err = store.Get(seq); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (l *Log) openBundle(t *testing.T, path string) {
	t.Helper()
	b, err := bundle.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	l.Entries, l.Records, l.First = b.Read, b.Records, b.First()
	if l.First > 1 {
		if l.Snapshots[l.First-1], err = b.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
}

// forEachStory runs f for the stories of an archive.
func forEachStory(t *testing.T, archive string, f func(t *testing.T, l *Log)) {
	dir := t.TempDir()
	unpack(t, archive, dir)
	bundles, err := filepath.Glob(filepath.Join(dir, "*.bundle"))
	if err != nil || len(bundles) == 0 {
		t.Fatalf("%s has no stories: %v", archive, err)
	}
	for _, path := range bundles {
		name := strings.TrimSuffix(path, ".bundle")
		t.Run(filepath.Base(name), func(t *testing.T) {
			l := &Log{States: map[uint64][]byte{}, Registry: transcripts.Registry()}
			l.openBundle(t, path)
			for line := range strings.Lines(string(read(t, name+".states"))) {
				l.States[uint64(len(l.States)+1)] = []byte(strings.TrimSpace(line))
			}
			f(t, l)
		})
	}
}

// Start returns the Machine that the log's first entry follows.
func (l *Log) Start(t *testing.T) *scheduler.Machine {
	t.Helper()
	if l.First == 1 {
		return scheduler.New(l.Registry)
	}
	return l.Restore(t, l.First-1)
}

// Restore returns the Machine of the snapshot of an entry.
func (l *Log) Restore(t *testing.T, seq uint64) *scheduler.Machine {
	t.Helper()
	s, err := snapshot.Decode(l.Snapshots[seq])
	if err != nil {
		t.Fatalf("the snapshot of entry %d: %v", seq, err)
	}
	m, err := s.Restore(l.Registry)
	if err != nil {
		t.Fatalf("the snapshot of entry %d: %v", seq, err)
	}
	return m
}

// Run applies the entries after the Machine's and compares the states with the recorded states.
func (l *Log) Run(t *testing.T, m *scheduler.Machine) {
	t.Helper()
	if err := l.Compare(m); err != nil {
		t.Fatal(err)
	}
}

// Compare is Run; the error says which state is another one than was recorded, which entry cannot be applied, or that
// the log ends before the last state that was recorded.
func (l *Log) Compare(m *scheduler.Machine) error {
	start, compared := m.Seq(), 0
	for e, err := range l.Entries(context.Background(), start+1) {
		if err == nil {
			err = m.Apply(e)
		}
		if err != nil {
			return err
		}
		if want, ok := l.States[e.Seq]; ok {
			compared++
			if got := fmt.Sprintf("%x", m.Hash()); !strings.HasPrefix(got, string(want)) {
				return fmt.Errorf("after entry %d the state's hash is %s, and was %s", e.Seq, got, want)
			}
		}
	}
	if recorded := l.statesAfter(start); compared == 0 || compared != recorded {
		return fmt.Errorf("%d states after entry %d were compared, and %d are recorded", compared, start, recorded)
	}
	return nil
}

// statesAfter returns how many states after an entry are recorded.
func (l *Log) statesAfter(seq uint64) (n int) {
	for of := range l.States { // any order: they are counted
		if of > seq {
			n++
		}
	}
	return n
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// unpack unpacks a tar.gz into a directory.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(read(t, archive)))
	if err != nil {
		t.Fatalf("%s: %v", archive, err)
	}
	for files := tar.NewReader(zip); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		data, err := io.ReadAll(files)
		if err == nil {
			err = os.WriteFile(path, data, 0o644)
		}
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
	}
}
