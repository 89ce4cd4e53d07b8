package jetstream

import (
	"context"
	"errors"
	"time"
)

// errNoAnswer is the cause with which a wait ends.
var errNoAnswer = errors.New("no answer came in time")

// within returns a context that ends after d, with errNoAnswer as its cause.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errNoAnswer)
}

// pause waits for d, or until ctx ends; it reports whether ctx continues.
func pause(ctx context.Context, d time.Duration) bool {
	waiting, cancel := within(ctx, d)
	defer cancel()
	<-waiting.Done()
	return ctx.Err() == nil
}

// The pause between two attempts is firstPause at first, then twice as long each time, and lastPause at most.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// A backoff has the times of repeated attempts: the wait for an answer, and the pause until the next one. The zero
// value is ready.
type backoff struct{ next, answers time.Duration }

// answer returns the time to wait for the answer to the next attempt: firstAnswer, then twice as long each time, and
// answerTime at most.
func (b *backoff) answer() time.Duration {
	b.answers = min(max(b.answers*2, firstAnswer), answerTime)
	return b.answers
}

// wait pauses, and reports whether ctx continues.
func (b *backoff) wait(ctx context.Context) bool {
	b.next = min(max(b.next*2, firstPause), lastPause)
	return pause(ctx, b.next)
}
