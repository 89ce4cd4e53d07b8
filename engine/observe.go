package engine

import (
	"errors"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A Commit is what one append made durable. Options.Observe receives every Commit of an epoch: the feed of durable
// entries.
//
// The contract of the feed:
//
//   - Durability: an entry is in a Commit only if its append has succeeded. Nothing of an append that failed is
//     observed, and nothing decided after it.
//   - Order, and no gap: the first entry is the EpochStarted of Open. Each later one has the sequence number that
//     follows the one before it, within a Commit and from one to the next. Each entry is observed once. What came
//     before the epoch stands in the log.
//   - Goroutine: Observe is called from the goroutine that calls Step, Advance, Sync, Await or Close, before that call
//     returns, and never by two at once. A call observes everything that is durable by its end. Open does not call
//     Observe. Close observes what is left, so after Close the feed has every entry that is known to be durable.
//   - Effects: a call observes before it returns its effects, so an observer sees an effect before it can be carried
//     out.
//   - Failure: an error of Observe stops the engine, as a failed append does. The call returns that error as it is, and
//     no effects. The Commit is durable all the same; no other one is observed.
//   - Cost: without an observer, nothing is kept or copied. With one, the headers of the entries are copied once (about
//     80 bytes each) and kept, with their payloads, until the call ends in which they become durable.
//
// Where one Commit ends and the next one starts depends on the speed of the disk. Only the entries, one after the
// other, are the same in every run.
//
// For example, after a call of Advance with two pods that fit, the feed may bring one Commit of entries 7 (pod a), 8
// (pod b), 9 (the decision on a) and 10 (the decision on b), whose Effects are the two binds. It may also bring a
// Commit of 7 to 10 only with the next call: the append had not ended when the first call did.
type Commit struct {
	// Entries are the entries of the append, at least one. The slice belongs to the observer. The payloads belong to
	// the Machine: they may be read until Observe returns, and must not be changed. What another goroutine needs of
	// them must be encoded or copied before that.
	Entries []eventlog.Entry
	// At is when the append had succeeded, by Options.Clock; zero without one.
	At time.Time
	// Effects are those that the call is about to return because these entries are durable. With the first Commit come
	// those that were outstanding when the log was opened, too. There are none with WhenDecided, because effects are
	// then given out before their decision is durable, and none if the call returns an error.
	Effects []scheduler.Effect
}

// Last returns the sequence number of the last entry.
func (c Commit) Last() uint64 { return c.Entries[len(c.Entries)-1].Seq }

// giveOut waits until entry seq is durable, has everything observed that is durable by then, and returns the effects
// that have become due.
func (e *Engine) giveOut(seq uint64) ([]scheduler.Effect, error) {
	if err := e.writer.await(seq); err != nil {
		return nil, e.stop(err)
	}
	commits, durable, err := e.writer.collect()
	if err != nil {
		e.failed = err
		return nil, errors.Join(err, e.observe(commits, nil))
	}
	effects := e.release(durable)
	if err := e.observe(commits, effects); err != nil {
		return nil, err
	}
	return effects, nil
}

// stop notes why nothing more may be done, and has everything observed that is durable.
func (e *Engine) stop(why error) error {
	e.failed = why
	commits, _, _ := e.writer.collect() // why has the writer's error already, or Close returns it
	if err := e.observe(commits, nil); err != nil {
		return errors.Join(why, err)
	}
	return why
}

// observe passes commits on to the observer, with the effects of their decisions.
func (e *Engine) observe(commits []Commit, effects []scheduler.Effect) error {
	if e.opts.Release == WhenDecided {
		effects = nil
	}
	for i, c := range commits {
		n := len(effects)
		for i < len(commits)-1 && n > 0 && effects[n-1].Seq > c.Last() {
			n--
		}
		if n > 0 {
			c.Effects, effects = effects[:n:n], effects[n:]
		}
		if err := e.opts.Observe(c); err != nil {
			e.failed, e.opts.Observe = err, ignore
			return err
		}
	}
	return nil
}

// ignore stands for an observer that has failed.
func ignore(Commit) error { return nil }
