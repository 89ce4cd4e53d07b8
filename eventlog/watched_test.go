package eventlog_test

import (
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// The log of a scheduler has no record of a recorder's format.
func TestOnlyARecorderWritesItsFormat(t *testing.T) {
	watched := &eventlog.Watched{Full: true, Positions: []eventlog.Position{{Resource: eventlog.Pods, Version: "7"}}}
	rec := encode(t, eventlog.Entry{Seq: 1, Payload: watched}, [32]byte{})
	if rec[0] != 11 {
		t.Errorf("it has format %d", rec[0])
	}
	rec[0] = eventlog.SchedulerFormat
	if _, _, err := eventlog.DecodeRecord(reseal(rec)); err == nil {
		t.Error("a Watched of the scheduler's format is read")
	}
	tick := raw(eventlog.KindTick)
	tick[0] = 11
	if _, _, err := eventlog.DecodeRecord(reseal(tick)); err == nil {
		t.Error("a tick of the recorder's format is read")
	}
	for name, p := range map[string]*eventlog.Watched{
		"nothing": {},
		"twice": {Positions: []eventlog.Position{
			{Resource: "pods", Version: "1"}, {Resource: "pods", Version: "2"},
		}},
		"order":      {Missing: []eventlog.Missing{{Resource: "pods"}, {Resource: "nodes"}}},
		"no version": {Positions: []eventlog.Position{{Resource: "pods"}}},
		"unicorns":   {Missing: []eventlog.Missing{{Resource: "unicorns"}}},
	} {
		if rec, err := eventlog.AppendRecord(nil, eventlog.Entry{Seq: 1, Payload: p}, [32]byte{}); err == nil {
			t.Errorf("%s: %+v is written as %x", name, p, rec)
		}
	}
}
