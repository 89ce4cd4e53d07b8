package queue

import (
	"hash/fnv"
	"time"
)

// Need is what an entity that waits for room needs at the least, for the search for one that may have it. Without room
// for its Need an entity certainly has none; with room for it Options.Room says.
type Need struct {
	// Unknown says that nothing is known of it: Room is asked.
	Unknown bool
	// Amounts are amounts of resources, in an order that whoever gives Needs decides on. Missing ones are 0.
	Amounts []int64
	// Priority is the entity's: the higher it is, the more may be made to go for it.
	Priority int32
	// Preempts says that there may be room whenever a pod of lower priority has a node, whatever the amounts are.
	Preempts bool
	// Longest is how long it holds what it gets at the longest, 0 for no limit.
	Longest time.Duration
	// Free says that room that is kept for others is free for it, too.
	Free bool
}

// least is the least need of two: there is room for it if there is room for either.
func (n *Need) least(o *Need) {
	n.Unknown, n.Free, n.Preempts = n.Unknown || o.Unknown, n.Free || o.Free, n.Preempts || o.Preempts
	n.Priority = max(n.Priority, o.Priority)
	if n.Longest == 0 || o.Longest != 0 && o.Longest < n.Longest {
		n.Longest = o.Longest
	}
	if len(o.Amounts) < len(n.Amounts) {
		n.Amounts = n.Amounts[:len(o.Amounts)]
	}
	for i := range n.Amounts {
		n.Amounts[i] = min(n.Amounts[i], o.Amounts[i])
	}
}

// gist is what a search needs to know of one entity, or of a stretch of them together.
type gist struct {
	// turn says that one is active or asking: it is always looked at.
	turn bool
	// owed says that one is owed a retry, and need is the least that one of these needs.
	owed bool
	need Need
	// asked says that Room has refused all of those that are owed a retry, at no other RoomVersion than this one.
	asked uint64
	// passed says that all of them are passed over, see FirstInLane.
	passed bool
}

// never is an asked that no RoomVersion is.
const never = ^uint64(0)

// add brings another entity's gist, or another stretch's, into g.
func (g *gist) add(o *gist) {
	g.turn, g.passed = g.turn || o.turn, g.passed && o.passed
	if !o.owed {
		return
	}
	if !g.owed {
		amounts := append(g.need.Amounts[:0], o.need.Amounts...)
		g.owed, g.need, g.asked = true, o.need, o.asked
		g.need.Amounts = amounts
		return
	}
	g.need.least(&o.need)
	if g.asked != o.asked {
		g.asked = never
	}
}

// waiting is a set of entities in queue order: a treap, whose priorities follow from the keys. Each subtree knows the
// gist of its entities, so that a search passes over those that cannot be what it looks for. Example: 10,000 gangs are
// owed a retry, 4 GPUs are free, and one gang needs no more than that. A search for it looks at some 30 of them.
type waiting struct {
	root *Entity
	size int
	// looked counts the entities and subtrees that searches have looked at.
	looked int
}

// spot is an entity's place in a waiting.
type spot struct {
	in              *waiting // nil: in none
	up, left, right *Entity
	weight          uint64
	own, all        gist // the entity's, and that of its subtree
}

// weightOf is a number that looks like a random one, and follows from the key.
func weightOf(k Key) uint64 {
	h := fnv.New64a()
	for _, s := range [...]string{string(k.Type), k.Namespace, k.Name} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	x := h.Sum64() // its high bits are alike for names that differ at the end
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// add puts e in its place.
func (w *waiting) add(e *Entity, own gist, compare func(a, b *Entity) int) {
	e.spot = spot{in: w, weight: weightOf(e.key), own: own}
	w.size++
	at := &w.root
	for *at != nil {
		e.spot.up = *at
		if compare(e, *at) < 0 {
			at = &(*at).spot.left
		} else {
			at = &(*at).spot.right
		}
	}
	*at = e
	for up := e.spot.up; up != nil && heavier(e, up); up = e.spot.up {
		w.rotate(e)
	}
	e.refresh()
}

// heavier reports whether a stands above b.
func heavier(a, b *Entity) bool {
	if a.spot.weight != b.spot.weight {
		return a.spot.weight > b.spot.weight
	}
	return CompareKeys(a.key, b.key) < 0
}

// remove takes e out, also if the order is another one by now.
func (w *waiting) remove(e *Entity) {
	for e.spot.left != nil || e.spot.right != nil {
		child := e.spot.left
		if child == nil || e.spot.right != nil && heavier(e.spot.right, child) {
			child = e.spot.right
		}
		w.rotate(child)
	}
	up := e.spot.up
	*w.link(e) = nil
	w.size--
	e.spot = spot{}
	if up != nil {
		up.refresh()
	}
}

// link is where the tree has e.
func (w *waiting) link(e *Entity) **Entity {
	switch up := e.spot.up; {
	case up == nil:
		return &w.root
	case up.spot.left == e:
		return &up.spot.left
	default:
		return &up.spot.right
	}
}

// rotate puts e above its parent. It refreshes the parent's gist, which is below then, and not e's.
func (w *waiting) rotate(e *Entity) {
	up := e.spot.up
	at := w.link(up)
	var moved *Entity
	if up.spot.left == e {
		moved = e.spot.right
		up.spot.left, e.spot.right = moved, up
	} else {
		moved = e.spot.left
		up.spot.right, e.spot.left = moved, up
	}
	if moved != nil {
		moved.spot.up = up
	}
	*at, e.spot.up, up.spot.up = e, up.spot.up, e
	up.sum()
}

// sum finds the gist of e's subtree.
func (e *Entity) sum() {
	s := &e.spot
	amounts := s.all.need.Amounts[:0]
	s.all = s.own
	s.all.need.Amounts = append(amounts, s.own.need.Amounts...)
	for _, child := range [...]*Entity{s.left, s.right} {
		if child != nil {
			s.all.add(&child.spot.all)
		}
	}
}

// refresh finds the gists of the subtrees anew that e is in.
func (e *Entity) refresh() {
	for ; e != nil; e = e.spot.up {
		e.sum()
	}
}

// walk calls visit for the entities in order, without those of which skip says so, by the gist of one or of a stretch,
// until one call returns true. The tree must not change meanwhile but by the last call.
func (w *waiting) walk(skip func(g *gist) bool, visit func(e *Entity) bool) bool {
	return w.under(w.root, skip, visit)
}

func (w *waiting) under(e *Entity, skip func(g *gist) bool, visit func(e *Entity) bool) bool {
	if e == nil {
		return false
	}
	w.looked++
	if skip(&e.spot.all) {
		return false
	}
	right := e.spot.right
	return w.under(e.spot.left, skip, visit) || !skip(&e.spot.own) && visit(e) || w.under(right, skip, visit)
}

// every is a skip that passes over nothing.
func every(*gist) bool { return false }

// all returns the entities in order.
func (w *waiting) all() []*Entity {
	out := make([]*Entity, 0, w.size)
	w.walk(every, func(e *Entity) bool {
		out = append(out, e)
		return false
	})
	return out
}

// gistOf is what searches know of e.
func (q *Queue) gistOf(e *Entity) gist {
	g := gist{turn: e.state == Active || e.state == Asking, owed: e.owed, asked: never}
	if !e.owed {
		return g
	}
	g.need.Unknown = true // until freshen
	if q.opts.Need != nil && !e.stale {
		e.stale = true
		q.stale = append(q.stale, e)
	}
	return g
}

// freshen finds anew what those entities need of which it may have changed.
func (q *Queue) freshen() {
	for _, e := range q.stale {
		e.stale = false
		if e.owed && e.spot.in != nil {
			e.spot.own.need = q.opts.Need(e)
			e.refresh()
		}
	}
	clear(q.stale)
	q.stale = q.stale[:0]
}

// Renew says that what an entity needs may have changed, or what else a search for room remembers of it.
func (q *Queue) Renew(key Key) {
	if e := q.entities[key]; e != nil {
		q.renew(e)
	}
}

func (q *Queue) renew(e *Entity) {
	if e.lane != nil {
		e.lane.chosen = false
	}
	if e.spot.in != nil {
		e.spot.own = q.gistOf(e)
		e.refresh()
	}
}

// RenewAll is Renew of all entities.
func (q *Queue) RenewAll() {
	for _, e := range q.sorted.all() {
		q.renew(e)
	}
}

// refused notes that Room has refused e at a RoomVersion.
func (q *Queue) refused(e *Entity, version uint64) {
	e.spot.own.asked = version
	e.refresh()
}

// hopeless is a skip of those that certainly have no room now. An entity that is asked anew at the same RoomVersion
// gives the same answer.
func (q *Queue) hopeless(lane string, g *gist, version uint64) bool {
	switch {
	case g.turn || q.plain:
		return false
	case !g.owed || g.asked == version:
		return true
	case g.need.Unknown || q.opts.MayHaveRoom == nil:
		return false
	}
	return !q.opts.MayHaveRoom(lane, &g.need)
}

// Plainly has done what asks for the head of the queue, with a head that is chosen without anything that is remembered
// or known of needs: each entity is asked. The head is the same.
func (q *Queue) Plainly(do func()) {
	q.plain = true
	q.RenewAll()
	do()
	q.plain = false
}

// Looked returns how many entities, and stretches of them, searches for one that may have room have looked at. Tests
// bound it.
func (q *Queue) Looked() int {
	n := q.owed.looked
	for _, l := range q.lane {
		n += l.entities.looked
	}
	return n
}
