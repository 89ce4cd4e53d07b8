package eventlog_test

import (
	"errors"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

func TestMemoryConforms(t *testing.T) {
	logtest.Run(t, logtest.Backend{
		Create: func(_ *testing.T, origin eventlog.Origin) eventlog.Log {
			return eventlog.NewMemoryFrom(origin, eventlog.WideLimit)
		},
		ReadOnly: func(_ *testing.T, log eventlog.Log) eventlog.Log { return log.(*eventlog.Memory).ReadOnly() },
		TakeOver: func(_ *testing.T, log eventlog.Log) eventlog.Log { return log.(*eventlog.Memory).TakeOver() },
	})
}

// A memory log never fails by itself; tests of the engine put their faults into the layer over it.
func TestMemoryConformsWithFaults(t *testing.T) {
	logtest.RunFaults(t, func(*testing.T) logtest.Faulty { return logtest.WithFaults(eventlog.NewMemory()) })
}

// TestABatchIsRefusedFromTheFirstByteAboveTheLimit appends what fits exactly, and one byte more.
func TestABatchIsRefusedFromTheFirstByteAboveTheLimit(t *testing.T) {
	entries := logtest.Entries(1, 6)
	var whole eventlog.Batch
	if _, err := whole.Encode(eventlog.Chain{}, entries, eventlog.WideLimit); err != nil {
		t.Fatal(err)
	}
	largest := 0
	for i := range entries {
		largest = max(largest, len(whole.Record(i)))
	}
	fits := eventlog.Limit{Entries: len(entries), Bytes: len(whole.Bytes), Record: largest}
	for _, c := range []struct {
		name   string
		change func(*eventlog.Limit)
		err    any
	}{
		{"it fits", func(*eventlog.Limit) {}, nil},
		{"an entry less", func(l *eventlog.Limit) { l.Entries-- }, new(*eventlog.LimitError)},
		{"a byte less", func(l *eventlog.Limit) { l.Bytes-- }, new(*eventlog.LimitError)},
		{"a byte less for a record", func(l *eventlog.Limit) { l.Record-- }, new(*eventlog.EntryError)},
	} {
		limit := fits
		c.change(&limit)
		_, err := new(eventlog.Batch).Encode(eventlog.Chain{}, entries, limit)
		log := eventlog.NewMemoryFrom(eventlog.Origin{}, limit)
		for what, err := range map[string]error{"a batch": err, "memory": log.Append(t.Context(), 0, entries)} {
			if c.err == nil && err != nil || c.err != nil && !errors.As(err, c.err) {
				t.Errorf("%s: %s: error %v", c.name, what, err)
			}
		}
		if last, err := log.Last(); err != nil || last != 0 && c.err != nil {
			t.Errorf("%s: the last entry is %d, error %v", c.name, last, err)
		}
	}
}
