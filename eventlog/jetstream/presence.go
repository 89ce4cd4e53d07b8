package jetstream

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// The writer of a log answers questions on a subject of its own, so that a standby notices within a second that it has
// gone: when its connection ends, the servers report that nobody answers. That is only a hint of when to try to take
// over the log. The expected sequence of an append keeps two writers apart.

// askEvery is the pause between two questions of a standby to the writer, and the time to wait for an answer.
const askEvery = 200 * time.Millisecond

// goneAfter is the number of consecutive questions without a responder after which the writer counts as gone.
const goneAfter = 4

// writerSubject is the subject on which a log's writer answers.
func writerSubject(subject string) string { return subject + ".writer" }

// Announce makes this Log, which is open for appending, answer with name when a standby asks for the log's writer,
// until it is closed. Two Logs may answer for a moment: that does not show whose appends succeed.
func (l *Log) Announce(name string) error {
	if l.readOnly {
		return eventlog.ErrReadOnly
	}
	_, err := l.writes.nc.Subscribe(writerSubject(l.subject), func(m *nats.Msg) {
		_ = m.Respond([]byte(name)) // without an answer the standby asks again
	})
	return err
}

// Abandoned waits until the writer, which had answered before, has gone, and returns its name. A writer that is only
// slow, or suspended, has not gone, and one that never answered is not known. It ends with ctx's cause when ctx ends,
// and with another error if the servers deny the question.
func (l *Log) Abandoned(ctx context.Context) (name string, err error) {
	silent := 0
	for {
		answer, err := l.askWriter(ctx)
		var denied *deniedError
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err == nil:
			name, silent = answer, 0
		case errors.As(err, &denied), errors.Is(err, nats.ErrConnectionClosed):
			return "", err
		case errors.Is(err, nats.ErrNoResponders):
			silent++
		default: // it may exist
			silent = 0
		}
		if silent >= goneAfter && name != "" {
			return name, nil
		}
		if !pause(ctx, askEvery) {
			return "", context.Cause(ctx)
		}
	}
}

// askWriter asks once.
func (l *Log) askWriter(ctx context.Context) (string, error) {
	subject := writerSubject(l.subject)
	ctx, cancel := within(ctx, askEvery)
	defer cancel()
	ctx, done := l.reads.asking(ctx, subject)
	defer done()
	m, err := l.reads.nc.RequestWithContext(ctx, subject, nil)
	if err != nil {
		if cause := context.Cause(ctx); ctx.Err() != nil {
			err = cause
		}
		return "", err
	}
	return string(m.Data), nil
}
