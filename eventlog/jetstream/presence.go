package jetstream

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// The writer of a log answers questions on a subject of its own, so that a standby learns within a second that it is
// gone: when its connection ends, the servers say that nobody answers. That is a hint of when to try to take the log
// over, and only that: what keeps two writers apart is the expected sequence of an append.

// askEvery is the time that a standby waits between two questions to the writer, and how long for an answer.
const askEvery = 200 * time.Millisecond

// goneAfter is how many questions in a row the servers must say that nobody answers.
const goneAfter = 4

// writerSubject is the subject on which a log's writer answers.
func writerSubject(subject string) string { return subject + ".writer" }

// Announce has this Log, which is open for appending, answer with name until it is closed, when it is asked for the
// log's writer. Two Logs may answer for a moment: that says nothing about which one's appends succeed.
func (l *Log) Announce(name string) error {
	if l.readOnly {
		return eventlog.ErrReadOnly
	}
	_, err := l.writes.nc.Subscribe(writerSubject(l.subject), func(m *nats.Msg) {
		_ = m.Respond([]byte(name)) // without an answer it is asked again
	})
	return err
}

// Abandoned waits until the writer, which had answered before, is gone, and returns its name. A writer that is only
// slow, or suspended, is not gone, and one that never answered is not known. It ends with ctx's cause when ctx ends,
// and with another error if the servers deny it to ask.
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
		default: // it may be there
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
