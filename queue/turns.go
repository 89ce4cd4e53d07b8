package queue

import (
	"cmp"
	"slices"
)

// InOrder returns the entities that have members without a node, in the order of their turns. The ones in flight come
// first. The others follow by their lanes and the order of the queue, whether or not they can be attempted now. Gated
// ones come last, by key.
func InOrder(q *Queue) []*Entity {
	all := slices.DeleteFunc(q.All(), func(e *Entity) bool { return e.state == Placed })
	rank := func(e *Entity) int {
		switch e.state {
		case InFlight:
			return 0
		case Gated:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b *Entity) int {
		if c := cmp.Compare(rank(a), rank(b)); c != 0 || rank(a) != 1 {
			return c
		}
		return cmp.Or(q.CompareLanes(a, b), q.compare(a, b))
	})
	return all
}

// NumAhead returns the number of entities that Ahead returns, for each active entity. It costs about as much as one
// call of Ahead.
func NumAhead(q *Queue) map[Key]int {
	ahead := map[Key]int{}
	turn := len(q.flight)
	for _, e := range InOrder(q) {
		if e.state == Active {
			ahead[e.key] = turn
			turn++
		}
	}
	for _, set := range q.lanes.sets {
		for _, l := range set.lanes {
			blocking := 0
			l.entities.walk(skipNone, func(e *Entity) bool {
				if e.state == Active {
					ahead[e.key] += blocking
				} else if !q.letsPass(e) {
					blocking++
				}
				return false
			})
		}
	}
	return ahead
}

// LaneOf returns the name of the lane that an entity belongs to; "" if it belongs to none.
func LaneOf(q *Queue, e *Entity) string {
	if q.lanes.byProfile[e.profile] == nil {
		return ""
	}
	return q.lanes.nameFor(e)
}
