package jetstream

import (
	"context"
	"errors"
	"fmt"
)

// Reaches reports whether the stream has entry seq by now. Unlike Last it asks the servers. A negative answer is not
// trusted at once: a leader that was cut off may not know yet which entries the others acknowledged.
func (l *Log) Reaches(ctx context.Context, seq uint64) (bool, error) {
	waiting, cancel := within(ctx, min(answerTime, l.at.Patience))
	defer cancel()
	var pauses backoff
	for {
		end, err := l.endNow(ctx, seq)
		if err != nil || end >= seq {
			return err == nil, err
		}
		if !pauses.wait(waiting) {
			return false, context.Cause(ctx)
		}
	}
}

// endNow returns the stream's present last entry, or any entry from enough on if it has that one.
func (l *Log) endNow(ctx context.Context, enough uint64) (uint64, error) {
	info, behind, err := l.reads.newest(ctx, leaderTime)
	if err = errors.Join(err, behind); err != nil { // a server that only lags has lost nothing
		return 0, err
	}
	if !info.Created.Equal(l.created) {
		return 0, fmt.Errorf("%s: the stream is not the one that was opened: it was made on %s", l.path, info.Created)
	}
	for at := info.State.LastSeq; at > 1; {
		f, err := l.reads.frameAt(ctx, at)
		switch {
		case err != nil:
			return 0, l.explainRead(ctx, enough, err)
		case f.part == f.parts:
			return f.last, nil
		case f.before >= enough || uint64(f.part) >= at:
			return f.before, nil
		}
		at -= uint64(f.part)
	}
	return l.origin.Seq, nil
}
