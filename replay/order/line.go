package order

import (
	"slices"
	"sort"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
)

// The order of the entities that are not placed.

// place is the position of an entity in the order.
type place struct {
	priority int32
	time     eventlog.Time // since when, in its priority; 0 for never
}

// stands reports whether p comes before q: a higher priority, or the same one for longer. Entities of one priority and
// time have an order too, by name; nobody is harmed by that, and it is not audited.
func (p place) stands(q place) bool {
	return p.priority > q.priority || p.priority == q.priority && p.time != 0 && p.time < q.time
}

// line has the entities that are not placed, in order: a search finds the ones before another without visiting all.
type line struct {
	places map[queue.Key]place
	keys   []queue.Key // by priority, then time, then key
	idle   map[queue.Key]bool
}

func (a *auditor) placeOf(e *queue.Entity) place {
	t := e.FirstActive()
	if a.byRequeue && t != 0 {
		t = e.Timestamp()
	}
	return place{e.Priority(), t}
}

func compare(a, b place, x, y queue.Key) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	if a.time != b.time {
		return a.time < b.time
	}
	return queue.CompareKeys(x, y) < 0
}

// touch puts an entity at its position as of now, or takes it out if it is placed or gone.
func (l *line) touch(a *auditor, key queue.Key) {
	if p, ok := l.places[key]; ok {
		i := l.find(p, key)
		l.keys = slices.Delete(l.keys, i, i+1)
		delete(l.places, key)
	}
	delete(l.idle, key)
	e := a.m.Queue().Get(key)
	if e == nil || e.State() == queue.Placed || e.Resize() {
		return // it needs no node
	}
	p := a.placeOf(e)
	if p.time == 0 {
		l.idle[key] = true // it was never active: it is checked each time until it is
	}
	i := l.find(p, key)
	l.keys = slices.Insert(l.keys, i, key)
	l.places[key] = p
}

func (l *line) find(p place, key queue.Key) int {
	return sort.Search(len(l.keys), func(i int) bool {
		at := l.keys[i]
		return !compare(l.places[at], p, at, key)
	})
}

// before returns the entities that are ahead of e and are not placed, in order.
func (l *line) before(a *auditor, e *queue.Entity) []*queue.Entity {
	for _, key := range sortedKeys(l.idle) {
		l.touch(a, key)
	}
	if l.places[e.Key()] != a.placeOf(e) {
		l.touch(a, e.Key())
	}
	own := a.placeOf(e)
	var out []*queue.Entity
	for _, key := range l.keys {
		if p := l.places[key]; p.priority < own.priority || p.priority == own.priority && p.time >= own.time {
			break
		}
		other := a.m.Queue().Get(key)
		if key == e.Key() || other == nil || other.State() == queue.Placed || !a.placeOf(other).stands(own) {
			continue
		}
		out = append(out, other)
	}
	return out
}

func sortedKeys(set map[queue.Key]bool) []queue.Key {
	keys := make([]queue.Key, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, queue.CompareKeys)
	return keys
}
