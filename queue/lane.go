package queue

import "slices"

// A lane is the entities of one profile that wait for their turn (active, backing off, unschedulable), in queue order.
// An entity is attempted before one in front of it only if Options.Passes reports that the one in front lets it pass.
// Example: of [a b c], a is unschedulable and Passes(a) is false. Then nothing is attempted, also if b is active,
// unless Options.Overtaking has it.
type lane struct {
	entities []*Entity
	// asked and version are a memo. At this RoomVersion none of the entities before the asked-th is active, none is
	// owed a retry for which there is room, and all of them let others pass: the search goes on from there.
	asked   int
	version uint64
	// overtaking is the entity that is to be attempted although the asked-th lets none pass, nil for none: a memo of
	// chooseHead.
	overtaking *Entity
}

// add puts e in its place.
func (l *lane) add(q *Queue, e *Entity) {
	i, _ := slices.BinarySearchFunc(l.entities, e, q.compare)
	l.entities = slices.Insert(l.entities, i, e)
	l.asked = min(l.asked, i)
	e.lane = l
}

// remove takes e out.
func (l *lane) remove(q *Queue, e *Entity) {
	i, _ := slices.BinarySearchFunc(l.entities, e, q.compare)
	if i == len(l.entities) || l.entities[i] != e {
		// What the order depends on was changed outside before Recheck told: look for it.
		i = slices.Index(l.entities, e)
	}
	l.entities = slices.Delete(l.entities, i, i+1)
	if i < l.asked {
		l.asked--
	}
	e.lane = nil
	if l.overtaking == e {
		l.overtaking = nil
	}
}

// head returns the entity that is next to be attempted, as chooseHead left it; nil for none.
func (l *lane) head(q *Queue) *Entity {
	for _, e := range l.entities[l.asked:] {
		if e.state == Active {
			return e
		}
		if !q.letsPass(e) {
			if o := l.overtaking; o != nil && o.state == Active {
				return o
			}
			return nil
		}
	}
	return nil
}

// chooseHead finds the first entity that is worth an attempt and that all entities before it let pass; or else, behind
// the first of these that lets none pass, one that overtakes it.
func (l *lane) chooseHead(q *Queue, version uint64) {
	if version != l.version {
		l.version, l.asked = version, 0
	}
	l.overtaking = nil
	for ; l.asked < len(l.entities); l.asked++ {
		e := l.entities[l.asked]
		if q.worthAttempt(e) {
			return
		}
		if !q.letsPass(e) {
			if e.state != Asking {
				l.overtaking = l.findOvertaking(q, e)
			}
			return
		}
	}
}

// findOvertaking returns the first entity worth an attempt that overtakes the asked-th, first; nil for none.
func (l *lane) findOvertaking(q *Queue, first *Entity) *Entity {
	if q.opts.Overtaking == nil {
		return nil
	}
	all := slices.Clone(q.opts.Overtaking(first))
	slices.SortFunc(all, q.compare)
	for _, e := range all {
		if e.lane == l && q.compare(first, e) < 0 && q.worthAttempt(e) {
			return e
		}
	}
	return nil
}

// worthAttempt reports whether an entity of a lane is active, after it was picked if it is owed a retry and there is
// room for it, or owed one if there is none.
func (q *Queue) worthAttempt(e *Entity) bool {
	switch {
	case e.state == Active && e.failed && q.opts.Room != nil && !q.opts.Room(e):
		q.owe(e)
	case e.owed && q.opts.Room(e):
		q.pick(e)
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
// are as wanted; nil for none.
func (q *Queue) FirstInLane(profile string, wanted func(*Entity) bool) *Entity {
	l := q.lanes[profile]
	if l == nil {
		return nil
	}
	for _, e := range l.entities {
		if wanted(e) {
			return e
		}
	}
	return nil
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
	for _, e := range slices.Clone(l.entities) {
		if e.state == Unschedulable && !e.owed && slices.Contains(e.plugins, plugin) {
			q.Retry(e.key)
		}
	}
}
