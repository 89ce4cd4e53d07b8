package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// SetTime sets the time. It is called before every entry is applied. Entities whose backoff has expired become active.
//
// An entity that has been unschedulable or gated for longer than FlushAfter is tried again at the next multiple of
// FlushPeriod, if anything has changed since it came to rest. (These calls are changes: Add, Update, Refresh, Delete,
// Move, Activate, Retry, Recheck, and Park if something came during the attempt.) If nothing has changed, another
// attempt would only repeat the first, because the scheduler is deterministic. Example, with FlushAfter 5m and
// FlushPeriod 30s: an entity rests since 10:00:10, and a node changed at 10:02. It is flushed at 10:05:30.
//
// Entities that a plugin of Options.Outside refused are tried again also if nothing has changed, since the answer may
// be another one. So are gated entities, with Options.GatesByTime. Time never goes back: SetTime panics.
func (q *Queue) SetTime(now eventlog.Time) {
	if now < q.now {
		panic(fmt.Sprintf("queue: time went back from %v to %v", q.now, now))
	}
	q.now = now
	for e := q.backoff.top(); e != nil && e.backoffUntil <= now; e = q.backoff.top() {
		q.activate(e)
	}
	for e := q.resting.first; e != nil && e.stamp != q.changes && q.flushAt(e) <= now; e = q.resting.first {
		q.flush(e)
	}
	for e := q.outside.first; e != nil && q.flushAt(e) <= now; e = q.outside.first {
		q.flush(e)
	}
}

// Wake returns the earliest time at which SetTime alone would change something; false if it never would.
func (q *Queue) Wake() (eventlog.Time, bool) {
	var wake eventlog.Time
	ok := false
	if e := q.backoff.top(); e != nil {
		wake, ok = e.backoffUntil, true
	}
	if e := q.resting.first; e != nil && e.stamp != q.changes {
		if t := q.flushAt(e); !ok || t < wake {
			wake, ok = t, true
		}
	}
	if e := q.outside.first; e != nil {
		if t := q.flushAt(e); !ok || t < wake {
			wake, ok = t, true
		}
	}
	return wake, ok
}

// flushAt is the multiple of FlushPeriod at which e is flushed, if anything has changed since it came to rest. It is
// the first multiple after both the end of the entity's wait and the latest change. (A multiple between an earlier
// change and the latest cannot have passed: SetTime would have flushed the entity.) Entities in outside do not wait for
// a change.
func (q *Queue) flushAt(e *Entity) eventlog.Time {
	period := eventlog.Time(q.opts.FlushPeriod)
	t := e.since.Add(q.opts.FlushAfter)
	if e.rest.in != &q.outside {
		t = max(t, q.changedAt)
	}
	return (t/period + 1) * period
}

// restsIn returns the list that e is to rest in.
func (q *Queue) restsIn(e *Entity) *restList {
	asked := func(plugin string) bool { return slices.Contains(q.opts.Outside, plugin) }
	if e.state == Gated && q.opts.GatesByTime || e.state == Unschedulable && slices.ContainsFunc(e.plugins, asked) {
		return &q.outside
	}
	return &q.resting
}

// flush retries an entity that rested for too long, or makes it rest again.
func (q *Queue) flush(e *Entity) {
	if e.state == Unschedulable {
		q.requeue(e)
		return
	}
	q.testAll(e)
	if e.ready > 0 {
		q.requeue(e)
		return
	}
	q.put(e, Gated)
}

// backoffFor is InitialBackoff*2^(n-1), at most MaxBackoff, n being the consecutive errors or else the
// times that the entity was found unschedulable.
func (q *Queue) backoffFor(e *Entity) time.Duration {
	n := e.unschedulableCount
	if e.errorCount > 0 {
		n = e.errorCount
	}
	if n == 0 {
		return 0
	}
	if shift := n - 1; q.opts.InitialBackoff <= q.opts.MaxBackoff>>shift {
		return q.opts.InitialBackoff << shift
	}
	return q.opts.MaxBackoff
}

// restList is a list of entities that wait for an event or a flush: unschedulable but not retryable, or gated. It has
// them in order of arrival. Both since and stamp ascend along it, so its first entity determines the time of the next
// flush.
type restList struct {
	first, last *Entity
}

func (l *restList) push(e *Entity, since eventlog.Time, stamp uint64) {
	e.since, e.stamp, e.isResting, e.rest.in = since, stamp, true, l
	e.rest.before, e.rest.after = l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.rest.after = e
	}
	l.last = e
}

func (l *restList) remove(e *Entity) {
	if e.rest.before == nil {
		l.first = e.rest.after
	} else {
		e.rest.before.rest.after = e.rest.after
	}
	if e.rest.after == nil {
		l.last = e.rest.before
	} else {
		e.rest.after.rest.before = e.rest.before
	}
	e.rest.before, e.rest.after, e.isResting, e.rest.in = nil, nil, false, nil
}
