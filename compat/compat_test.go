package compat

import (
	"bytes"
	"context"
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

func TestLogsOfBeforeAreDecidedAsTheyWere(t *testing.T) {
	Each(t, "testdata", func(t *testing.T, l *Log) {
		m := l.Start(t)
		report, err := replay.Verify(
			t.Context(),
			l.Entries(context.Background(), m.Seq()+1),
			replay.Options{Registry: l.Registry, Start: m},
		)
		if err != nil {
			t.Fatal(err)
		}
		if !report.Identical() || report.Decisions == 0 && l.First > 1 {
			t.Errorf("%d decisions, %d divergences: %v", report.Decisions, report.Diverged, report.Divergences)
		}
	})
}
