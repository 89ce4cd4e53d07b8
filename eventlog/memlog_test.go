package eventlog_test

import (
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

func TestMemoryConforms(t *testing.T) {
	logtest.Run(t, func(*testing.T) (eventlog.Log, func() eventlog.Log) { return eventlog.NewMemory(), nil })
}
