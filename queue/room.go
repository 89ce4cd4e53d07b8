package queue

// ChooseHead makes the head of the queue an entity that is worth an attempt. It is called before Head, and Unpick takes
// it back before the next entry is applied. It does nothing while an entity is in flight. Without Options.Room it looks
// at lanes and early attempts only.
//
// An entity whose last attempt failed is not attempted while Room reports that the attempt would certainly fail. (Room
// is not asked about resizes.) Nothing is lost: the attempt would change the entity's counters only. So an entity for
// which an event, a backoff or a flush asks for a retry becomes retryable. It stays Unschedulable, with the reasons of
// its last attempt, until it would be the head of the queue and Room reports true.
//
// Invariant: after ChooseHead the head is the first entity, in queue order, that is active or retryable, and for which
// Room reports true if its last attempt failed. A retryable entity needs no further event, only room, so no event is
// lost. Example: gang g, of 4 GPUs, failed, and 2 GPUs are free. A pod of another gang ends, so g is retryable. When 4
// GPUs are free, g is picked, although the plugins that had refused it did not register the last event.
//
// Retryable entities are kept in queue order (tree.go). Room is asked from the front, once for each entity at each
// RoomVersion. It is not asked about entities that certainly have no room by Options.Need and MayHaveRoom.
func (q *Queue) ChooseHead() {
	if len(q.flight) > 0 {
		return
	}
	q.updateNeeds()
	q.chooseActive()
	if q.opts.PopEarly {
		q.chooseEarly()
	}
}

// chooseActive is ChooseHead without early attempts.
func (q *Queue) chooseActive() {
	version := q.changes + q.releases
	if q.opts.RoomVersion != nil {
		version = q.opts.RoomVersion()
	}
	q.lanes.dropEmpty()
	for _, set := range q.lanes.sets {
		for _, l := range set.lanes {
			l.chooseHead(q, version)
		}
	}
	if q.opts.Room == nil {
		return
	}
	if version != q.roomVersion {
		q.roomVersion, q.earlyAsked = version, 0
	}
	head := q.active.top()
	for ; head != nil && head.failed && !head.resize && !q.opts.Room(head); head = q.active.top() {
		q.makeRetryable(head)
		q.refused(head, version)
	}
	q.chooseRetryable(head, version)
}

// chooseRetryable picks the first retryable entity that comes before head and has room.
func (q *Queue) chooseRetryable(head *Entity, version uint64) {
	var refused []*Entity
	skip := func(g *summary) bool { return q.hasNoRoom("", g, version) }
	q.retryable.walk(skip, func(e *Entity) bool {
		switch {
		case head != nil && q.less(head, e):
			return true
		case q.opts.Room(e):
			q.pick(e)
			return true
		}
		refused = append(refused, e)
		return false
	})
	for _, e := range refused {
		q.refused(e, version)
	}
}

// Unpick takes back the work of ChooseHead: the picked entities are retryable again, and none is attempted early.
func (q *Queue) Unpick() {
	for _, e := range q.picks {
		if q.entities[e.key] == e && q.IsPicked(e) {
			q.makeRetryable(e)
		}
	}
	clear(q.picks)
	q.picks, q.earlyHead = q.picks[:0], nil
}

// IsPicked reports whether e is active only because ChooseHead picked it. The pick is a memo: the encoded state records
// e as retryable.
func (q *Queue) IsPicked(e *Entity) bool {
	return e.state == Active && e.failed && q.opts.Room != nil && !e.resize
}

// pick makes a retryable entity active.
func (q *Queue) pick(e *Entity) {
	q.put(e, Active)
	q.picks = append(q.picks, e)
}

// makeRetryable makes e unschedulable and retryable.
func (q *Queue) makeRetryable(e *Entity) {
	q.take(e)
	e.state = Unschedulable
	q.counts.Unschedulable++
	if e.firstActive == 0 {
		e.setFirstActive(q.now)
	}
	q.addRetryable(e)
	q.joinLane(e)
}

// addRetryable adds e to the retryable entities.
func (q *Queue) addRetryable(e *Entity) {
	e.retryable = true
	if !q.hasLane(e) { // else its lane asks
		q.retryable.add(e, q.summaryOf(e), q.compare)
	}
}

// removeRetryable removes e from the retryable entities.
func (q *Queue) removeRetryable(e *Entity) {
	e.retryable = false
	if e.node.in == &q.retryable {
		q.retryable.remove(e)
	}
}

// compare is less as a three-way comparison.
func (q *Queue) compare(a, b *Entity) int {
	switch {
	case a == b:
		return 0
	case q.less(a, b):
		return -1
	}
	return 1
}
