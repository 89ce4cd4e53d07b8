package queue

import "slices"

// A lane is the entities of one profile that wait for their turn (active, backing off, unschedulable), in queue order.
// An entity is attempted before one in front of it only if Options.Passes reports that the one in front lets it pass.
// Example: of [a b c], a is unschedulable and Passes(a) is false. Then nothing is attempted, also if b is active,
// unless Options.Overtaking has it.
type lane struct {
	profile  string
	entities waiting
	// The rest is a memo of chooseHead, as long as chosen says so: the entity that is worth an attempt, nil for none;
	// and, if one before it lets none pass, the entity that is to be attempted all the same, nil for none.
	chosen           bool
	next, overtaking *Entity
}

// add puts e in its place.
func (l *lane) add(q *Queue, e *Entity) {
	l.entities.add(e, q.gistOf(e), q.compare)
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

// head returns the entity that is next to be attempted: as chooseHead left it, or the first that is active and that all
// before it let pass; nil for none.
func (l *lane) head(q *Queue) *Entity {
	next := l.next
	if !l.chosen {
		next = nil
		l.search(q, func(g *gist) bool { return !g.turn && !q.plain }, func(e *Entity) bool {
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

// chooseHead finds the first entity that is worth an attempt and that all entities before it let pass; or else, behind
// the first of these that lets none pass, one that overtakes it.
func (l *lane) chooseHead(q *Queue, version uint64) {
	l.overtaking = nil
	var next, stop *Entity
	for again := true; again; {
		again, next = false, nil
		stop = l.search(q, func(g *gist) bool { return q.hopeless(l.profile, g, version) }, func(e *Entity) bool {
			before := e.state
			if q.worthAttempt(e, version) {
				next = e
				return true
			}
			again = e.state != before // the tree is another one
			return again
		})
	}
	if stop != nil && stop.state != Asking {
		l.overtaking = l.findOvertaking(q, stop)
	}
	l.chosen, l.next = true, next
}

// search calls found for the entities, but for those of which skip says so, until it returns true for one or comes to
// one that lets none pass: that one is returned.
func (l *lane) search(q *Queue, skip func(g *gist) bool, found func(e *Entity) bool) (stop *Entity) {
	blocking, known := q.blocking(l)
	if !known {
		skip = every
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

// blocking returns the entity of a lane that lets none pass, nil for none; known is false if each is to be asked.
func (q *Queue) blocking(l *lane) (_ *Entity, known bool) {
	if q.opts.Blocking == nil || q.plain {
		return nil, false
	}
	return q.opts.Blocking(l.profile)
}

// findOvertaking returns the first entity worth an attempt that overtakes first; nil for none.
func (l *lane) findOvertaking(q *Queue, first *Entity) *Entity {
	if q.opts.Overtaking == nil {
		return nil
	}
	all := slices.Clone(q.opts.Overtaking(first))
	slices.SortFunc(all, q.compare)
	for _, e := range all {
		if e.lane == l && q.compare(first, e) < 0 && q.worthAttempt(e, never) {
			return e
		}
	}
	return nil
}

// worthAttempt reports whether an entity of a lane is active, after it was picked if it is owed a retry and there is
// room for it, or owed one if there is none.
func (q *Queue) worthAttempt(e *Entity, version uint64) bool {
	switch {
	case e.state == Active && e.failed && q.opts.Room != nil && !q.opts.Room(e):
		q.owe(e)
		q.refused(e, version)
	case e.owed && e.spot.own.asked == version && version != never:
	case e.owed && q.opts.Room(e):
		q.pick(e)
	case e.owed:
		q.refused(e, version)
	}
	return e.state == Active
}

// letsPass reports whether others of the lane may be attempted before e. One about which questions are open has its
// turn once they are answered: nobody overtakes it meanwhile.
func (q *Queue) letsPass(e *Entity) bool {
	return e.state != Asking && (q.opts.Passes == nil || q.opts.Passes(e))
}

// laneOf returns the lane of e's profile, nil if it has none, or if e needs no node.
func (q *Queue) laneOf(e *Entity) *lane {
	if e.resize {
		return nil
	}
	return q.lanes[e.profile]
}

// FirstInLane returns the first entity, in queue order, of those of a profile with a lane that wait for their turn and
// are as wanted; nil for none. One that is not wanted, and will not be before Renew, ForgetPassed or another call that
// concerns it says so, is passed: it is not looked at again until then.
func (q *Queue) FirstInLane(profile string, wanted func(*Entity) (yes, passed bool)) (first *Entity) {
	l := q.lanes[profile]
	if l == nil {
		return nil
	}
	var passed []*Entity
	l.entities.walk(func(g *gist) bool { return g.passed }, func(e *Entity) bool {
		yes, pass := wanted(e)
		if yes {
			first = e
		} else if pass {
			passed = append(passed, e)
		}
		return yes
	})
	for _, e := range passed {
		e.spot.own.passed = true
		e.refresh()
	}
	return first
}

// ForgetPassed has FirstInLane look again at all entities that it has passed.
func (q *Queue) ForgetPassed(profile string) {
	l := q.lanes[profile]
	if l == nil {
		return
	}
	for _, e := range l.entities.all() {
		if e.spot.own.passed {
			e.spot.own.passed = false
			e.refresh()
		}
	}
}

// StandsBefore reports whether a has its turn before b: it comes first in the order of the queue.
func (q *Queue) StandsBefore(a, b *Entity) bool { return q.compare(a, b) < 0 }

// RetryInLane has those in a profile's lane that a plugin refused retried after their backoff: what it refused them for
// has changed.
func (q *Queue) RetryInLane(profile, plugin string) {
	l := q.lanes[profile]
	if l == nil {
		return
	}
	var refused []*Entity
	for _, c := range q.alike {
		if len(c.entities) > 0 && c.entities[0].profile == profile && slices.Contains(c.entities[0].plugins, plugin) {
			refused = append(refused, c.entities...)
		}
	}
	refused = slices.DeleteFunc(refused, func(e *Entity) bool { return e.lane != l })
	slices.SortFunc(refused, q.compare)
	for _, e := range refused {
		if e.state == Unschedulable && !e.owed {
			q.Retry(e.key)
		}
	}
}
