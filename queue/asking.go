package queue

import "k8s.io/apimachinery/pkg/types"

// Questions. Before an entity is attempted, somebody outside may have to be asked about its members (HTTP extenders).
// Meanwhile it is Asking: it is no head, so that others are attempted, and no event moves it, because it is tried in
// any case once all is answered. It keeps its place in the order, its counters and its backoff: a question is no
// attempt. In a lane nobody overtakes it.

// Ask notes that questions about members are open, and puts the entity into Asking until Answered was called for each
// of them, or they are gone. It does nothing if none of them is a member, or if the entity is in flight or unknown.
func (q *Queue) Ask(key Key, uids []types.UID) {
	e := q.entities[key]
	if e == nil || e.state == InFlight {
		return
	}
	for _, uid := range uids {
		if m := q.byUID[uid]; m != nil && m.entity == e && !m.asking {
			m.asking = true
			e.asking++
		}
	}
	if e.asking == 0 {
		return
	}
	q.noteEarly(e)
	if e.firstActive == 0 {
		e.setFirstActive(q.now)
	}
	e.asked, e.startedAt = true, q.changes
	q.put(e, Asking)
}

// Answered notes the answer to the question about a pod. If no other question about the entity's members is open, the
// entity is active again, whatever its backoff. Events since Ask count as events during the next attempt. An unknown
// pod, or a pod without a question, is ignored.
func (q *Queue) Answered(uid types.UID) {
	m := q.byUID[uid]
	if m == nil || !m.asking {
		return
	}
	m.entity.noLongerAsking(m)
	q.rest(m.entity)
}

// endAsking makes an entity active about which no question is open any more.
func (q *Queue) endAsking(e *Entity) {
	if e.asking == 0 {
		q.activate(e)
	}
}

func (e *Entity) noLongerAsking(m *member) {
	if m.asking {
		m.asking = false
		e.asking--
	}
}
