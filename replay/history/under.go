package history

import (
	"context"
	"fmt"
	"iter"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Under returns a log of a cluster that others schedule, with another configuration. The states that it gives answer
// what plugins of that configuration say. An epoch that decides is an *UnderError: its decisions were made under its
// own configuration.
func Under(source Source, config []byte) Source { return under{source, config} }

type under struct {
	Source
	config []byte
}

// UnderError is the error for an epoch that decides, whose configuration cannot be replaced.
type UnderError struct{ Epoch uint64 }

// Error implements error.
func (e *UnderError) Error() string {
	return fmt.Sprintf("another configuration is for a log without decisions: epoch %d decides with its own", e.Epoch)
}

// Read implements Reader.
func (u under) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range u.Source.Read(ctx, from) {
			if p, ok := e.Payload.(*eventlog.EpochStarted); ok && err == nil {
				other := *p
				other.Config = u.config
				e.Payload, e.Encoding = &other, eventlog.Encoding{}
				if !framework.LoggedRecording(p.Config) {
					err = &UnderError{e.Epoch}
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Restore implements Source.
func (u under) Restore(last uint64) (*scheduler.Machine, error) {
	m, err := u.Source.Restore(last)
	if err != nil || m == nil {
		return m, err
	}
	if !framework.LoggedRecording(m.Config()) {
		return nil, &UnderError{m.Epoch()}
	}
	return m, scheduler.Reconfigure(m, u.config)
}
