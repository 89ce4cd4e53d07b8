package jetstream

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// AddressOf returns where a log is.
func AddressOf(log eventlog.Log) *Address { return log.(*Log).at }

// SetDialer lets connections of a log that is opened at a be made by dialer.
func SetDialer(a *Address, dialer func(role string) nats.CustomDialer) { a.dialer = dialer }

// Reconnects returns how often the connection that a log appends with came back.
func Reconnects(log eventlog.Log) uint64 { return log.(*Log).writes.reconnects.Load() }

// Hasten bounds the time that a log waits for answers to its appends.
func Hasten(log eventlog.Log, d time.Duration) {
	l := log.(*Log)
	hasty := *l.at
	hasty.Patience = d
	l.writes.at = &hasty
}

// TrimTo is Trim with a margin of its own.
func TrimTo(ctx context.Context, a *Address, before, margin uint64) (Trimmed, error) {
	return a.trim(ctx, before, margin)
}
