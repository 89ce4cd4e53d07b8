package eventlog_test

import (
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

func TestMemoryConforms(t *testing.T) {
	logtest.Run(t, func(*testing.T) (eventlog.Log, func() eventlog.Log) { return eventlog.NewMemory(), nil })
}

// A memory log fails never by itself; the layer over it is what tests of the engine put their faults into.
func TestMemoryConformsWithFaults(t *testing.T) {
	logtest.RunFaults(t, func(*testing.T) logtest.Faulty { return logtest.WithFaults(eventlog.NewMemory()) })
}
