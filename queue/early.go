package queue

import (
	"cmp"
	"slices"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Early attempts: what the feature gate SchedulerPopFromBackoffQ is about (Options.PopEarly). If nothing else is worth
// an attempt, the first entity that backs off is attempted before its backoff ends.
//
// Here an attempt is a durable decision, so there is a rule that kube-scheduler does not have: an entity is attempted
// early once, and then not before a backoff of its own has ended. An entity so has two attempts in the time of one
// backoff at the most, whatever happens meanwhile. Example: with backoffs of 1, 2 and 4 s, a pod is refused at 0 s. A
// node comes at 0.1 s, and the pod is refused early; its backoff ends at 2.1 s now. Of the node that comes at 0.2 s it
// learns at 2.1 s. Refused then, it may be attempted early again before 6.1 s.
//
// Kubernetes has the gate on by default. In a log it is on only if the configuration says so. "rollcall run" says so
// unless its flags or file turn it off; simulations have it off unless theirs turn it on.
//
// Never attempted early are, as in kube-scheduler, entities that back off after an error; and, since kube-scheduler has
// no such thing, those in a lane, whose order says what is next, and gangs with a backoff of their own
// (Profile.GroupBackoff).
//
// Which entity is attempted early is a memo of ChooseHead, and no part of the state: it stays in Backoff until
// StartAttempt.

// earlyWindow is how far apart the ends of backoffs may be for the order of the queue to count, as in kube-scheduler.
const earlyWindow = eventlog.Time(time.Second)

// mayPopEarly reports whether e, while it backs off, may be attempted early. The answer is the same for as long as it
// backs off.
func (q *Queue) mayPopEarly(e *Entity) bool {
	return q.opts.PopEarly && !e.poppedEarly && e.errorCount == 0 && len(e.plugins)+len(e.pendingPlugins) > 0 &&
		!q.hasLane(e) && (e.key.Type == fwk.PodKeyType || q.opts.Profiles[e.profile].GroupBackoff == 0)
}

// MayPopEarly reports whether e backs off and will be attempted before its backoff ends if nothing else is worth an
// attempt and Options.Room allows it.
func (q *Queue) MayPopEarly(e *Entity) bool { return e.isEarly }

// compareEarly is the order in which entities are attempted early: that of the second in which their backoffs end, and
// within a second that of the queue.
func (q *Queue) compareEarly(a, b *Entity) int {
	return cmp.Or(cmp.Compare(a.backoffUntil/earlyWindow, b.backoffUntil/earlyWindow), q.compare(a, b))
}

// addEarly puts e, which begins to back off, among those that may be attempted early, if it is one.
func (q *Queue) addEarly(e *Entity) {
	if !q.mayPopEarly(e) {
		return
	}
	i, _ := slices.BinarySearchFunc(q.early, e, q.compareEarly)
	q.early = slices.Insert(q.early, i, e)
	q.earlyAsked = min(q.earlyAsked, i)
	e.isEarly = true
}

// removeEarly takes e out from among those that may be attempted early, if it is there.
func (q *Queue) removeEarly(e *Entity) {
	if !e.isEarly {
		return
	}
	i, _ := slices.BinarySearchFunc(q.early, e, q.compareEarly)
	if i == len(q.early) || q.early[i] != e {
		// What the order depends on was changed outside before Recheck told: look for it.
		i = slices.Index(q.early, e)
	}
	q.early = slices.Delete(q.early, i, i+1)
	if i < q.earlyAsked {
		q.earlyAsked--
	}
	e.isEarly = false
	if q.earlyHead == e {
		q.earlyHead = nil
	}
}

// noteEarly notes of an attempt on e that begins whether it is an early one, or whether e may have another again.
func (q *Queue) noteEarly(e *Entity) {
	switch {
	case q.opts.PopEarly && e.state == Backoff:
		e.poppedEarly = true
	case e.backoffUntil <= q.now:
		e.poppedEarly = false
	}
}

// chooseEarly finds the entity that is attempted early, if nothing else is worth an attempt. All of them have failed
// before: so Room is asked, once for each at each RoomVersion, as for the owed.
func (q *Queue) chooseEarly() {
	q.earlyHead = nil
	if len(q.early) == 0 || q.Head() != nil {
		return
	}
	for ; q.earlyAsked < len(q.early); q.earlyAsked++ {
		if e := q.early[q.earlyAsked]; q.opts.Room == nil || q.opts.Room(e) {
			q.earlyHead = e
			return
		}
	}
}
