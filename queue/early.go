package queue

import (
	"cmp"
	"slices"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Early attempts: the feature gate SchedulerPopFromBackoffQ (Options.PopEarly). If nothing else is worth an attempt,
// the first entity that backs off is attempted before its backoff ends.
//
// Here an attempt is a durable decision, so there is a rule that kube-scheduler does not have. An entity is attempted
// early once, and then not before a backoff of its own has ended. So an entity has at most two attempts in the time of
// one backoff. Example: with backoffs of 1, 2 and 4 s, a pod is refused at 0 s. A node comes at 0.1 s, and the pod is
// refused early. Now its backoff ends at 2.1 s. Another node comes at 0.2 s, and the pod is attempted at 2.1 s. If it
// is refused then, it may be attempted early again before 6.1 s.
//
// Kubernetes has the gate on by default. In a log it is on only if the configuration says so. "rollcall run" says so
// unless its flags or file turn it off. Simulations have it off unless their flags or file turn it on.
//
// As in kube-scheduler, entities that back off after an error are never attempted early. Two kinds that kube-scheduler
// does not have are never attempted early either: entities in a lane, whose order decides, and gangs with a backoff of
// their own (Profile.GroupBackoff).
//
// The entity that is attempted early is a memo of ChooseHead, and not part of the state: it stays in Backoff until
// StartAttempt.

// earlyWindow is the width of the windows of backoff ends in which the queue's order decides, as in kube-scheduler.
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

// compareEarly is the order of early attempts: by the second in which the backoff ends, and then in queue order.
func (q *Queue) compareEarly(a, b *Entity) int {
	return cmp.Or(cmp.Compare(a.backoffUntil/earlyWindow, b.backoffUntil/earlyWindow), q.compare(a, b))
}

// addEarly adds e, which begins to back off, to the list for early attempts, if e may be attempted early.
func (q *Queue) addEarly(e *Entity) {
	if !q.mayPopEarly(e) {
		return
	}
	i, _ := slices.BinarySearchFunc(q.early, e, q.compareEarly)
	q.early = slices.Insert(q.early, i, e)
	q.earlyAsked = min(q.earlyAsked, i)
	e.isEarly = true
}

// removeEarly removes e from the list for early attempts, if it is there.
func (q *Queue) removeEarly(e *Entity) {
	if !e.isEarly {
		return
	}
	i, _ := slices.BinarySearchFunc(q.early, e, q.compareEarly)
	if i == len(q.early) || q.early[i] != e {
		// The order has changed from outside before Recheck was called: search.
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

// chooseEarly finds the entity to attempt early, if nothing else is worth an attempt. All of the candidates have failed
// before, so Room is asked once for each at each RoomVersion, as for retryable entities.
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
