package queue

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// RetryAt returns the time at which e will be tried again, or tested again if it is gated, if only time passes from now
// on. ok is false if only something else can lead to that: a change in the cluster, or room. It is also false for an
// entity that is active or in flight, because its turn comes without that.
func (q *Queue) RetryAt(e *Entity) (at eventlog.Time, ok bool) {
	switch {
	case e.state == Backoff:
		return e.backoffUntil, true
	case e.isResting && (e.rest.in == &q.outside || e.stamp != q.changes):
		return q.flushAt(e), true
	}
	return 0, false
}

// Ahead returns how many entities have their turn before e: the ones in flight, and the active ones that come first in
// the order of the queue. In a lane it also counts entities that do not let e pass. It is 0 for an entity that is not
// active.
func (q *Queue) Ahead(e *Entity) (ahead int) {
	q.eachAhead(e, func(*Entity) { ahead++ })
	return ahead
}

// AheadOf returns the entities that Ahead counts: the ones in flight, then those that do not let e pass, then the
// active ones. The first come in the order of their attempts, the others in the order of the queue.
func (q *Queue) AheadOf(e *Entity) []*Entity {
	var ahead []*Entity
	q.eachAhead(e, func(other *Entity) { ahead = append(ahead, other) })
	active := len(ahead)
	for active > 0 && ahead[active-1].state == Active {
		active--
	}
	slices.SortFunc(ahead[active:], func(a, b *Entity) int {
		return cmp.Or(q.CompareLanes(a, b), q.compare(a, b))
	})
	return ahead
}

// GoesBefore reports whether a is attempted before b if both are worth an attempt: by their lanes, and then by the
// order of the queue.
func (q *Queue) GoesBefore(a, b *Entity) bool { return q.goesBefore(a, b) }

// eachAhead visits the entities that Ahead counts, the active ones last and in the order of their keys.
func (q *Queue) eachAhead(e *Entity, visit func(*Entity)) {
	if e.state != Active {
		return
	}
	for _, other := range q.flight {
		visit(other)
	}
	if e.lane != nil {
		e.lane.entities.walk(skipNone, func(other *Entity) bool {
			if other != e && other.state != Active && !q.letsPass(other) {
				visit(other)
			}
			return other == e
		})
	}
	for _, other := range q.sorted.all() {
		if other != e && other.state == Active && q.goesBefore(other, e) {
			visit(other)
		}
	}
}

// IsToTry reports whether the pod is a ready member that the current attempt, or else the next one, has still to try.
func (q *Queue) IsToTry(uid types.UID) bool {
	m := q.byUID[uid]
	return m != nil && !m.placed && m.gate == nil && (m.entity.state != InFlight || !m.tried)
}

// Ready reports whether the pod is a member that has no node and that no PreEnqueue plugin keeps out.
func (q *Queue) Ready(uid types.UID) bool {
	m := q.byUID[uid]
	return m != nil && !m.placed && m.gate == nil
}
