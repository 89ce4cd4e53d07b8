package ledger

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// line has the entities of the queue that are not placed: who waits, who is the first that requests a resource, and
// how long each waited.
type line struct {
	b       *book
	waiters map[queue.Key]*waiter
	members map[types.UID]*waiter // by ready pod
	kinds   map[string]*kind
	heaps   []ranking // by resource
	aside   []ranking // by resource, in any order: what is impossible, see shapes
	asideOf versions  // of shapes, that they are of
	stamps  uint64    // the last one given

	pods   []types.UID        // to look at
	keys   map[queue.Key]bool // of the entities to look at
	gated  map[*waiter]bool
	regate bool // an entity may have left its gate unseen
	// placed are the entities that got their nodes at this instant, with their groups.
	placed map[queue.Key]string

	waits []wait
}

// waiter is an entity of the queue.
type waiter struct {
	key   queue.Key
	e     *queue.Entity
	ready map[types.UID]*kind // its ready members
	kinds map[*kind]int       // how many of them there are
	needs []bool              // by resource: whether one requests it
	place place
	waits bool   // it has ready members, and is not gated
	stamp uint64 // of its valid place in the rankings; 0 for none
	open  int    // the number of its wait in line.waits, from 1; 0 for none
	asks  *asks  // a memo
	ask   string // the key of asks
	kept  bool   // asks is for a state in which room is kept
	// never is a memo: whether it is impossible, as of judged. claims says that a ready member names a claim.
	never, claims bool
	judged        versions
}

// wait is the time from the instant at which an entity had all that it needs, but nodes, to its placement.
type wait struct {
	key    queue.Key
	group  string
	begin  eventlog.Time // 0: it waited when the part began
	active eventlog.Time // when it was active for the first time
	end    eventlog.Time
	placed bool
}

// place is the place of an entity in the order of the queue.
type place struct {
	priority int32
	since    eventlog.Time
}

// rank is an entity in a ranking; it is void once the waiter has another stamp.
type rank struct {
	place
	key   queue.Key
	w     *waiter
	stamp uint64
}

// ranking has entities in the order of the queue: by priority, then by how long they are active.
type ranking []rank

func (r ranking) Len() int      { return len(r) }
func (r ranking) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r ranking) Less(i, j int) bool {
	a, b := &r[i], &r[j]
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.since, b.since),
		queue.CompareKeys(a.key, b.key)) < 0
}
func (r *ranking) Push(x any) { *r = append(*r, x.(rank)) }
func (r *ranking) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}

func newLine(b *book) line {
	return line{b: b, waiters: map[queue.Key]*waiter{}, members: map[types.UID]*waiter{}, kinds: map[string]*kind{},
		keys: map[queue.Key]bool{}, gated: map[*waiter]bool{}, placed: map[queue.Key]string{}}
}

// touch notes an entity.
func (l *line) touch(key queue.Key) { l.keys[key] = true }

// settle takes in the changes by the entries of this instant.
func (l *line) settle() {
	q := scheduler.QueueAsIs(l.b.m)
	if q == nil {
		return
	}
	if l.b.all {
		l.restart(q)
		l.pods = l.pods[:0]
	}
	for _, uid := range l.pods {
		l.lookAtPod(q, uid)
	}
	if l.regate {
		// any order: a set
		for w := range l.gated {
			if w.e.State() != queue.Gated {
				l.keys[w.key] = true
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(l.keys), queue.CompareKeys) {
		l.lookAt(q, key)
	}
	for _, key := range slices.SortedFunc(maps.Keys(l.placed), queue.CompareKeys) {
		l.waits = append(l.waits, wait{key: key, group: l.placed[key], begin: l.b.now, end: l.b.now, placed: true})
	}
	l.pods, l.regate = l.pods[:0], false
	clear(l.keys)
	clear(l.placed)
}

// restart looks at all entities again. Open waits stay open.
func (l *line) restart(q *queue.Queue) {
	clear(l.members)
	clear(l.kinds)
	clear(l.gated)
	l.heaps, l.aside = nil, nil
	clear(l.b.shapes.offers)
	// any order: a set
	for key, w := range l.waiters {
		w.ready, w.kinds, w.needs, w.stamp, w.asks = nil, nil, nil, 0, nil
		l.keys[key] = true
	}
	for _, e := range q.All() {
		l.keys[e.Key()] = true
	}
}

// lookAtPod counts a pod among the ready members of its entity, or not.
func (l *line) lookAtPod(q *queue.Queue, uid types.UID) {
	if old := l.members[uid]; old != nil {
		k := old.ready[uid]
		delete(l.members, uid)
		delete(old.ready, uid)
		if old.kinds[k]--; old.kinds[k] == 0 {
			delete(old.kinds, k)
		}
		l.keys[old.key] = true
	}
	e := q.Find(uid)
	if e == nil {
		return
	}
	l.keys[e.Key()] = true
	if w := l.waiters[e.Key()]; w != nil && w.e == e && w.ready != nil && !e.Resize() && q.Ready(uid) {
		l.join(w, uid)
	}
}

func (l *line) join(w *waiter, uid types.UID) {
	if p := l.b.m.Cluster().Pods().Get(uid); p != nil {
		k := l.b.kindOf(p)
		l.members[uid], w.ready[uid] = w, k
		w.kinds[k]++
	}
}

// forget forgets the members of an entity.
func (l *line) forget(w *waiter) {
	// any order: a set
	for uid := range w.ready {
		delete(l.members, uid)
	}
	w.ready, w.kinds = nil, nil
}

// recount looks at all members of an entity.
func (l *line) recount(w *waiter) {
	l.forget(w)
	w.ready, w.kinds = map[types.UID]*kind{}, map[*kind]int{}
	for _, pod := range w.e.Ready() {
		l.join(w, pod.UID)
	}
}

// lookAt takes in the present state of an entity.
func (l *line) lookAt(q *queue.Queue, key queue.Key) {
	e, w := q.Get(key), l.waiters[key]
	if e == nil || e.State() == queue.Placed || e.Resize() {
		if w != nil {
			l.leave(w)
		}
		return
	}
	if w == nil {
		w = &waiter{key: key}
		l.waiters[key] = w
	}
	w.e, w.asks, w.judged = e, nil, versions{}
	if w.ready == nil || len(w.ready) != e.NumReady() {
		l.recount(w)
	}
	delete(l.gated, w)
	if e.State() == queue.Gated {
		l.gated[w] = true
	}
	w.waits = e.State() != queue.Gated && e.NumReady() > 0
	l.rerank(w)
	waits := w.waits && !l.hasMinimum(key)
	switch {
	case waits && w.open == 0:
		l.open(w)
	case !waits && w.open > 0:
		l.close(w)
	}
}

// rerank ranks an entity again if its place or its requests are others, or if it is not impossible any more.
func (l *line) rerank(w *waiter) {
	if !w.waits || w.never && !l.impossible(w) {
		w.stamp = 0
	}
	p, needs := placeOf(w.e), l.needsOf(w)
	if w.waits && (w.stamp == 0 || p != w.place || !slices.Equal(needs, w.needs)) {
		w.place, w.needs = p, needs
		l.rank(w)
	}
}

// placeOf returns the place of an entity in the order.
func placeOf(e *queue.Entity) place {
	p := place{e.Priority(), e.FirstActive()}
	if p.since == 0 {
		p.since = 1<<63 - 1
	}
	return p
}

// needsOf returns, by resource, whether a ready member requests it.
func (l *line) needsOf(w *waiter) []bool {
	needs := make([]bool, len(l.b.resources))
	// any order: a set
	for k := range w.kinds {
		for res, amount := range k.amounts {
			needs[res] = needs[res] || amount > 0
		}
	}
	return needs
}

// rank puts an entity in the ranking of each resource that it requests.
func (l *line) rank(w *waiter) {
	l.stamps++
	w.stamp = l.stamps
	for res, needs := range w.needs {
		for len(l.heaps) <= res {
			l.heaps, l.aside = append(l.heaps, nil), append(l.aside, nil)
		}
		if needs {
			heap.Push(&l.heaps[res], rank{w.place, w.key, w, w.stamp})
		}
	}
}

// first returns the first entity that waits, requests a resource and is not impossible. It returns nil for none.
func (l *line) first(res int) *waiter {
	if res >= len(l.heaps) {
		return nil
	}
	if l.asideOf != l.b.shapes.versions {
		l.reconsider()
	}
	h := &l.heaps[res]
	for len(*h) > 0 {
		top := (*h)[0]
		if top.w.stamp == top.stamp {
			if !l.impossible(top.w) {
				return top.w
			}
			l.aside[res] = append(l.aside[res], top)
		}
		heap.Pop(h)
	}
	return nil
}

// reconsider ranks again what was impossible.
func (l *line) reconsider() {
	l.asideOf = l.b.shapes.versions
	for res := range l.aside {
		for _, r := range l.aside[res] {
			if r.w.stamp == r.stamp {
				heap.Push(&l.heaps[res], r)
			}
		}
		l.aside[res] = l.aside[res][:0]
	}
}

// anyImpossible reports whether an entity waits and requests a resource, but is impossible. Call first before.
func (l *line) anyImpossible(res int) bool {
	if res >= len(l.aside) {
		return false
	}
	l.aside[res] = slices.DeleteFunc(l.aside[res], func(r rank) bool { return r.w.stamp != r.stamp })
	return len(l.aside[res]) > 0
}

// leave takes an entity out: it is placed, or gone.
func (l *line) leave(w *waiter) {
	if w.open > 0 {
		l.close(w)
	}
	l.forget(w)
	w.stamp = 0
	delete(l.gated, w)
	delete(l.waiters, w.key)
}

// open begins a wait. One that the part began with has no beginning here.
func (l *line) open(w *waiter) {
	x := wait{key: w.key, begin: l.b.now, active: w.e.FirstActive()}
	if l.b.m.Seq() == l.b.since {
		x.begin = 0
	}
	x.group = l.groupOf(w.key)
	l.waits = append(l.waits, x)
	w.open = len(l.waits)
}

// close ends a wait.
func (l *line) close(w *waiter) {
	x := &l.waits[w.open-1]
	_, placed := l.placed[w.key]
	x.end, x.placed = l.b.now, placed || l.isPlaced(w.key)
	delete(l.placed, w.key)
	w.open = 0
}

// mayPlace returns the entities that a decision may give their nodes: ones that do not have them yet.
func (l *line) mayPlace(d *eventlog.Decision) (keys []queue.Key) {
	if d.Outcome != eventlog.Scheduled && len(d.Allowed) == 0 {
		return nil
	}
	for _, uid := range append([]types.UID{d.UID}, d.Allowed...) {
		key := l.b.keyOf(uid)
		if key != (queue.Key{}) && !slices.Contains(keys, key) && !l.isPlaced(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// notePlaced notes the ones that have their nodes now.
func (l *line) notePlaced(keys []queue.Key) {
	for _, key := range keys {
		if l.isPlaced(key) {
			l.placed[key] = l.groupOf(key)
		}
	}
}

// groupOf returns the group of an entity: the one of its first pod.
func (l *line) groupOf(key queue.Key) string {
	c := l.b.m.Cluster()
	if key.Type == fwk.PodKeyType {
		if p := c.Pods().Named(key.Namespace, key.Name); p != nil {
			return l.b.kept(l.b.by.of(c, p))
		}
	}
	for _, g := range l.b.gangsOf(key) {
		for _, p := range g.Members() {
			return l.b.kept(l.b.by.of(c, p))
		}
	}
	return ""
}

// isPlaced reports whether an entity has its nodes: a gang its minimum.
func (l *line) isPlaced(key queue.Key) bool {
	if key.Type == fwk.PodKeyType {
		p := l.b.m.Cluster().Pods().Named(key.Namespace, key.Name)
		return p != nil && p.Stage >= cluster.Binding
	}
	return l.hasMinimum(key)
}

// gangsOf returns the gangs of an entity.
func (b *book) gangsOf(key queue.Key) []*cluster.Group {
	gangs := b.m.Cluster().Gangs()
	switch key.Type {
	case fwk.PodGroupKeyType:
		if g := gangs.Named(key.Namespace, key.Name); g != nil {
			return []*cluster.Group{g}
		}
	case fwk.CompositePodGroupKeyType:
		if c := gangs.Composite(key.Namespace, key.Name); c != nil {
			return c.Gangs()
		}
	}
	return nil
}

// hasMinimum reports whether a gang has its minimum on nodes, or a composite enough of its gangs.
func (l *line) hasMinimum(key queue.Key) bool {
	gangs := l.b.gangsOf(key)
	if len(gangs) == 0 {
		return false
	}
	unit := gangs[0].Tally(nil)
	return unit.Satisfied()
}

// asking returns the requests of an entity, and their key.
func (w *waiter) asking(b *book) (asks, string) {
	kept := b.m.AnyKept()
	if w.asks != nil && w.kept == kept && len(w.asks.labels) == 0 && !kept {
		return *w.asks, w.ask
	}
	a := &asks{gang: w.key.Type != fwk.PodKeyType}
	// any order: sorted right below
	for k := range w.kinds {
		a.kinds = append(a.kinds, k)
	}
	slices.SortFunc(a.kinds, func(x, y *kind) int { return cmp.Compare(x.key, y.key) })
	if gangs := b.gangsOf(w.key); len(gangs) > 0 {
		if a.labels = levelsOf(gangs[0]); len(a.labels) > 0 {
			a.fixed = b.fixedDomain(gangs[0], a.labels)
		}
	}
	if kept {
		a.by, a.pod = w.key, b.podOf(w)
	}
	w.asks, w.ask, w.kept = a, a.key(), kept
	return *a, w.ask
}

// podOf returns the first ready pod of an entity.
func (b *book) podOf(w *waiter) *cluster.Pod {
	ready := w.e.Ready()
	if len(ready) == 0 {
		return nil
	}
	return b.m.Cluster().Pods().Get(ready[0].UID)
}

// firsts returns the name of the first entity that waits, by the resource that it requests.
func (b *book) firsts() map[v1.ResourceName]string {
	names := map[v1.ResourceName]string{}
	for res, name := range b.resources {
		if w := b.line.first(res); w != nil {
			names[name] = w.key.Namespace + "/" + w.key.Name
		}
	}
	return names
}
