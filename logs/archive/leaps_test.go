package archive

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// A clock that is far ahead for a moment stamps all later entries with its time, because times never go back. Nothing
// goes because of that, and it is said.
func TestAClockThatIsSetAheadRemovesNothing(t *testing.T) {
	entries := logstest.WellFormed(60)
	for i := range entries {
		entries[i].Time = eventlog.Time(i) * eventlog.Time(time.Minute)
		if i >= 50 {
			entries[i].Time += eventlog.Time(10 * 365 * 24 * time.Hour)
		}
	}
	path := logstest.Segmented(t, entries, 6)
	report, err := Retain(t.Context(), path, Retention{Age: 720 * time.Hour})
	want := []Leap{{Seq: 51, By: 10*365*24*time.Hour + time.Minute}}
	if err != nil || report.Before != 0 || !reflect.DeepEqual(report.Leaps, want) {
		t.Errorf("%+v, error %v, want nothing to go and the leaps %v", report, err, want)
	}
	if files, err := boltlog.OwnFiles(path); err != nil || len(files) != 10 {
		t.Errorf("%d segments are left, error %v", len(files), err)
	}
	// Entries that are older by the other entries' times are removed all the same; there is no snapshot for it here.
	report, err = Retain(t.Context(), path, Retention{Age: 24*time.Hour + 30*time.Minute})
	if err != nil || report.Before != 25 || report.Snapshot != 0 {
		t.Errorf("%+v, error %v, want entries before 25 to go", report, err)
	}
}

// The search finds the same as looking at every entry.
func TestLeapsAreThoseThatEveryEntryShows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, 1, time.Second, time.Hour, maxGap, maxGap + 1,
			300 * maxGap}), 1, 200).Draw(t, "gaps")
		times, want := []eventlog.Time{0}, []Leap(nil)
		for _, gap := range gaps {
			if gap > maxGap {
				want = append(want, Leap{Seq: uint64(len(times)), By: gap})
			}
			times = append(times, times[len(times)-1].Add(gap))
		}
		at := func(seq uint64) (eventlog.Time, error) { return times[seq], nil }
		last := instant{uint64(len(gaps)), times[len(gaps)]}
		got, err := leapsBetween(at, instant{}, last)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("gaps %v: leaps %v, error %v, want %v", gaps, got, err, want)
		}
		var age time.Duration
		for _, gap := range gaps {
			age += min(gap, maxGap)
		}
		if a := (&ages{last, got}); a.of(instant{}) != age {
			t.Fatalf("gaps %v: the first entry is %s old, want %s", gaps, a.of(instant{}), age)
		}
	})
}
