package logs_test

import (
	"context"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/logs"
)

// ticks appends entries up to one.
func ticks(t *testing.T, log eventlog.Log, upTo uint64) {
	t.Helper()
	last, err := log.Last()
	if err != nil {
		t.Fatal(err)
	}
	for last < upTo {
		var batch []eventlog.Entry
		for n := min(upTo-last, 4096); uint64(len(batch)) < n; {
			batch = append(batch, eventlog.Entry{Seq: last + uint64(len(batch)) + 1, Epoch: 1,
				Time: eventlog.Time(last + uint64(len(batch)) + 1), Payload: &eventlog.Tick{}})
		}
		if err := log.Append(context.Background(), last, batch); err != nil {
			t.Fatal(err)
		}
		last += uint64(len(batch))
	}
}

// entriesRead returns how many entries are read for the index of a log.
func entriesRead(t *testing.T, path string) (*logs.Index, uint64) {
	t.Helper()
	log, err := logs.Options{}.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	x, err := log.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return x.(*logs.Index), x.(*logs.Index).Read()
}

// A writer leaves the index of all whole spans; what it could not write, and what is behind, log index writes.
func TestAWriterWritesTheIndexOfItsLog(t *testing.T) {
	path := t.TempDir() + "/a.log"
	kept, err := logs.KeepOptions{}.Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ticks(t, kept, 2*logs.IndexSpan+100)
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	x, read := entriesRead(t, path)
	if read != 100 {
		t.Errorf("%d entries are read for the index, want the last 100", read)
	}
	for _, at := range []uint64{1, 5, logs.IndexSpan, logs.IndexSpan + 1, 2*logs.IndexSpan + 50} {
		if seq, err := x.Until(t.Context(), eventlog.Time(at)); seq != at || err != nil {
			t.Errorf("the last entry up to time %d is %d (%v)", at, seq, err)
		}
	}
	if seq, err := x.Until(t.Context(), 1<<50); seq != 2*logs.IndexSpan+100 || err != nil {
		t.Errorf("the last entry is %d (%v)", seq, err)
	}

	kept, err = logs.KeepOptions{}.Continue(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ticks(t, kept, 3*logs.IndexSpan)
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	if _, read := entriesRead(t, path); read != 0 {
		t.Errorf("%d entries are read for the index of a log that was gone on with", read)
	}
	if _, err := logs.IndexOf(path).Drop(logs.IndexSpan + 1); err != nil {
		t.Fatal(err)
	}
	log, err := logs.Options{}.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	done, err := log.MakeIndex(t.Context(), logs.Indexing{})
	if err != nil || done.Parts != 1 || done.Kept != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	ranges, err := logs.IndexOf(path).List()
	if err != nil || len(ranges) != 3 || ranges[0] != (index.Range{First: 1, Last: logs.IndexSpan}) {
		t.Errorf("%v, %v", ranges, err)
	}
}
