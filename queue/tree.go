package queue

import (
	"hash/fnv"
	"time"
)

// Need is the least that an entity needs, for the search for an entity that may have room. Without room for its Need an
// entity certainly has none. With room for it, Options.Room decides.
type Need struct {
	// Unknown means that the need is not known: Room is asked.
	Unknown bool
	// Amounts are amounts of resources. The function that returns Needs defines their order. Missing ones are 0.
	Amounts []int64
	// Priority is a bound of whom the entity may preempt: pods of lower priority only.
	Priority int32
	// Preempts says that there may be room whenever a pod of lower priority has a node, whatever the amounts are.
	Preempts bool
	// Longest is the longest time for which the entity holds the amounts, 0 for no limit.
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

// summary describes one entity, or all entities of a subtree, for searches.
type summary struct {
	// due says that one is active or asking: a search always looks at it.
	due bool
	// retryable means that one is retryable. need is the least need of these.
	retryable bool
	need      Need
	// asked is the RoomVersion at which Room has refused all of the retryable ones.
	asked uint64
	// passed means that FirstInLane skips all of them.
	passed bool
}

// neverAsked is an asked that no RoomVersion is.
const neverAsked = ^uint64(0)

// add combines another summary with g.
func (g *summary) add(o *summary) {
	g.due, g.passed = g.due || o.due, g.passed && o.passed
	if !o.retryable {
		return
	}
	if !g.retryable {
		amounts := append(g.need.Amounts[:0], o.need.Amounts...)
		g.retryable, g.need, g.asked = true, o.need, o.asked
		g.need.Amounts = amounts
		return
	}
	g.need.least(&o.need)
	if g.asked != o.asked {
		g.asked = neverAsked
	}
}

// tree is a set of entities in queue order. It is a treap whose weights follow from the keys. Each subtree has the
// summary of its entities, so that a search skips subtrees. Example: 10,000 gangs are retryable, 4 GPUs are free, and
// one gang needs at most that. A search for it visits some 30 of them.
type tree struct {
	root *Entity
	size int
	// looked counts the entities and subtrees that searches have visited.
	looked int
}

// treeNode is an entity's node in a tree.
type treeNode struct {
	in              *tree // nil: in none
	up, left, right *Entity
	weight          uint64
	own, all        summary // of the entity, and of its subtree
}

// weightOf returns the weight of a key: a number that looks random.
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

// add puts e into the tree.
func (w *tree) add(e *Entity, own summary, compare func(a, b *Entity) int) {
	e.node = treeNode{in: w, weight: weightOf(e.key), own: own}
	w.size++
	at := &w.root
	for *at != nil {
		e.node.up = *at
		if compare(e, *at) < 0 {
			at = &(*at).node.left
		} else {
			at = &(*at).node.right
		}
	}
	*at = e
	for up := e.node.up; up != nil && heavier(e, up); up = e.node.up {
		w.rotate(e)
	}
	e.refresh()
}

// heavier reports whether a is nearer to the root than b.
func heavier(a, b *Entity) bool {
	if a.node.weight != b.node.weight {
		return a.node.weight > b.node.weight
	}
	return CompareKeys(a.key, b.key) < 0
}

// remove takes e out. The order may have changed since it was added.
func (w *tree) remove(e *Entity) {
	for e.node.left != nil || e.node.right != nil {
		child := e.node.left
		if child == nil || e.node.right != nil && heavier(e.node.right, child) {
			child = e.node.right
		}
		w.rotate(child)
	}
	up := e.node.up
	*w.link(e) = nil
	w.size--
	e.node = treeNode{}
	if up != nil {
		up.refresh()
	}
}

// link returns the pointer that points to e.
func (w *tree) link(e *Entity) **Entity {
	switch up := e.node.up; {
	case up == nil:
		return &w.root
	case up.node.left == e:
		return &up.node.left
	default:
		return &up.node.right
	}
}

// rotate puts e above its parent. It finds the summary of the former parent, and leaves e's to the caller.
func (w *tree) rotate(e *Entity) {
	up := e.node.up
	at := w.link(up)
	var moved *Entity
	if up.node.left == e {
		moved = e.node.right
		up.node.left, e.node.right = moved, up
	} else {
		moved = e.node.left
		up.node.right, e.node.left = moved, up
	}
	if moved != nil {
		moved.node.up = up
	}
	*at, e.node.up, up.node.up = e, up.node.up, e
	up.summarize()
}

// summarize finds the summary of e's subtree.
func (e *Entity) summarize() {
	s := &e.node
	amounts := s.all.need.Amounts[:0]
	s.all = s.own
	s.all.need.Amounts = append(amounts, s.own.need.Amounts...)
	for _, child := range [...]*Entity{s.left, s.right} {
		if child != nil {
			s.all.add(&child.node.all)
		}
	}
}

// refresh updates the summaries of the subtrees that have e.
func (e *Entity) refresh() {
	for ; e != nil; e = e.node.up {
		e.summarize()
	}
}

// walk calls visit for the entities in order until one call returns true. It leaves out entities and subtrees for whose
// summary skip reports true. Only the last call may change the tree.
func (w *tree) walk(skip func(g *summary) bool, visit func(e *Entity) bool) bool {
	return w.under(w.root, skip, visit)
}

func (w *tree) under(e *Entity, skip func(g *summary) bool, visit func(e *Entity) bool) bool {
	if e == nil {
		return false
	}
	w.looked++
	if skip(&e.node.all) {
		return false
	}
	right := e.node.right
	return w.under(e.node.left, skip, visit) || !skip(&e.node.own) && visit(e) || w.under(right, skip, visit)
}

// skipNone is a skip that leaves nothing out.
func skipNone(*summary) bool { return false }

// all returns the entities in order.
func (w *tree) all() []*Entity {
	out := make([]*Entity, 0, w.size)
	w.walk(skipNone, func(e *Entity) bool {
		out = append(out, e)
		return false
	})
	return out
}

// summaryOf returns the summary of e.
func (q *Queue) summaryOf(e *Entity) summary {
	g := summary{due: e.state == Active || e.state == Asking, retryable: e.retryable, asked: neverAsked}
	if !e.retryable {
		return g
	}
	g.need.Unknown = true // until updateNeeds
	if q.opts.Need != nil && !e.stale {
		e.stale = true
		q.stale = append(q.stale, e)
	}
	return g
}

// updateNeeds finds what the entities need for which that may have changed.
func (q *Queue) updateNeeds() {
	for _, e := range q.stale {
		e.stale = false
		if e.retryable && e.node.in != nil {
			e.node.own.need = q.opts.Need(e)
			e.refresh()
		}
	}
	clear(q.stale)
	q.stale = q.stale[:0]
}

// Renew tells the queue that what an entity needs may have changed, or what else a search for room remembers of it.
func (q *Queue) Renew(key Key) {
	if e := q.entities[key]; e != nil {
		q.renew(e)
	}
}

func (q *Queue) renew(e *Entity) {
	if e.lane != nil {
		e.lane.chosen = false
	}
	if e.node.in != nil {
		e.node.own = q.summaryOf(e)
		e.refresh()
	}
}

// refused notes that Room has refused e at a RoomVersion.
func (q *Queue) refused(e *Entity, version uint64) {
	e.node.own.asked = version
	e.refresh()
}

// hasNoRoom is a skip of entities that certainly have no room now. At the same RoomVersion Room gives the same answer
// again.
func (q *Queue) hasNoRoom(lane string, g *summary, version uint64) bool {
	switch {
	case g.due || q.plain:
		return false
	case !g.retryable || g.asked == version:
		return true
	case g.need.Unknown || q.opts.MayHaveRoom == nil:
		return false
	}
	return !q.opts.MayHaveRoom(lane, &g.need)
}

// WithoutMemos calls do, which asks for the head of the queue. Meanwhile ChooseHead uses no memo and no Need: it asks
// Room of each entity. The head is the same.
func (q *Queue) WithoutMemos(do func()) {
	q.plain = true
	for _, e := range q.sorted.all() {
		q.renew(e)
	}
	do()
	q.plain = false
}

// Looked returns at how many entities and subtrees searches for one that may have room have looked. Tests bound it.
func (q *Queue) Looked() int {
	n := q.retryable.looked + q.lanes.looked
	for _, set := range q.lanes.sets {
		for _, l := range set.lanes {
			n += l.entities.looked
		}
	}
	return n
}
