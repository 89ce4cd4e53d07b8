package compat

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay"
)

func TestLogsOfBeforeGiveTheRecordedStates(t *testing.T) {
	Each(t, "testdata", func(t *testing.T, l *Log) {
		l.Run(t, l.Start(t))
		// any order: each by itself
		for seq := range l.Snapshots {
			l.Run(t, l.Restore(t, seq))
		}
	})
}

func TestRecordsOfBeforeAreWrittenAsTheyWere(t *testing.T) {
	Each(t, "testdata", func(t *testing.T, l *Log) {
		for r, err := range l.Records(context.Background(), l.First) {
			if err != nil {
				t.Fatal(err)
			}
			e, before, err := eventlog.DecodeRecord(r.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := eventlog.AppendRecord(nil, e, before); err != nil || !bytes.Equal(again, r.Bytes) {
				t.Fatalf("entry %d is written as other bytes than it was (%v)", e.Seq, err)
			}
		}
	})
}

// undecided are the ends of the names of stories in which no pod comes to a cycle: their gangs are refused before.
// Every other log has decisions to make again.
var undecided = []string{
	"api-bad_value", "api-kueue_without_count", "api-minimum_above_total", "api-objects_of_four_apis",
	"api-two_minimums", "below_minimum-bad_value", "explain-gang_refused",
}

func isUndecided(name string) bool {
	return slices.ContainsFunc(undecided, func(end string) bool { return strings.HasSuffix(name, "/"+end) })
}

func TestLogsOfBeforeAreDecidedAsTheyWere(t *testing.T) {
	Each(t, "testdata", func(t *testing.T, l *Log) {
		recorded := uint64(0)
		for e, err := range l.Entries(context.Background(), l.First) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind() == eventlog.KindDecision {
				recorded++
			}
		}
		if none := isUndecided(t.Name()); none != (recorded == 0) {
			t.Fatalf("the log has %d decisions; one of the stories without any: %v", recorded, none)
		}
		m := l.Start(t)
		report, err := replay.Verify(
			t.Context(),
			l.Entries(context.Background(), m.Seq()+1),
			replay.Options{Registry: l.Registry, Start: m},
		)
		if err != nil {
			t.Fatal(err)
		}
		if !report.Identical() || report.Decisions != recorded {
			t.Errorf("%d of %d decisions, %d divergences: %v",
				report.Decisions, recorded, report.Diverged, report.Divergences)
		}
	})
}
