package simulate

import (
	"context"
	"errors"
	"iter"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// noLog remembers its last entry and nothing else.
type noLog struct{ last uint64 }

// NoLog returns the log of a run that keeps none: it takes entries and holds none.
func NoLog() engine.Log { return new(noLog) }

// Append implements engine.Log.
func (l *noLog) Append(_ context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	if expectedLast != l.last {
		return &eventlog.ConflictError{Expected: expectedLast, Actual: l.last}
	}
	l.last += uint64(len(entries))
	return nil
}

// Read implements engine.Log.
func (l *noLog) Read(context.Context, uint64) iter.Seq2[eventlog.Entry, error] {
	return func(func(eventlog.Entry, error) bool) {}
}

// Last implements engine.Log.
func (l *noLog) Last() (uint64, error) { return l.last, nil }

// Limit implements engine.Log.
func (l *noLog) Limit() eventlog.Limit { return eventlog.WideLimit }

// RecordHash implements engine.Log. There are no records.
func (l *noLog) RecordHash(context.Context, uint64) ([32]byte, error) {
	return [32]byte{}, errors.New("a run that keeps no log has no records")
}

// CheckConfig starts the plugins with a configuration: only they can find some errors in their arguments.
func CheckConfig(registry framework.Registry, config []byte) error {
	_, err := engine.Open(context.Background(), NoLog(), workload.Start,
		engine.Options{Registry: registry, Config: config})
	if why := errors.Unwrap(err); why != nil {
		return why // without the number of the entry: there is no log yet
	}
	return err
}
