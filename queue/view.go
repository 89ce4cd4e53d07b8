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

// Ahead returns the entities that have their turn before e: the ones in flight, and the active ones that come first in
// the order of the queue. In a lane the entities that do not let e pass are among them, before the active ones. They
// are in the order of their turns. The result is nil for an entity that is not active.
func (q *Queue) Ahead(e *Entity) (ahead []*Entity) {
	if e.state != Active {
		return nil
	}
	ahead = append(ahead, q.flight...)
	if e.lane != nil {
		e.lane.entities.walk(skipNone, func(other *Entity) bool {
			if other != e && other.state != Active && !q.letsPass(other) {
				ahead = append(ahead, other)
			}
			return other == e
		})
	}
	active := len(ahead)
	for _, other := range q.sorted.all() {
		if other != e && other.state == Active && q.GoesBefore(other, e) {
			ahead = append(ahead, other)
		}
	}
	slices.SortFunc(ahead[active:], func(a, b *Entity) int {
		return cmp.Or(q.CompareLanes(a, b), q.compare(a, b))
	})
	return ahead
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
