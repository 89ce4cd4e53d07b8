package queue

import "slices"

// lane is the entities of one lane that wait for their turn (active, backing off, unschedulable, asking), in queue
// order. An entity is attempted before one in front of it only if its policy reports that the one in front lets it
// pass. Example: of [a b c], a is unschedulable and Passes(a) is false. Then nothing is attempted, even if b is active,
// unless the policy's Overtaking returns it.
type lane struct {
	name      string
	set       *laneSet
	blocker   LaneBlocker   // the policy, nil if it is none
	overtaker LaneOvertaker // the policy, nil if it is none
	entities  tree
	// The rest is a memo of chooseHead, valid while chosen is true. It has the entity that is worth an attempt, nil for
	// none. If an entity before that lets none pass, it has the entity that is attempted in spite of that, nil for
	// none.
	chosen           bool
	next, overtaking *Entity
}

// add puts e into the lane.
func (l *lane) add(q *Queue, e *Entity) {
	l.entities.add(e, q.summaryOf(e), q.compare)
	e.lane, l.chosen = l, false
}

// remove takes e out.
func (l *lane) remove(e *Entity) {
	l.entities.remove(e)
	e.lane, l.chosen = nil, false
	if l.overtaking == e {
		l.overtaking = nil
	}
}

// joinLane puts an entity that waits for its turn into its lane, if it has one.
func (q *Queue) joinLane(e *Entity) {
	if e.waits() {
		if l := q.lanes.laneFor(e); l != nil {
			l.add(q, e)
		}
	}
}

// waits reports whether the entity waits for its turn.
func (e *Entity) waits() bool {
	switch e.state {
	case Active, Backoff, Unschedulable, Asking:
		return true
	}
	return false
}

// hasLane reports whether the entity belongs to a lane, whether or not it waits there now.
func (q *Queue) hasLane(e *Entity) bool { return q.lanes.nameFor(e) != "" }

// changeLane moves an entity that waits in a lane to the one that it belongs to now. It keeps its state.
func (q *Queue) changeLane(e *Entity) {
	is := ""
	if e.lane != nil {
		is = e.lane.name
	}
	switch {
	case !e.waits() || q.lanes.nameFor(e) == is:
	case e.retryable:
		q.makeRetryable(e)
	default:
		q.put(e, e.state)
	}
}

// headOfLanes returns the next entity to attempt among all lanes, nil for none. Among the lanes of a policy
// CompareLanes decides, and then the order of the queue, which also decides between policies.
func (q *Queue) headOfLanes() (head *Entity) {
	for _, set := range q.lanes.sets {
		var first *Entity
		for _, l := range set.lanes {
			if e := l.head(q); e != nil && (first == nil || q.GoesBefore(e, first)) {
				first = e
			}
		}
		if first != nil && (head == nil || q.less(first, head)) {
			head = first
		}
	}
	return head
}

// GoesBefore reports whether a is attempted before b if both are worth an attempt.
func (q *Queue) GoesBefore(a, b *Entity) bool {
	if c := q.CompareLanes(a, b); c != 0 {
		return c < 0
	}
	return q.less(a, b)
}

// CompareLanes compares the lanes that two entities belong to. It returns 0 if the order of the queue decides between
// the entities.
func (q *Queue) CompareLanes(a, b *Entity) int {
	set := q.lanes.byProfile[a.profile]
	if set == nil || set != q.lanes.byProfile[b.profile] {
		return 0
	}
	x, y := q.lanes.nameFor(a), q.lanes.nameFor(b)
	if x == "" || y == "" || x == y {
		return 0
	}
	return set.policy.CompareLanes(x, y)
}

// head returns the entity that is attempted next: the one that chooseHead found, or the first that is active and that
// all before it let pass; nil for none.
func (l *lane) head(q *Queue) *Entity {
	next := l.next
	if !l.chosen {
		next = nil
		l.search(q, func(g *summary) bool { return !g.due && !q.plain }, func(e *Entity) bool {
			next = e
			return e.state == Active
		})
	}
	if next == nil {
		next = l.overtaking
	}
	if next == nil || next.state != Active {
		return nil
	}
	return next
}

// chooseHead finds the first entity that is worth an attempt and that all entities before it let pass. If there is
// none, it finds an entity that overtakes the first one that lets none pass.
func (l *lane) chooseHead(q *Queue, version uint64) {
	l.overtaking = nil
	var next, stop *Entity
	for again := true; again; {
		again, next = false, nil
		stop = l.search(q, func(g *summary) bool { return q.hasNoRoom(l.name, g, version) }, func(e *Entity) bool {
			before := e.state
			if q.worthAttempt(e, version) {
				next = e
				return true
			}
			again = e.state != before // that changed the tree
			return again
		})
	}
	if stop != nil && stop.state != Asking {
		l.overtaking = l.findOvertaking(q, stop)
	}
	l.chosen, l.next = true, next
}

// search calls found for the entities, except the ones that skip leaves out, until it returns true. It stops at an
// entity that lets none pass, and returns that one.
func (l *lane) search(q *Queue, skip func(g *summary) bool, found func(e *Entity) bool) (stop *Entity) {
	blocking, known := l.blocking(q)
	if !known {
		skip = skipNone
	}
	done := l.entities.walk(skip, func(e *Entity) bool {
		if known && blocking != nil && e != blocking && q.compare(blocking, e) < 0 {
			stop = blocking
			return true
		}
		if found(e) {
			return true
		}
		if known && e != blocking && e.state != Asking || q.letsPass(e) {
			return false
		}
		stop = e
		return true
	})
	if !done && known {
		stop = blocking
	}
	return stop
}

// blocking returns the entity that lets none pass, nil for none; known is false if each must be asked.
func (l *lane) blocking(q *Queue) (_ *Entity, known bool) {
	if l.blocker == nil || q.plain {
		return nil, false
	}
	return l.blocker.Blocking(l.name)
}

// findOvertaking returns the first entity worth an attempt that overtakes first; nil for none.
func (l *lane) findOvertaking(q *Queue, first *Entity) *Entity {
	if l.overtaker == nil {
		return nil
	}
	all := slices.Clone(l.overtaker.Overtaking(first))
	slices.SortFunc(all, q.compare)
	for _, e := range all {
		if e.lane == l && q.compare(first, e) < 0 && q.worthAttempt(e, neverAsked) {
			return e
		}
	}
	return nil
}

// worthAttempt reports whether an entity of a lane is active. Before that it picks a retryable entity that has room,
// and makes an entity without room retryable.
func (q *Queue) worthAttempt(e *Entity, version uint64) bool {
	switch {
	case e.state == Active && e.failed && q.opts.Room != nil && !q.opts.Room(e):
		q.makeRetryable(e)
		q.refused(e, version)
	case e.retryable && e.node.own.asked == version && version != neverAsked:
	case e.retryable && q.opts.Room(e):
		q.pick(e)
	case e.retryable:
		q.refused(e, version)
	}
	return e.state == Active
}

// letsPass reports whether others of the lane may be attempted before e. One about which questions are open has its
// turn once they are answered: nobody overtakes it meanwhile.
func (q *Queue) letsPass(e *Entity) bool { return e.state != Asking && q.Passes(e) }

// Passes reports whether the policy of e's lane lets entities behind e be attempted before it.
func (q *Queue) Passes(e *Entity) bool {
	if e.lane != nil {
		return e.lane.set.policy.Passes(e)
	}
	return !q.hasLane(e) || q.lanes.byProfile[e.profile].policy.Passes(e)
}

// FirstInLane returns the first entity, in queue order, that waits for its turn in a lane and for which wanted reports
// yes; nil for none. FirstInLane does not look again at an entity for which wanted reports passed before Renew or
// ForgetPassed is called.
func (q *Queue) FirstInLane(lane string, wanted func(*Entity) (yes, passed bool)) (first *Entity) {
	l := q.lanes.byName[lane]
	if l == nil {
		return nil
	}
	var passed []*Entity
	l.entities.walk(func(g *summary) bool { return g.passed }, func(e *Entity) bool {
		yes, pass := wanted(e)
		if yes {
			first = e
		} else if pass {
			passed = append(passed, e)
		}
		return yes
	})
	for _, e := range passed {
		e.node.own.passed = true
		e.refresh()
	}
	return first
}

// ForgetPassed makes FirstInLane look again at all entities of a lane.
func (q *Queue) ForgetPassed(lane string) {
	l := q.lanes.byName[lane]
	if l == nil {
		return
	}
	for _, e := range l.entities.all() {
		if e.node.own.passed {
			e.node.own.passed = false
			e.refresh()
		}
	}
}

// StandsBefore reports whether a comes before b in the order of the queue.
func (q *Queue) StandsBefore(a, b *Entity) bool { return q.compare(a, b) < 0 }

// SameLane reports whether two entities belong to the same lane.
func (q *Queue) SameLane(a, b *Entity) bool {
	lane := q.lanes.nameFor(a)
	return lane != "" && lane == q.lanes.nameFor(b)
}

// RetryInLane retries, after their backoff, the entities of a lane that a plugin refused: what it refused them for has
// changed.
func (q *Queue) RetryInLane(lane, plugin string) {
	l := q.lanes.byName[lane]
	if l == nil {
		return
	}
	var refused []*Entity
	for _, c := range q.alike {
		if len(c.entities) > 0 && slices.Contains(c.entities[0].plugins, plugin) {
			refused = append(refused, c.entities...)
		}
	}
	refused = slices.DeleteFunc(refused, func(e *Entity) bool { return e.lane != l })
	slices.SortFunc(refused, q.compare)
	for _, e := range refused {
		if e.state == Unschedulable && !e.retryable {
			q.Retry(e.key)
		}
	}
}
