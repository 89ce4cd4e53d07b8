package survey

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// indexed writes the index of the first entries of a log, in parts of so many, and returns their ranges.
func indexed(t *testing.T, path string, entries []eventlog.Entry, span int) (ranges []index.Range) {
	t.Helper()
	log, err := logs.Options{}.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var b index.Builder
	for _, e := range entries {
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
		if b.Len() < span {
			continue
		}
		hash, err := log.RecordHash(t.Context(), e.Seq)
		if err != nil {
			t.Fatal(err)
		}
		p := b.Part(hash)
		if err := logs.IndexOf(path).Put(p); err != nil {
			t.Fatal(err)
		}
		ranges = append(ranges, index.Range{First: p.First, Last: p.Last})
	}
	return ranges
}

// told takes the survey of a log. It returns with it the number of entries that its index had to read, and the reports.
func told(t *testing.T, path string) (r *Report, read uint64, reported string) {
	t.Helper()
	log, err := logs.Options{Report: func(message string) { reported += message + "\n" }}.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if r, err = Take(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	x, err := log.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r, x.(*logs.Index).Read(), reported
}

func TestInfoIsTheSameWithAndWithoutAnIndex(t *testing.T) {
	entries := logstest.WellFormed(200)
	path := logstest.Segmented(t, entries, 40)
	want, read, _ := told(t, path)
	if read != 200 {
		t.Errorf("%d entries were read of a log without an index", read)
	}
	same := func(what string, entriesRead uint64, says string) {
		t.Helper()
		got, read, reported := told(t, path)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v\nwithout an index:\n%+v", what, got, want)
		}
		if read != entriesRead {
			t.Errorf("%s: %d entries were read, want %d", what, read, entriesRead)
		}
		if says == "" && reported != "" || !strings.Contains(reported, says) {
			t.Errorf("%s: reported is %q, want %q", what, reported, says)
		}
	}
	ranges := indexed(t, path, entries, 60)
	same("with an index of 180 entries", 20, "")

	dir := logs.IndexOf(path)
	part, err := os.ReadFile(dir.File(ranges[1]))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.File(ranges[1]), part[:len(part)-40], 0o600); err != nil {
		t.Fatal(err)
	}
	same("with a part that is cut", 20, "") // its head is whole, and all that is asked for
	if err := os.WriteFile(dir.File(ranges[1]), part[:90], 0o600); err != nil {
		t.Fatal(err)
	}
	same("with a part that is cut within its head", 80, "the index of entries 61 to 120 is not used")
	if err := os.Remove(dir.File(ranges[1])); err != nil {
		t.Fatal(err)
	}
	same("without the part in the midst", 80, "")

	others := logstest.WellFormed(200)
	for i := range others {
		others[i].Time++
	}
	other := logstest.Segmented(t, others, 40)
	indexed(t, other, others, 60)
	foreign, err := os.ReadFile(logs.IndexOf(other).File(ranges[1]))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.File(ranges[1]), foreign, 0o600); err != nil {
		t.Fatal(err)
	}
	same("with a part of another log", 80, "it is not of this log")
}
