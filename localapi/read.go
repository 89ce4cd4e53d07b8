package localapi

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

const (
	// reopenTime is how long a reader whose scheduler tells no more waits for the log to be let go of, or served again.
	reopenTime = 5 * time.Second
	// reopenEvery is how long it waits between two tries.
	reopenEvery = 20 * time.Millisecond
	// maxStuck is how often the log is reopened at one and the same entry.
	maxStuck = 3
)

// Read implements eventlog.Log.
func (j *Joined) Read(from uint64) iter.Seq2[eventlog.Entry, error] {
	return read(j, from, (*boltlog.Log).Read, func(r eventlog.Record) (eventlog.Entry, error) {
		e, _, err := eventlog.DecodeRecord(r.Bytes)
		if err != nil {
			err = &eventlog.DamagedError{Path: j.client.path, Seq: r.Seq, Err: err}
		}
		return e, err
	})
}

// Records is Read without decoding the entries, as that of boltlog.Log.
func (j *Joined) Records(from uint64) iter.Seq2[eventlog.Record, error] {
	return read(j, from, (*boltlog.Log).Records, func(r eventlog.Record) (eventlog.Record, error) { return r, nil })
}

// A reading goes through a joined log, from one part of it to the next.
type reading[T any] struct {
	log    *Joined
	next   uint64 // the entry to yield next
	sealed func(*boltlog.Log, uint64) iter.Seq2[T, error]
	decode func(eventlog.Record) (T, error)
	yield  func(T, error) bool

	seen  uint64   // the last entry that a scheduler told
	hash  [32]byte // its hash
	stuck int      // how often it was the last one
}

// read is Read or Records: sealed reads what stands in files, decode what is told.
func read[T any](j *Joined, from uint64, sealed func(*boltlog.Log, uint64) iter.Seq2[T, error], decode func(eventlog.Record) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := &reading[T]{log: j, next: max(from, 1), sealed: sealed, decode: decode, yield: yield}
		for r.next <= j.last {
			p := j.part()
			again, err := r.through(p)
			if again && err != nil {
				err = r.reopen(p, err)
			}
			if err != nil {
				var none T
				yield(none, err)
			}
			if !again || err != nil {
				return
			}
		}
	}
}

// through reads a part to its end, and says whether to go on in another one: with a *brokenOffError.
func (r *reading[T]) through(p *part) (again bool, err error) {
	if err := r.sameAs(p); err != nil {
		return false, err
	}
	if r.next <= p.sealed || !p.told {
		for v, err := range r.sealed(p.log, r.next) {
			if !r.yield(v, err) || err != nil {
				return false, nil
			}
			if r.next++; r.next > r.log.last {
				return false, nil
			}
		}
	}
	if !p.told {
		return false, &eventlog.DamagedError{Path: r.log.dir, Seq: p.sealed + 1,
			Err: fmt.Errorf("the log ends with entry %d, but its scheduler said that it had %d", p.sealed, r.log.last)}
	}
	// All that are told, so that their chain reaches back to what was read here.
	for rec, err := range r.log.client.records(p.sealed+1, r.log.last, p.prev) {
		var broken *brokenOffError
		if errors.Is(err, errSilent) {
			return false, fmt.Errorf("entry %d: the scheduler (process %d) that writes to %s tells no more: it has not ended, and sent nothing for %v. "+
				"See whether it, or its disk, hangs, and run the command again when it answers or has ended", max(r.seen, p.sealed)+1, p.pid, r.log.dir, idleTime)
		}
		if err != nil {
			return errors.As(err, &broken), err
		}
		if rec.Seq == r.seen && rec.Hash != r.hash {
			return false, r.other()
		}
		if rec.Seq > r.seen {
			r.seen, r.hash, r.stuck = rec.Seq, rec.Hash, 0
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

// sameAs sees that what was told last is what p has.
func (r *reading[T]) sameAs(p *part) error {
	if r.seen == 0 || r.seen > p.sealed {
		return nil
	}
	hash, err := p.log.RecordHash(r.seen)
	if err == nil && hash != r.hash {
		err = r.other()
	}
	return err
}

func (r *reading[T]) other() error {
	return &eventlog.DamagedError{Path: r.log.dir, Seq: r.seen, Err: errors.New("it is another entry than its scheduler had told before it ended")}
}

// reopen goes on behind a part whose scheduler told no more.
func (r *reading[T]) reopen(p *part, broken error) error {
	err := errors.New("it breaks off again and again")
	if r.stuck++; r.stuck <= maxStuck {
		err = r.log.reopen(p)
	}
	if err != nil && r.log.client.ctx.Err() != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w; and the rest of %s cannot be had (%w): run the command again when its scheduler has ended, or answers again",
			max(r.seen, p.sealed)+1, broken, r.log.dir, err)
	}
	return nil
}

// reopen finds the log's new part after old broke off: its files, if nobody writes to it any more, or whoever does.
// A scheduler that ends stops telling before it lets go of the log, and one that begins takes it before it tells.
func (j *Joined) reopen(old *part) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for began := time.Now(); j.now == old; time.Sleep(reopenEvery) {
		if j.closed {
			return eventlog.ErrClosed
		}
		if err := j.client.ctx.Err(); err != nil {
			return err
		}
		next, err := j.reopened()
		if err == nil {
			j.before, j.now = append(j.before, old.log), next
		} else if time.Since(began) > reopenTime {
			return err
		}
	}
	return nil
}

func (j *Joined) reopened() (*part, error) {
	log, err := j.now.log.Reopen()
	if err != nil {
		return nil, err
	}
	var next *part
	if log.Live() {
		next, _, err = j.join(log)
	} else {
		next, err = newPart(log)
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return next, nil
}
