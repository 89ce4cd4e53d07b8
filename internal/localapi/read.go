package localapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

const (
	// reopenTime is the time that a reader whose scheduler stopped sending waits for the log to be released or served
	// again. A disconnected reader waits as long for a place.
	reopenTime = 5 * time.Second
	// reopenEvery is the pause between two attempts.
	reopenEvery = 20 * time.Millisecond
	// maxStuck is the largest number of times that the log is reopened at the same entry.
	maxStuck = 3
)

// Read implements eventlog.Reader.
func (j *Joined) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return read(ctx, j, from, Sealed.Read, func(r eventlog.Record) (eventlog.Entry, error) {
		e, _, err := eventlog.DecodeRecord(r.Bytes)
		if err != nil {
			err = eventlog.DamageAt(j.client.path, r.Seq, err)
		}
		return e, err
	})
}

// Records implements eventlog.Reader.
func (j *Joined) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return read(ctx, j, from, Sealed.Records, asTold)
}

func asTold(r eventlog.Record) (eventlog.Record, error) { return r, nil }

// within returns ctx, made to end also when Join's context ends.
func (j *Joined) within(ctx context.Context) (_ context.Context, cancel func()) {
	both, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(j.ctx, func() { end(context.Cause(j.ctx)) })
	return both, func() {
		stop()
		end(nil)
	}
}

// A reading goes through a joined log, from one part of it to the next.
type reading[T any] struct {
	ctx    context.Context
	log    *Joined
	next   uint64 // the entry to yield next
	last   uint64 // the last one to yield
	sealed func(Sealed, context.Context, uint64) iter.Seq2[T, error]
	decode func(eventlog.Record) (T, error)
	yield  func(T, error) bool

	seen  uint64   // the last entry received from a scheduler
	hash  [32]byte // its hash
	by    *part    // its source
	stuck int      // the number of times that it was the last one
	begun bool     // it does not count as a newcomer, which does not wait for a place: it received records, or follows
	// crowded is the time since which it has waited for a place, the zero time if it has one.
	crowded time.Time
	ended   bool // with an error, or because it has yielded all
}

// read is Read or Records: sealed reads from files, decode decodes received records.
func read[T any](
	ctx context.Context, j *Joined, from uint64,
	sealed func(Sealed, context.Context, uint64) iter.Seq2[T, error], decode func(eventlog.Record) (T, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := j.within(ctx)
		defer cancel()
		newReading(ctx, j, from, sealed, decode, yield).run()
	}
}

// newReading begins a reading of the entries from from up to j.last.
func newReading[T any](
	ctx context.Context, j *Joined, from uint64,
	sealed func(Sealed, context.Context, uint64) iter.Seq2[T, error], decode func(eventlog.Record) (T, error),
	yield func(T, error) bool,
) *reading[T] {
	r := &reading[T]{ctx: ctx, log: j, next: max(from, 1), last: j.last, sealed: sealed, decode: decode}
	r.yield = func(v T, err error) bool {
		goOn := yield(v, err)
		r.ended = r.ended || !goOn || err != nil
		return goOn
	}
	return r
}

// run yields the entries from next to last.
func (r *reading[T]) run() {
	for r.next <= r.last && !r.ended {
		p := r.log.part()
		again, err := r.through(p)
		var crowded *crowdedError
		switch {
		case !again || err == nil:
		case errors.As(err, &crowded):
			err = r.waitForPlace(p, err)
		default:
			err = r.reopen(p, err)
		}
		if err != nil {
			var none T
			r.yield(none, err)
		}
		if !again {
			return
		}
	}
}

// through reads a part to its end. again reports whether to continue: in another part after a *brokenOffError, in the
// same one after a *crowdedError.
func (r *reading[T]) through(p *part) (again bool, err error) {
	if err := r.sameAs(p); err != nil {
		return false, err
	}
	if r.next <= p.end.Seq || !p.told {
		for v, err := range r.sealed(p.log, r.ctx, r.next) {
			if !r.yield(v, err) || err != nil {
				return false, nil
			}
			if r.next++; r.next > r.last {
				return false, nil
			}
		}
	}
	if !p.told {
		return false, &eventlog.DamagedError{Path: r.log.dir, Seq: p.end.Seq + 1,
			Err: fmt.Errorf("the log ends with entry %d, but its scheduler said that it had %d", p.end.Seq, r.last)}
	}
	// All received records count, so that their chain reaches back to the entries read here, except for the ones that
	// p sent before.
	end := p.end
	if r.by == p && r.seen > end.Seq {
		end = eventlog.Chain{Seq: r.seen, Hash: r.hash}
	}
	for rec, err := range r.log.client.records(r.ctx, end, r.last) {
		if err != nil {
			return r.onward(p, err)
		}
		r.begun, r.crowded = true, time.Time{}
		if rec.Seq == r.seen && rec.Hash != r.hash {
			return false, r.other()
		}
		if rec.Seq > r.seen {
			r.seen, r.hash, r.by, r.stuck = rec.Seq, rec.Hash, p, 0
		}
		if rec.Seq < r.next {
			continue
		}
		v, err := r.decode(rec)
		if !r.yield(v, err) || err != nil {
			return false, nil
		}
		r.next++
	}
	return false, nil
}

// onward reports whether to continue after p's scheduler stopped sending. Otherwise it returns the error with which
// the reading ends.
func (r *reading[T]) onward(p *part, err error) (again bool, _ error) {
	var broken *brokenOffError
	var crowded *crowdedError
	if errors.Is(err, errSilent) {
		return false, fmt.Errorf("entry %d: the scheduler (process %d) that writes to %s tells no more: "+
			"it has not ended, and sent nothing for %v. See whether it, or its disk, hangs, "+
			"and run the command again when it answers or has ended",
			max(r.seen, p.end.Seq)+1, p.pid, r.log.dir, idleTime)
	}
	return errors.As(err, &broken) || r.begun && errors.As(err, &crowded), err
}

// sameAs checks that p has the last received record.
func (r *reading[T]) sameAs(p *part) error {
	if r.seen == 0 || r.seen > p.end.Seq {
		return nil
	}
	hash, err := p.log.RecordHash(r.ctx, r.seen)
	if err == nil && hash != r.hash {
		err = r.other()
	}
	return err
}

func (r *reading[T]) other() error {
	return &eventlog.DamagedError{Path: r.log.dir, Seq: r.seen,
		Err: errors.New("it is another entry than its scheduler had told before it ended")}
}

// waitForPlace waits until the reader may have ended that took the place of this one, which was disconnected.
func (r *reading[T]) waitForPlace(p *part, crowded error) error {
	if r.crowded.IsZero() {
		r.crowded = time.Now()
	}
	if time.Since(r.crowded) > reopenTime {
		return fmt.Errorf("entry %d: cut off, because no entry was taken for too long, and no place has become free "+
			"for %v: %w", max(r.seen, p.end.Seq)+1, reopenTime, crowded)
	}
	select {
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	case <-time.After(reopenEvery):
		return nil
	}
}

// reopen continues after a part whose scheduler stopped sending.
func (r *reading[T]) reopen(p *part, broken error) error {
	err := errors.New("it breaks off again and again")
	if r.stuck++; r.stuck <= maxStuck {
		err = r.log.reopen(r.ctx, p)
	}
	if err != nil && r.ctx.Err() != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w; and the rest of %s cannot be had (%w): "+
			"run the command again when its scheduler has ended, or answers again",
			max(r.seen, p.end.Seq)+1, broken, r.log.dir, err)
	}
	return nil
}

// reopen finds where to continue after old broke off. If its scheduler answers, it is old again: the scheduler cuts off
// a slow reader. Otherwise it is a new part: the log's files if they have no writer any longer, or the next writer. A
// scheduler that ends stops serving before it releases the log, and one that begins takes the log before it serves.
func (j *Joined) reopen(ctx context.Context, old *part) error {
	if info, err := j.client.info(ctx); err == nil && info.Instance == old.by {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for began := time.Now(); j.now == old; time.Sleep(reopenEvery) {
		if j.closed {
			return eventlog.ErrClosed
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		next, err := j.reopened(ctx)
		if err == nil {
			j.before, j.now = append(j.before, old.log), next
		} else if time.Since(began) > reopenTime {
			return err
		}
	}
	return nil
}

func (j *Joined) reopened(ctx context.Context) (*part, error) {
	log, err := j.open()
	if err != nil {
		return nil, err
	}
	var next *part
	if log.Live() {
		next, _, err = j.join(ctx, log)
	} else {
		next, err = newPart(ctx, log)
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return next, nil
}
