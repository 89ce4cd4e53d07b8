package localapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// followEvery is the time after which a follower asks the scheduler again for new entries.
const followEvery = 50 * time.Millisecond

// Follow implements eventlog.Follower: it continues after Last, with the entries that the scheduler reports as
// durable. If the scheduler ends, it continues with the one that has taken over the log. If there is none, it ends
// with eventlog.ErrNotFollowed after the log's last entry.
func (j *Joined) Follow(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		ctx, cancel := j.within(ctx)
		defer cancel()
		r := newReading(ctx, j, from, Sealed.Records, asTold, yield)
		for r.run(); !r.ended; r.run() {
			r.begun = true
			var err error
			if r.last, err = j.await(ctx, r.next); err != nil {
				r.yield(eventlog.Record{}, err)
			}
		}
	}
}

// await waits until entry seq exists, and returns the last entry.
func (j *Joined) await(ctx context.Context, seq uint64) (uint64, error) {
	for {
		p := j.part()
		if !p.told && p.end.Seq < seq {
			return 0, fmt.Errorf("log %s: %w: its scheduler has ended, and none has taken it over", j.dir,
				eventlog.ErrNotFollowed)
		}
		if !p.told {
			return p.end.Seq, nil
		}
		info, err := j.client.info(ctx)
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil:
			if rerr := j.reopen(ctx, p); rerr != nil {
				return 0, errors.Join(fmt.Errorf("follow log %s: %w", j.dir, err), rerr)
			}
			continue
		case info.Last >= seq:
			return info.Last, nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(followEvery):
		}
	}
}
