package jetstream

import (
	"context"
	"errors"
	"time"
)

// errNoAnswer is the cause with which a wait ends.
var errNoAnswer = errors.New("no answer came in time")

// within returns a context that ends after d, because of errNoAnswer.
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

// Between two tries there is first firstPause, then twice as long each time, and lastPause at the most.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// A backoff is the time that tries wait: for an answer, and then until the next one. The zero value is ready.
type backoff struct{ next, answers time.Duration }

// answer returns how long the answer to the next try is waited for: firstAnswer, then twice as long each time, and
// answerTime at the most.
func (b *backoff) answer() time.Duration {
	b.answers = min(max(b.answers*2, firstAnswer), answerTime)
	return b.answers
}

// wait pauses, and reports whether ctx continues.
func (b *backoff) wait(ctx context.Context) bool {
	b.next = min(max(b.next*2, firstPause), lastPause)
	return pause(ctx, b.next)
}
