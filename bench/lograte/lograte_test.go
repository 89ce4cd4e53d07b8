package lograte

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestEachSizeOfBatchIsMeasuredAndNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	r, err := Run(t.Context(), Options{Dir: dir, Rounds: 2, Each: time.Microsecond, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Batches) != len(sizes) {
		t.Fatalf("%d sizes of batch, want %d", len(r.Batches), len(sizes))
	}
	for i, b := range r.Batches {
		if b.Entries != sizes[i] || b.Log <= 0 || b.Raw <= 0 || b.Lowest > b.Ratio || b.Ratio > b.Highest {
			t.Errorf("batches of %d: %+v", sizes[i], b)
		}
	}
	if least := uint64(2 * sizes[len(sizes)-1]); r.Read.Entries < least || r.Read.EntriesPerSecond <= 0 {
		t.Errorf("read %+v, want at least %d entries", r.Read, least)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || strings.Count(text.String(), "\n") != 3+len(sizes)+2 {
		t.Errorf("the text is\n%s, error %v", text.String(), err)
	}
}

// TestEveryRecordIsAsLongAsIsSaid checks the records behind the log's first, which begins the epoch.
func TestEveryRecordIsAsLongAsIsSaid(t *testing.T) {
	a := &appender{size: 50, version: "test"}
	a.fill()
	for _, e := range a.entries[1:] {
		record, err := eventlog.AppendRecord(nil, e, [32]byte{})
		if err != nil || len(record) != recordBytes {
			t.Fatalf("entry %d has %d bytes, error %v, want %d", e.Seq, len(record), err, recordBytes)
		}
	}
}

func TestTheMedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{9, 1, 2, 4}, 3}} {
		if got := median(tc.values); got != tc.want {
			t.Errorf("the median of %v is %g, want %g", tc.values, got, tc.want)
		}
	}
}

func TestAMeasurementEndsWhenItIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := Run(ctx, Options{Dir: dir, Rounds: 1, Each: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("want that it was canceled, got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestStreamsAreMeasuredAndRemoved measures a server, with the same sizes, and leaves it without streams.
func TestStreamsAreMeasuredAndRemoved(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	r, err := Run(t.Context(), Options{
		Log: fmt.Sprintf("nats://%s/try?replicas=1", s.Addr()), Rounds: 1, Each: time.Microsecond, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Batches) != len(sizes) || r.RawIs != "plain publish" || strings.Contains(r.Place, "?") {
		t.Errorf("the result is %+v", r)
	}
	if least := uint64(sizes[len(sizes)-1]); r.Read.Entries < least {
		t.Errorf("read %+v, want at least %d entries", r.Read, least)
	}
	if left, err := s.Jsz(nil); err != nil || left.Streams != 0 {
		t.Errorf("%d streams are left, error %v", left.Streams, err)
	}
}
