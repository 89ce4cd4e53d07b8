package logs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// indexedUpTo is up to which entry the logs of these tests have parts, of 40 entries each.
const (
	indexedUpTo = 160
	partOf      = 40
)

// putParts writes the parts of entries that a log has, each of partOf of them, into the directory of path's index.
func putParts(t *testing.T, path string, of *logs.Source, from, upTo uint64) {
	t.Helper()
	var b index.Builder
	for e, err := range of.Read(t.Context(), from) {
		if err == nil {
			err = b.Add(e)
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Len() == partOf {
			hash, err := of.RecordHash(t.Context(), e.Seq)
			if err == nil {
				err = logs.IndexOf(path).Put(b.Part(hash))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if e.Seq == upTo {
			return
		}
	}
}

// openLog opens a log for reading, and returns its reports from then on.
func openLog(t *testing.T, path string, archives ...string) (*logs.Source, *strings.Builder) {
	t.Helper()
	notes := &strings.Builder{}
	opts := logs.Options{Archives: archives, Report: func(m string) { fmt.Fprintln(notes, m) }}
	log, err := opts.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	notes.Reset()
	return log, notes
}

// indexIn opens the index of a log.
func indexIn(t *testing.T, log *logs.Source) *logs.Index {
	t.Helper()
	x, err := log.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return x.(*logs.Index)
}

// told returns all answers of the index of a log of WellFormed entries.
func told(t *testing.T, log *logs.Source, x *logs.Index) string {
	t.Helper()
	last, err := log.Last()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	counts, next := map[eventlog.Kind]uint64{}, log.First()
	var epochs []uint64
	for _, f := range x.Facts() {
		if f.First != next {
			t.Fatalf("a part begins with entry %d, want %d", f.First, next)
		}
		next = f.Last + 1
		for kind, n := range f.Kinds {
			counts[kind] += n
		}
		epochs = append(epochs, f.Epochs...)
	}
	if next != last+1 {
		t.Fatalf("the parts end before entry %d, want %d", next, last+1)
	}
	fmt.Fprintf(&b, "%v\n%v\n", epochs, counts)
	naming := func(what string, keys ...index.Key) {
		seqs, err := x.Naming(t.Context(), keys...)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, what, seqs)
	}
	naming("barrier", index.Barrier())
	for seq := uint64(1); seq <= last; seq++ {
		name := fmt.Sprintf("p%d", seq)
		uid, pod := index.UID(types.UID("uid-"+name)), index.Pod(types.NamespacedName{Namespace: "default", Name: name})
		naming(name, uid, pod, index.Node(name))
		if seq%7 == 0 {
			at, err := x.Until(t.Context(), eventlog.Time(1_700_000_000_000_000_000+seq))
			fmt.Fprintln(&b, "until", at, err)
		}
	}
	return b.String()
}

// withoutIndex returns the answers of a log without an index.
func withoutIndex(t *testing.T, path string, archives ...string) string {
	t.Helper()
	dir := logs.IndexOf(path).Path()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	log, _ := openLog(t, path, archives...)
	x := indexIn(t, log)
	want := told(t, log, x)
	if last, _ := log.Last(); x.Read() != last+1-log.First() {
		t.Fatalf("%d entries were read without an index", x.Read())
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	return want
}

// withoutIndexDir is withoutIndex for a log that has none.
func withoutIndexDir(t *testing.T, path string) string {
	t.Helper()
	log, _ := openLog(t, path)
	return told(t, log, indexIn(t, log))
}

// TestAnIndexThatACrashLeftTellsTheSame puts the parts of an index into every state in which a crash, a copy or
// another log may leave them. The answers stay the same, and exactly the entries without a good part are read.
func TestAnIndexThatACrashLeftTellsTheSame(t *testing.T) {
	path := logstest.Segmented(t, logstest.WellFormed(200), 25)
	log, _ := openLog(t, path)
	putParts(t, path, log, 1, indexedUpTo)
	others := logstest.WellFormed(240)
	for i := range others {
		others[i].Time += 5
	}
	other, _ := openLog(t, logstest.Segmented(t, others, 25))
	longer, _ := openLog(t, logstest.Segmented(t, logstest.WellFormed(240), 25))
	want := withoutIndex(t, path)

	dir := logs.IndexOf(path)
	third := dir.File(index.Range{First: 81, Last: 120})
	file := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	write := func(name string, content []byte) {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole := file(third)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-40] ^= 4
	remove := func(name string) {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		leave func()
		late  bool   // it comes when the index is open
		read  uint64 // how many entries are read
		note  string
	}{
		{"whole", func() {}, false, 40, ""},
		{"no directory", func() { remove(dir.Path()) }, false, 200, ""},
		{"a file in its place", func() { remove(dir.Path()); write(dir.Path(), nil) }, false, 200, ""},
		{"a part is missing", func() { remove(third) }, false, 80, ""},
		{"the last part is missing", func() { remove(dir.File(index.Range{First: 121, Last: 160})) }, false, 80, ""},
		{"an empty part", func() { write(third, nil) }, false, 80, "no whole part"},
		{"a part without its last byte", func() { write(third, whole[:len(whole)-1]) }, false, 80, "no whole part"},
		{"half a part", func() { write(third, whole[:len(whole)/2]) }, false, 80, "no whole part"},
		{"zeros at the end of a part", func() {
			write(third, append(whole[:len(whole)/2:len(whole)/2], make([]byte, len(whole)-len(whole)/2)...))
		}, false, 80, "no whole part"},
		{"a changed byte", func() { write(third, flipped) }, false, 80, "no whole part"},
		{"a part that was not renamed", func() { remove(third); write(third+".17.tmp", whole) }, false, 80, ""},
		{"half of one beside it", func() { write(third+".17.tmp", whole[:9]) }, false, 40, ""},
		{"a directory", func() { remove(third); _ = os.Mkdir(third, 0o700) }, false, 80, "not used"},
		{"a link to a part", func() {
			remove(third)
			write(filepath.Join(filepath.Dir(path), "part"), whole)
			_ = os.Symlink(filepath.Join(filepath.Dir(path), "part"), third)
		}, false, 40, ""},
		{"the part of another range", func() {
			write(third, file(dir.File(index.Range{First: 41, Last: 80})))
		}, false, 80, "it says that it is of entries 41 to 80"},
		{"all parts of another log", func() { putParts(t, path, other, 1, 240) }, false, 200, "it is not of this log"},
		{"parts of entries that were lost", func() { putParts(t, path, longer, 161, 240) }, false, 0, ""},
		{"a part that ends behind the log", func() { putParts(t, path, longer, 181, 220) }, false, 40, ""},
		{"parts that overlap", func() { putParts(t, path, log, 61, 180) }, false, 40, ""},
		{"a part becomes another log's", func() { putParts(t, path, other, 81, 120) }, true, 80, "replaced by another"},
		{"a part is cut", func() { write(third, whole[:len(whole)-1]) }, true, 80, "no whole part"},
		{"a part goes", func() { remove(third) }, true, 80, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			remove(dir.Path())
			putParts(t, path, log, 1, indexedUpTo)
			if !c.late {
				c.leave()
			}
			log, notes := openLog(t, path)
			x := indexIn(t, log)
			if c.late {
				c.leave()
			}
			if got := told(t, log, x); got != want {
				t.Errorf("with the index:\n%.300s\nwithout:\n%.300s", got, want)
			}
			if x.Read() != c.read {
				t.Errorf("%d entries were read, want %d", x.Read(), c.read)
			}
			if (c.note == "") != (notes.String() == "") || !strings.Contains(notes.String(), c.note) {
				t.Errorf("it reports %q, want %q", notes, c.note)
			}
		})
	}
	// And log index makes of the last state what it would have made of none.
	log, _ = openLog(t, path)
	if _, err := log.MakeIndex(t.Context(), logs.Indexing{}); err != nil {
		t.Fatal(err)
	}
	log, notes := openLog(t, path)
	if x := indexIn(t, log); told(t, log, x) != want || x.Read() != 0 || notes.Len() > 0 {
		t.Errorf("made again: %d entries were read, %s", x.Read(), notes)
	}
}

// TestTheIndexBesideAWriterTellsTheSame: a reader sees the parts that the writer had written when it was opened, and
// no later ones.
func TestTheIndexBesideAWriterTellsTheSame(t *testing.T) {
	path := t.TempDir() + "/a.log"
	kept, err := logs.KeepOptions{SegmentBytes: 1}.Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	entries := logstest.WellFormed(200)
	grow := func(from, upTo int) {
		for at := from; at < upTo; at += 10 {
			if err := kept.Append(t.Context(), uint64(at), entries[at:min(at+10, upTo)]); err != nil {
				t.Fatal(err)
			}
		}
	}
	grow(0, 95)
	early, _ := openLog(t, path)
	if !early.Live() {
		t.Fatal("the log is not being written to")
	}
	putParts(t, path, early, 1, 80)
	want := withoutIndex(t, path)
	grow(95, 200)
	late, _ := openLog(t, path)
	putParts(t, path, late, 81, 200)
	if x := indexIn(t, early); told(t, early, x) != want || x.Read() != 15 {
		t.Errorf("a reader that came first has read %d entries for its index, want 15, or is told something else",
			x.Read())
	}
	if x := indexIn(t, late); told(t, late, x) != withoutIndex(t, path) || x.Read() != 0 {
		t.Errorf("a reader that came last has read %d entries for its index, or is told something else", x.Read())
	}
}

// TestTheIndexOfAnArchivedLogTellsTheSame: parts of archived entries stay, and are used if the archive is there.
func TestTheIndexOfAnArchivedLogTellsTheSame(t *testing.T) {
	path := logstest.Segmented(t, logstest.WellFormed(200), 25)
	log, _ := openLog(t, path)
	putParts(t, path, log, 1, indexedUpTo)
	archive := filepath.Join(t.TempDir(), "archive")
	if _, err := boltlog.Archive(path, 101, archive, nil); err != nil {
		t.Fatal(err)
	}
	log, _ = openLog(t, path, archive)
	if x := indexIn(t, log); told(t, log, x) != withoutIndex(t, path, archive) || log.First() != 1 || x.Read() != 40 {
		t.Errorf("with the archive %d entries are read for the index, from entry %d on", x.Read(), log.First())
	}
	if err := os.Rename(archive, archive+".away"); err != nil {
		t.Fatal(err)
	}
	log, _ = openLog(t, path)
	// Entries 101 to 120 are in a part that begins with archived ones.
	if x := indexIn(t, log); told(t, log, x) != withoutIndex(t, path) || log.First() != 101 || x.Read() != 60 {
		t.Errorf("without it %d entries are read for the index, from entry %d on", x.Read(), log.First())
	}
}

// TestLogIndexReplacesPartsThatAreNotGood damages, forges and doubles parts. log index replaces them and says so, and
// reads no entry of a part that is good, unless it is to compare them.
func TestLogIndexReplacesPartsThatAreNotGood(t *testing.T) {
	path := logstest.Segmented(t, logstest.WellFormed(200), 25)
	log, _ := openLog(t, path)
	want := withoutIndexDir(t, path)
	dir := logs.IndexOf(path)
	third := index.Range{First: 81, Last: 120}
	forge := func(t *testing.T, r index.Range) { forgePart(t, dir, r) }
	for _, c := range []struct {
		name                  string
		leave                 func(t *testing.T)
		check                 bool
		kept, parts, replaced int
		read                  int
		reason                string
	}{
		{"all good", func(*testing.T) {}, false, 5, 0, 0, 0, ""},
		{"all good, compared", func(*testing.T) {}, true, 5, 0, 0, 200, ""},
		{"damaged names", func(t *testing.T) { flipPart(t, dir, third) }, false, 4, 1, 1, 40,
			"its names have another hash"},
		{"no file", func(t *testing.T) {
			if err := errors.Join(os.Remove(dir.File(third)), os.Mkdir(dir.File(third), 0o700)); err != nil {
				t.Fatal(err)
			}
		}, false, 4, 1, 1, 40, "not a regular file"},
		{"wrong, and not compared", func(t *testing.T) { forge(t, third) }, false, 5, 0, 0, 0, ""},
		{"wrong", func(t *testing.T) { forge(t, third) }, true, 4, 1, 1, 240, "it does not agree with its entries"},
		{"two wrong ones", func(t *testing.T) {
			forge(t, third)
			forge(t, index.Range{First: 1, Last: 40})
		}, true, 3, 2, 2, 280, "it does not agree with its entries"},
		{"a second part", func(t *testing.T) { putParts(t, path, log, 61, 100) }, false, 5, 0, 1, 0,
			"other parts have its entries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.RemoveAll(dir.Path()); err != nil {
				t.Fatal(err)
			}
			putParts(t, path, log, 1, 200)
			c.leave(t)
			read := map[uint64]int{}
			opts := logs.Options{Progress: func(_ string, done, _ uint64) { read[done]++ }}
			log, err := opts.Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			clear(read)
			done, err := log.MakeIndex(t.Context(), logs.Indexing{Check: c.check})
			if err != nil {
				t.Fatal(err)
			}
			if done.Kept != c.kept || done.Parts != c.parts || len(done.Removed) != c.replaced {
				t.Errorf("%+v, want %d kept, %d parts, %d removed", done, c.kept, c.parts, c.replaced)
			}
			if c.replaced > 0 && !strings.Contains(done.Removed[0].Reason, c.reason) {
				t.Errorf("it was replaced because %s", done.Removed[0].Reason)
			}
			entries := 0
			for _, n := range read { // any order: a sum
				entries += n
			}
			if entries != c.read {
				t.Errorf("%d entries were read, want %d", entries, c.read)
			}
			log, notes := openLog(t, path)
			if x := indexIn(t, log); c.name != "wrong, and not compared" && told(t, log, x) != want || x.Read() != 0 {
				t.Errorf("afterwards %d entries are read, or it tells something else; %s", x.Read(), notes)
			}
		})
	}
}

// forgePart gives a part other counts and times.
func forgePart(t *testing.T, dir *index.Dir, r index.Range) {
	t.Helper()
	p, err := dir.Get(r)
	if err != nil {
		t.Fatal(err)
	}
	p.To++
	p.Kinds = map[eventlog.Kind]uint64{eventlog.KindTick: p.Last + 1 - p.First}
	p.Resources, p.Outcomes, p.Epochs = nil, nil, nil
	if err := dir.Put(p); err != nil {
		t.Fatal(err)
	}
}

// flipPart changes a bit at the end of a part, in the hash of its names.
func flipPart(t *testing.T, dir *index.Dir, r index.Range) {
	t.Helper()
	content, err := os.ReadFile(dir.File(r))
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-10] ^= 4
	if err := os.WriteFile(dir.File(r), content, 0o600); err != nil {
		t.Fatal(err)
	}
}
