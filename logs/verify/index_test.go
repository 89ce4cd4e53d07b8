package verify

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// partOf makes the part of the entries from first to last, as change leaves each of them, with the given hash.
func partOf(
	t *testing.T, entries []eventlog.Entry, first, last int, hash [32]byte, change func(*eventlog.Entry),
) *index.Part {
	t.Helper()
	var b index.Builder
	for _, e := range entries[first-1 : last] {
		if change != nil {
			change(&e)
		}
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	return b.Part(hash)
}

// hashesOf returns the hashes of the records of a log, after 32 bytes of zeros.
func hashesOf(t *testing.T, path string) [][32]byte {
	t.Helper()
	log, err := boltlog.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	hashes := [][32]byte{{}}
	for r, err := range log.Records(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, r.Hash)
	}
	return hashes
}

// indexParts is the number of entries of the parts of these tests. The segments have fewer.
const indexParts = 40

// An indexCase leaves parts of the index of a log of entries as none of its writers does.
type indexCase struct {
	leave       func(*testing.T, *index.Dir)
	parts, good int
	state       string
	reason, say string
}

// indexEntries is the number of entries of the log of indexCases.
const indexEntries = 205

// indexCases returns the cases by name, for a log whose records have the hashes.
func indexCases(entries []eventlog.Entry, hashes [][32]byte) map[string]indexCase {
	put := func(t *testing.T, dir *index.Dir, p *index.Part) {
		t.Helper()
		if err := dir.Put(p); err != nil {
			t.Fatal(err)
		}
	}
	forged := func(first, last int, change func(*eventlog.Entry)) func(*testing.T, *index.Dir) {
		return func(t *testing.T, dir *index.Dir) { put(t, dir, partOf(t, entries, first, last, hashes[last], change)) }
	}
	third := index.Range{First: 81, Last: 120}
	return map[string]indexCase{
		"all good": {nil, 5, 5, "", "", ""},
		"other times": {forged(81, 120, late), 5, 4, IndexWrong, "counts or times",
			"the index of its entries 81 to 120 is wrong: "},
		"other names":  {forged(81, 120, uid), 5, 4, IndexWrong, "its names", "rollcall log index --check "},
		"other counts": {forged(81, 120, tick), 5, 4, IndexWrong, "counts or times", "log index --check "},
		"the last one": {forged(161, 200, late), 5, 4, IndexWrong, "counts or times", "161 to 200 is wrong: "},
		"of one entry": {forged(205, 205, late), 6, 5, IndexWrong, "counts or times", "205 to 205 is wrong: "},
		"overlapping":  {forged(61, 100, late), 6, 5, IndexWrong, "counts or times", "61 to 100 is wrong: "},
		"good ones that overlap": {func(t *testing.T, dir *index.Dir) {
			forged(61, 100, nil)(t, dir)
			forged(81, 121, nil)(t, dir)
			forged(1, 205, nil)(t, dir)
		}, 8, 8, "", "", ""},
		"too many that overlap": {func(t *testing.T, dir *index.Dir) {
			for last := 121; last < 124; last++ {
				forged(81, last, nil)(t, dir)
			}
			forged(82, 123, late)(t, dir)
		}, 9, 8, IndexDamaged, "4 other parts have its first entry too", "82 to 123 is not used"},
		"of another log": {func(t *testing.T, dir *index.Dir) {
			put(t, dir, partOf(t, entries, 81, 120, [32]byte{7}, nil))
		}, 5, 4, IndexDamaged, "it is not of this log", "81 to 120 is not used"},
		"cut": {func(t *testing.T, dir *index.Dir) {
			if err := os.Truncate(dir.File(third), 200); err != nil {
				t.Fatal(err)
			}
		}, 5, 4, IndexDamaged, "no whole part", "makes it again from the entries"},
		"not a file": {func(t *testing.T, dir *index.Dir) {
			if err := os.Remove(dir.File(third)); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(dir.File(third), 0o700); err != nil {
				t.Fatal(err)
			}
		}, 5, 4, IndexUnread, "not a regular file", "was not checked"},
		"of entries that are not there": {func(t *testing.T, dir *index.Dir) {
			longer := logstest.WellFormed(indexEntries + 5)
			put(t, dir, partOf(t, longer, 201, indexEntries+5, [32]byte{7}, nil))
		}, 6, 5, IndexUnknown, "no entries after entry 205 were read", ""},
		"no directory": {func(t *testing.T, dir *index.Dir) {
			if err := os.RemoveAll(dir.Path()); err != nil {
				t.Fatal(err)
			}
		}, 0, 0, "", "", ""},
	}
}

// tick makes entry 105 a Tick.
func tick(e *eventlog.Entry) {
	if e.Seq == 105 {
		e.Payload = &eventlog.Tick{}
	}
}

// uid gives the results of binds another pod.
func uid(e *eventlog.Entry) {
	if p, ok := e.Payload.(*eventlog.BindResult); ok {
		other := *p
		other.UID = "another"
		e.Payload = &other
	}
}

// late makes an entry later.
func late(e *eventlog.Entry) { e.Time++ }

// TestVerifyComparesTheIndexWithTheEntries forges, damages and misplaces parts of the index of a log, with a writer and
// without one. Each is named, and the log is whole without it.
func TestVerifyComparesTheIndexWithTheEntries(t *testing.T) {
	entries := logstest.WellFormed(indexEntries)
	hashes := hashesOf(t, logstest.Segmented(t, entries, 25))
	for name, tc := range indexCases(entries, hashes) {
		for _, kind := range []string{"still", "live"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				var path string
				if kind == "live" {
					path = servedLog(t, entries, 25, nil)
				} else {
					path = logstest.Segmented(t, entries, 25)
				}
				dir := logs.IndexOf(path)
				for first := 1; first+indexParts-1 <= indexEntries; first += indexParts {
					last := first + indexParts - 1
					if err := dir.Put(partOf(t, entries, first, last, hashes[last], nil)); err != nil {
						t.Fatal(err)
					}
				}
				if tc.leave != nil {
					tc.leave(t, dir)
				}
				report, complaint, end := verified(t, path)
				want := failed
				if tc.say == "" {
					want = whole
				}
				if end != want || !report.Whole || !strings.Contains(complaint, tc.say) {
					t.Errorf("it ends %s, whole is %t, complaint %q", end, report.Whole, complaint)
				}
				got := report.Index
				if tc.parts == 0 {
					if got != nil {
						t.Errorf("%+v", got)
					}
					return
				}
				if got == nil || got.Parts != tc.parts || got.Good != tc.good || len(got.Others) != tc.parts-tc.good {
					t.Fatalf("%+v", got)
				}
				if tc.state != "" &&
					(got.Others[0].State != tc.state || !strings.Contains(got.Others[0].Reason, tc.reason)) {
					t.Errorf("%+v, want it %s because %s", got.Others, tc.state, tc.reason)
				}
			})
		}
	}
}

// The parts of a log whose first entries are archived, and whose archive is not there, are compared as far as their
// entries are there. So are the parts before damage.
func TestVerifyComparesTheIndexOfTheEntriesThatAreThere(t *testing.T) {
	entries := logstest.WellFormed(200)
	path := logstest.Segmented(t, entries, 25)
	hashes := hashesOf(t, path)
	dir := logs.IndexOf(path)
	for last := indexParts; last <= 200; last += indexParts {
		if err := dir.Put(partOf(t, entries, last-indexParts+1, last, hashes[last], nil)); err != nil {
			t.Fatal(err)
		}
	}
	states := func(x *Index) (list []string) {
		for _, p := range x.Others {
			list = append(list, p.State+" "+p.Reason)
		}
		return list
	}
	content, err := os.ReadFile(logstest.SegmentOf(path, 151))
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(content)
	copy(damaged, make([]byte, len(damaged)))
	if err := os.WriteFile(logstest.SegmentOf(path, 151), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	report, _, _ := verified(t, path)
	if got, want := states(report.Index), []string{"not compared no entries after entry 150 were read",
		"not compared no entries after entry 150 were read"}; !slices.Equal(got, want) || report.Index.Good != 3 {
		t.Errorf("with damage: %+v", report.Index)
	}
	if err := os.WriteFile(logstest.SegmentOf(path, 151), content, 0o600); err != nil {
		t.Fatal(err)
	}
	archive := t.TempDir() + "/archive"
	if _, err := boltlog.Archive(path, 101, archive, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(archive, archive+".away"); err != nil {
		t.Fatal(err)
	}
	report, _, _ = verified(t, path)
	if got, want := states(report.Index), slices.Repeat([]string{
		"not compared the entries before entry 101 were not read"}, 3); !slices.Equal(got, want) ||
		report.Index.Good != 2 {
		t.Errorf("archived: %+v", report.Index)
	}
}

// Parts of the size that writers make are checked in several chunks, across segments.
func TestVerifyComparesPartsOfTheUsualSize(t *testing.T) {
	const n = 2*logs.IndexSpan + 1000
	entries := logstest.WellFormed(n)
	path := logstest.Segmented(t, entries, 30000)
	hashes := hashesOf(t, path)
	dir := logs.IndexOf(path)
	for _, r := range [][2]int{
		{1, logs.IndexSpan}, {logs.IndexSpan + 1, 2 * logs.IndexSpan}, {2*logs.IndexSpan + 1, n},
	} {
		if err := dir.Put(partOf(t, entries, r[0], r[1], hashes[r[1]], nil)); err != nil {
			t.Fatal(err)
		}
	}
	report, complaint, end := verified(t, path)
	if end != whole || report.Index == nil || report.Index.Good != 3 || report.Index.Parts != 3 {
		t.Errorf("it ends %s, %+v, %s", end, report.Index, complaint)
	}
}
