package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// An attempt to place an entity, from StartAttempt to Finish or Park.

// Failure is the reason why an attempt failed, or why one member was refused.
type Failure struct {
	// UID is the member that was refused; "" if it was not one member's.
	UID types.UID
	// Plugins rejected the entity with Unschedulable or UnschedulableAndUnresolvable.
	Plugins []string
	// PendingPlugins rejected it with Pending: when an event resolves that, it skips its backoff.
	PendingPlugins []string
	// Error says that something went wrong rather than that there is no place: the entity is retried after
	// its backoff, whatever happens meanwhile.
	Error bool
	// KeptOff says that nodes were refused because they are for an entity that comes first, see Entity.KeptOff.
	KeptOff bool
}

// StartAttempt takes the entity out of its place in the queue and puts it in flight, with all its members still to try.
// It does nothing if the entity is in flight already or unknown. It works from any state, because it applies a recorded
// decision, and recorded decisions are facts.
func (q *Queue) StartAttempt(key Key) {
	e := q.entities[key]
	if e == nil || e.state == InFlight {
		return
	}
	e.attempts++
	e.plan.begin()
	q.noteEarly(e)
	eventful := e.asked && e.startedAt != q.changes
	e.asked, e.startedAt = false, q.changes
	e.failed, e.erred, e.keptOff, e.plugins, e.pendingPlugins = false, false, false, nil, nil
	for _, m := range e.members {
		e.retry(m)
	}
	if e.firstActive == 0 {
		e.setFirstActive(q.now)
	}
	e.notedAny = e.notedAny || eventful
	q.put(e, InFlight)
}

// MarkPlaced notes that a member was given a node: it waits in Permit or is being bound. It is no longer pending but
// stays a member until Delete. An unknown pod is ignored.
func (q *Queue) MarkPlaced(key Key, uid types.UID) {
	m := q.byUID[uid]
	if m == nil || m.entity.key != key || m.placed {
		return
	}
	e := m.entity
	q.ungate(m)
	e.count(m, -1)
	e.noLongerAsking(m)
	m.placed, m.tried = true, e.state == InFlight
	e.count(m, 1)
	q.rest(e)
}

// MarkPending notes that a placed member lost its node and is pending again. If the attempt under way had placed it,
// the cluster is now as it was before the attempt: that is no event for other entities, and the caller does not call
// Move. If it was placed before (a bind failed, a Permit timed out), room came free: the caller calls Move too.
func (q *Queue) MarkPending(key Key, uid types.UID) {
	m := q.byUID[uid]
	if m == nil || m.entity.key != key || !m.placed {
		return
	}
	q.releases++
	e := m.entity
	e.count(m, -1)
	m.placed = false
	m.tried = e.state == InFlight
	e.count(m, 1)
	q.rest(e)
}

// Refuse notes that the current attempt found no node for a member and continues with the others. The attempt does not
// come to this member again. At its end, Finish or Park takes the failures of all refused members together. An unknown
// pod is ignored.
func (q *Queue) Refuse(key Key, f Failure) {
	e := q.entities[key]
	if e == nil || e.state != InFlight || q.byUID[f.UID] == nil || q.byUID[f.UID].entity != e {
		return
	}
	q.blame(e, f)
}

// blame adds a failure to the failures of the current attempt.
func (q *Queue) blame(e *Entity, f Failure) {
	e.failed = true
	e.erred, e.keptOff = e.erred || f.Error, e.keptOff || f.KeptOff
	e.plugins = distinct(slices.Concat(e.plugins, f.Plugins))
	e.pendingPlugins = distinct(slices.Concat(e.pendingPlugins, f.PendingPlugins))
	if m := q.byUID[f.UID]; m != nil && m.entity == e && !m.placed {
		e.count(m, -1)
		m.tried, m.refused = true, true
		e.count(m, 1)
	}
}

// retry puts the member among those still to try, for the next attempt.
func (e *Entity) retry(m *member) {
	m.refused = false
	if m.tried {
		e.count(m, -1)
		m.tried = false
		e.count(m, 1)
	}
}

// Finish ends the attempt. If it refused members, it has failed, see Park. If no ready member is left, the entity is
// Placed (or Gated). Otherwise some members were not tried: the entity is active again at once, and its counters begin
// at zero, as upstream. Example: a gang with minimum 2 and 3 members has placed two and ends the attempt. The third is
// tried in the next one. An unknown entity is ignored.
func (q *Queue) Finish(key Key) {
	e := q.entities[key]
	if e == nil {
		return
	}
	if e.state == InFlight && e.failed {
		q.Park(key, Failure{})
		return
	}
	q.take(e)
	e.plan.end()
	e.plan.search = 0
	e.failed, e.erred, e.keptOff, e.plugins, e.pendingPlugins = false, false, false, nil, nil
	e.forgetNotes()
	if e.ready == 0 {
		q.rest(e)
		return
	}
	e.timestamp = q.now
	e.unschedulableCount, e.errorCount, e.backoffUntil, e.poppedEarly = 0, 0, 0, false
	q.activate(e)
}

// Park ends the attempt as failed: at once, after Refuse, or after it had seemed to end well. The counters go up as
// upstream, and with them the backoff. After an error the entity backs off and is then retried. Otherwise it becomes
// Unschedulable, unless an event that came during the attempt would have moved it. Then it is moved now, past its
// backoff if a Pending plugin asked for it. Placed members stay placed. Park works from any state. An unknown entity is
// ignored.
func (q *Queue) Park(key Key, f Failure) {
	e := q.entities[key]
	if e == nil {
		return
	}
	inFlight := e.state == InFlight
	if !inFlight {
		e.erred, e.keptOff, e.plugins, e.pendingPlugins = false, false, nil, nil
		for _, m := range e.members {
			m.refused = false
		}
	}
	q.take(e)
	e.plan.end()
	q.blame(e, f)
	isError := e.erred
	e.erred = false
	if isError {
		e.errorCount++
	} else {
		e.unschedulableCount++
		e.errorCount = 0
	}
	e.timestamp = q.now
	backoff := q.backoffFor(e)
	if !isError && e.key.Type != fwk.PodKeyType {
		backoff = max(backoff, q.opts.Profiles[e.profile].GroupBackoff)
	}
	e.backoffUntil = q.now.Add(backoff)
	verdict := q.verdict(e, isError, inFlight)
	eventful := e.startedAt != q.changes
	e.forgetNotes()
	switch {
	case e.ready == 0:
		q.rest(e)
	case verdict == immediately:
		q.activate(e)
	case verdict == afterBackoff:
		q.requeue(e)
	default:
		q.put(e, Unschedulable)
		if eventful {
			// Events during the attempt are new to it: the flush must not count them as tried.
			q.changed()
		}
	}
}

// verdict says where an entity goes whose attempt just failed.
func (q *Queue) verdict(e *Entity, isError, inFlight bool) strategy {
	if isError {
		return afterBackoff
	}
	if !inFlight {
		if e.startedAt != q.changes {
			return afterBackoff
		}
		return skip
	}
	verdict := skip
	if e.notedAll || e.notedAny && len(e.plugins)+len(e.pendingPlugins) == 0 {
		verdict = afterBackoff
	}
	for _, name := range e.plugins {
		if q.wasNoted(e, name) {
			verdict = afterBackoff
		}
	}
	for _, name := range e.pendingPlugins {
		if q.wasNoted(e, name) {
			verdict = immediately
		}
	}
	return verdict
}

// distinct returns the names sorted, each once; nil for none.
func distinct(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}
