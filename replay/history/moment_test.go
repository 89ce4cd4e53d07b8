package history_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
)

func TestAMomentIsAnEntryOrATime(t *testing.T) {
	entries := logstest.WellFormed(90)
	start := time.Date(2026, 1, 2, 23, 0, 0, 0, time.UTC)
	for i := range entries {
		entries[i].Time = eventlog.TimeOf(start.Add(time.Duration(i) * time.Minute)) // to 00:29 of the next day
	}
	var notes []string
	log, err := logs.Options{Report: func(note string) { notes = append(notes, note) }}.Open(t.Context(),
		logstest.Segmented(t, entries, 40))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	plain := history.Plain(log, log.Registry())
	for text, want := range map[string]uint64{
		"7": 7, "2026-01-02T23:05:00Z": 6, "2026-01-03T00:05:00+01:00": 6, "2026-01-02 23:05": 6,
		"2026-01-02T23:05": 6, "2026-01-02 23:05:30": 6, "23:05": 6, "23:05:59.5": 6, "00:03": 64, "00:03:01": 64,
		"-1m": 89, "-29m30s": 60, "2026-01-03": 61, "2027-01-01": 90,
	} {
		m, err := history.ParseMoment(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		notes = nil
		got, err := log.EntryAt(t.Context(), &m)
		if err != nil || got != want {
			t.Errorf("%s is entry %d, %v, want %d", text, got, err, want)
		}
		for name, source := range map[string]history.Source{"indexed": log, "plain": plain} {
			p, err := history.New(source, history.Options{}).Resolve(t.Context(), &m)
			if err != nil || p.Seq != want || p.Time != entries[want-1].Time {
				t.Errorf("%s, %s log: %+v, %v, want entry %d", text, name, p, err, want)
			}
		}
		if isTime := text != "7"; isTime && (len(notes) != 1 ||
			!strings.Contains(notes[0], fmt.Sprintf("taken for it is entry %d, of 2026-01-0", want))) {
			t.Errorf("%s: reported %q", text, notes)
		}
	}
	for _, text := range []string{"12:00", "-3h", "2026-01-01", "2026-01-02T22:59:59Z"} {
		m, err := history.ParseMoment(text)
		var request *logs.RequestError
		if err == nil {
			_, err = log.EntryAt(t.Context(), &m)
		}
		if !errors.As(err, &request) {
			t.Errorf("%s: want that the log has no such time, got %v", text, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "-", "yesterday", "25:00", "14:60", "2026-13-01", "1960-01-01",
		"-0s"} {
		if m, err := history.ParseMoment(text); err == nil {
			t.Errorf("%q is taken for %+v", text, m)
		}
	}
}

// TestTheFirstEntrySinceATimeIsTheOneThatReadingAllFinds compares the search with every entry.
// TestATimeOfDayThatBeginsARangeIsBeforeItsEnd has a log of 45 hours, so that a time of day is there twice.
func TestATimeOfDayThatBeginsARangeIsBeforeItsEnd(t *testing.T) {
	entries := logstest.WellFormed(90)
	start := time.Date(2026, 1, 2, 23, 0, 0, 0, time.UTC)
	for i := range entries {
		entries[i].Time = eventlog.TimeOf(start.Add(time.Duration(i) * 30 * time.Minute))
	}
	log, err := logs.Options{}.Open(t.Context(), logstest.Segmented(t, entries, 40))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for until, want := range map[string]string{"": "2026-01-04T10:00:00Z", "22:00": "2026-01-03T10:00:00Z",
		"12:00": "2026-01-04T10:00:00Z", "2026-01-03T11:00:00Z": "2026-01-03T10:00:00Z", "9": "2026-01-04T10:00:00Z"} {
		var from, to history.Moment
		if err := from.Set("10:00"); err != nil {
			t.Fatal(err)
		}
		if until != "" {
			if err := to.Set(until); err != nil {
				t.Fatal(err)
			}
		}
		from.Begins(&to)
		_, at, err := from.In(t.Context(), log)
		if got := at.Std().Format(time.RFC3339); err != nil || got != want {
			t.Errorf("from 10:00 until %s begins at %s, %v, want %s", until, got, err, want)
		}
	}
}

func TestTheFirstEntrySinceATimeIsTheOneThatReadingAllFinds(t *testing.T) {
	r := replaytest.Record(t, 50)
	all := naive(t, r)
	for i, source := range sources(t, r) {
		log := history.New(source, history.Options{})
		for _, e := range all {
			for _, at := range []eventlog.Time{e.Time, e.Time + 1} {
				want := r.Last + 1
				if j := slices.IndexFunc(all, func(o eventlog.Entry) bool { return o.Time >= at }); j >= 0 {
					want = all[j].Seq
				}
				if got, err := log.FirstSince(t.Context(), at); err != nil || got != want {
					t.Fatalf("source %d: the first entry since %v is %d (%v), want %d", i, at, got, err, want)
				}
			}
		}
	}
}
