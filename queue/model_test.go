package queue

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// model is the queue written down naively: a map of entities, and every question answered by looking at all
// of them. In its states, Active stands for active and owed alike: which of the two an entity is depends on
// when Settle looked at it, and must not matter.
type model struct {
	world    *world
	now      eventlog.Time
	changes  int
	changed  []eventlog.Time // when each change was
	entities map[Key]*modelEntity
	flight   []Key
}

type modelEntity struct {
	key                       Key
	members                   map[types.UID]*modelMember
	state                     State
	failed, erred             bool
	attempts, rejects, errors int
	until, timestamp          eventlog.Time
	failure                   Failure
	since                     eventlog.Time
	changesAtRest             int
	changesAtBegin            int
	seen                      []seenEvent
}

type modelMember struct {
	pod  *v1.Pod
	held bool
	gate string
	// In the attempt under way or the last one: it was taken off its node or refused; it was refused.
	tried, refused bool
}

// seenEvent is an event during an attempt, and the members of then.
type seenEvent struct {
	ev      fwk.ClusterEvent
	only    types.UID
	members []string
}

// world is what the plugins and Room look at.
type world struct {
	gated   map[types.UID]string // the plugin that gates the pod
	free    int
	version uint64
}

var (
	evA = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	evB = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}
	evC = fwk.ClusterEvent{Resource: fwk.PersistentVolume, ActionType: fwk.Add}
	evG = fwk.ClusterEvent{Resource: fwk.StorageClass, ActionType: fwk.Add}
)

// wants is what the hints of the model's plugins say of a pod.
func (w *world) wants(plugin, pod string, ev fwk.ClusterEvent) bool {
	switch plugin {
	case "P":
		return ev == evA && strings.HasSuffix(pod, "0")
	case "R":
		return ev == evB
	case "W":
		return ev == evC && strings.HasSuffix(pod, "1")
	case "G":
		return ev == evG
	case "H":
		return false
	}
	return true // it told no events
}

func (w *world) profile() Profile {
	gate := func(name string) *modelGate { return &modelGate{name: name, world: w} }
	return Profile{
		PreEnqueue: []fwk.PreEnqueuePlugin{gate("G"), gate("H"), gate("I")},
		Hints: hints("P", on(evA, endsWith("0")), on(evB, says(fwk.QueueSkip, nil)), "R", on(evB, nil),
			"W", on(evC, endsWith("1")), "G", on(evG, nil), "H"),
	}
}

func (m *model) test(e *modelEntity, mm *modelMember) {
	if !mm.held {
		mm.gate = m.world.gated[mm.pod.UID]
	}
}

func (m *model) testAll(e *modelEntity) {
	for _, mm := range e.members {
		m.test(e, mm)
	}
}

func (e *modelEntity) count() (ready, gated, held int) {
	for _, mm := range e.members {
		switch {
		case mm.held:
			held++
		case mm.gate != "":
			gated++
		default:
			ready++
		}
	}
	return
}

func (e *modelEntity) priority() int32 {
	p := int32(-1 << 30)
	for _, mm := range e.members {
		p = max(p, *mm.pod.Spec.Priority)
	}
	return p
}

func (m *model) change() {
	m.changes++
	m.changed = append(m.changed, m.now)
}

func (m *model) set(e *modelEntity, s State) {
	m.flight = slices.DeleteFunc(m.flight, func(k Key) bool { return k == e.key })
	e.state = s
	switch s {
	case InFlight:
		m.flight = append(m.flight, e.key)
	case Gated, Unschedulable:
		e.since, e.changesAtRest = m.now, m.changes
	}
}

// rest, requeue and activate are the rules by which an entity finds its place.
func (m *model) rest(e *modelEntity) {
	ready, gated, _ := e.count()
	switch {
	case e.state == InFlight:
	case ready == 0 && gated > 0 && e.state != Gated:
		m.set(e, Gated)
	case ready == 0 && gated == 0:
		m.set(e, Placed)
	case ready > 0 && (e.state == nowhere || e.state == Gated || e.state == Placed):
		m.requeue(e)
	}
}

func (m *model) requeue(e *modelEntity) {
	if e.until > m.now {
		m.goTo(e, Backoff)
	} else {
		m.goTo(e, Active)
	}
}

func (m *model) goTo(e *modelEntity, s State) {
	m.testAll(e)
	ready, _, _ := e.count()
	if ready == 0 {
		m.set(e, nowhere)
		m.rest(e)
		return
	}
	m.set(e, s)
}

func (m *model) advance(now eventlog.Time) {
	before := m.now
	m.now = now
	for _, e := range m.entities {
		if e.state == Backoff && e.until <= now {
			m.goTo(e, Active)
		}
	}
	period := eventlog.Time(DefaultFlushPeriod)
	for look := (before/period + 1) * period; look <= now; look += period {
		for _, e := range m.entities {
			if e.state != Gated && e.state != Unschedulable {
				continue
			}
			if look <= e.since.Add(DefaultFlushAfter) || e.changesAtRest == m.changes {
				continue
			}
			if e.state == Unschedulable {
				m.requeue(e)
				continue
			}
			m.testAll(e)
			if ready, _, _ := e.count(); ready > 0 {
				m.requeue(e)
			} else {
				m.set(e, Gated)
			}
		}
	}
}

func (m *model) add(key Key, pod *v1.Pod) {
	m.change()
	e := m.entities[key]
	if e == nil {
		e = &modelEntity{key: key, timestamp: m.now, members: map[types.UID]*modelMember{}}
		m.entities[key] = e
	}
	mm := &modelMember{pod: pod}
	e.members[pod.UID] = mm
	m.test(e, mm)
	m.rest(e)
}

func (m *model) update(key Key, pod *v1.Pod) {
	m.change()
	e := m.entities[key]
	mm := e.members[pod.UID]
	mm.pod = pod
	if mm.gate != "" {
		m.test(e, mm)
	}
	if e.state == InFlight { // a general Update, which no plugin of the model registered
		e.seen = append(e.seen, seenEvent{ev: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}})
	}
	if e.state == Unschedulable && m.worth(e, seenEvent{ev: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}}) != skip {
		m.requeue(e)
	}
	m.rest(e)
}

func (m *model) delete(key Key, uid types.UID) {
	m.change()
	e := m.entities[key]
	delete(e.members, uid)
	if len(e.members) == 0 {
		m.set(e, nowhere)
		delete(m.entities, key)
		return
	}
	m.rest(e)
}

func (m *model) begin(key Key) {
	e := m.entities[key]
	if e.state == InFlight {
		return
	}
	e.attempts++
	e.changesAtBegin, e.seen = m.changes, nil
	e.failed, e.erred, e.failure = false, false, Failure{}
	for _, mm := range e.members {
		mm.tried, mm.refused = false, false
	}
	m.set(e, InFlight)
}

func (m *model) refuse(key Key, f Failure) {
	if e := m.entities[key]; e.state == InFlight {
		e.blame(f)
	}
}

func (e *modelEntity) blame(f Failure) {
	e.failed, e.erred = true, e.erred || f.Error
	e.failure.Plugins = append(e.failure.Plugins, f.Plugins...)
	e.failure.PendingPlugins = append(e.failure.PendingPlugins, f.PendingPlugins...)
	if mm := e.members[f.UID]; mm != nil && !mm.held {
		mm.tried, mm.refused = true, true
	}
}

// next is the first member that the attempt has not come to.
func (e *modelEntity) next() string {
	var names []string
	for _, mm := range e.members {
		if !mm.held && mm.gate == "" && !(e.state == InFlight && mm.tried) {
			names = append(names, mm.pod.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names[:min(1, len(names))], "")
}

func (m *model) hold(key Key, uid types.UID, held bool) {
	e := m.entities[key]
	mm := e.members[uid]
	mm.held, mm.gate = held, ""
	mm.tried = e.state == InFlight
	m.rest(e)
}

func (m *model) finish(key Key) {
	e := m.entities[key]
	if e.state == InFlight && e.failed {
		m.park(key, Failure{})
		return
	}
	m.set(e, nowhere)
	e.failed, e.failure, e.seen = false, Failure{}, nil
	if ready, _, _ := e.count(); ready == 0 {
		m.rest(e)
		return
	}
	e.timestamp, e.rejects, e.errors, e.until = m.now, 0, 0, 0
	m.goTo(e, Active)
}

func (m *model) park(key Key, f Failure) {
	e := m.entities[key]
	inFlight := e.state == InFlight
	if !inFlight {
		e.erred, e.failure = false, Failure{}
		for _, mm := range e.members {
			mm.refused = false
		}
	}
	m.set(e, nowhere)
	e.blame(f)
	f.Error, e.erred = e.erred, false
	e.timestamp = m.now
	n := &e.rejects
	if f.Error {
		n = &e.errors
	} else {
		e.errors = 0
	}
	*n++
	e.until = m.now + min(sec<<(*n-1), 10*sec)
	what := skip
	for _, s := range e.seen {
		what = max(what, m.worth(e, s))
	}
	if f.Error || !inFlight && e.changesAtBegin != m.changes {
		what = afterBackoff
	}
	e.seen = nil
	ready, _, _ := e.count()
	switch {
	case ready == 0:
		m.rest(e)
	case what == immediately:
		m.goTo(e, Active)
	case what == afterBackoff:
		m.requeue(e)
	default:
		m.set(e, Unschedulable)
		if e.changesAtBegin != m.changes {
			m.change()
		}
	}
}

// worth is what an event does for an entity with its failure, over the members named in it.
func (m *model) worth(e *modelEntity, s seenEvent) strategy {
	if s.ev == wildcard {
		if _, ok := e.members[s.only]; ok || s.only == "" {
			return afterBackoff
		}
		return skip
	}
	if len(e.failure.Plugins)+len(e.failure.PendingPlugins) == 0 {
		return afterBackoff
	}
	what := skip
	for _, name := range s.members {
		for _, p := range e.failure.Plugins {
			if m.world.wants(p, name, s.ev) {
				what = max(what, afterBackoff)
			}
		}
		for _, p := range e.failure.PendingPlugins {
			if m.world.wants(p, name, s.ev) {
				what = immediately
			}
		}
	}
	if slices.Contains(e.failure.Plugins, "unheard") {
		what = max(what, afterBackoff)
	}
	return what
}

func (m *model) move(ev fwk.ClusterEvent, only types.UID) {
	m.change()
	for _, e := range m.entities {
		s := seenEvent{ev: ev, only: only}
		refused := false
		for _, mm := range e.members {
			refused = refused || mm.refused && !mm.held
		}
		for _, mm := range e.members {
			if e.state == InFlight || !mm.held && (mm.refused || !refused) {
				s.members = append(s.members, mm.pod.Name)
			}
		}
		_, concerned := e.members[only]
		for _, mm := range e.members {
			if mm.gate != "" && (ev == wildcard && (only == "" || concerned) || ev != wildcard && m.world.wants(mm.gate, "", ev)) {
				m.test(e, mm)
			}
		}
		switch e.state {
		case InFlight:
			e.seen = append(e.seen, s)
		case Unschedulable:
			switch m.worth(e, s) {
			case immediately:
				m.goTo(e, Active)
			case afterBackoff:
				m.requeue(e)
			}
		}
		m.rest(e)
	}
}

func (m *model) activate(key Key) {
	m.change()
	e := m.entities[key]
	switch e.state {
	case InFlight:
		e.seen = append(e.seen, seenEvent{ev: wildcard})
	case Unschedulable, Backoff, Gated:
		m.goTo(e, Active)
	}
}

func (m *model) retry(key Key) {
	m.change()
	e := m.entities[key]
	switch e.state {
	case InFlight:
		e.seen = append(e.seen, seenEvent{ev: wildcard})
	case Unschedulable:
		m.requeue(e)
	}
}

func (m *model) recheck(key Key) {
	m.change()
	e := m.entities[key]
	m.testAll(e)
	m.rest(e)
}

// head is the first in queue order that is worth an attempt.
func (m *model) head() string {
	if len(m.flight) > 0 {
		return m.flight[0].String()
	}
	var due []*modelEntity
	for _, e := range m.entities {
		ready, _, _ := e.count()
		if e.state == Active && (!e.failed || ready <= m.world.free) {
			due = append(due, e)
		}
	}
	if len(due) == 0 {
		return "none"
	}
	return slices.MinFunc(due, func(a, b *modelEntity) int {
		return cmp.Or(cmp.Compare(b.priority(), a.priority()), cmp.Compare(a.timestamp, b.timestamp), CompareKeys(a.key, b.key))
	}).key.String()
}

// String shows the model as show does the queue.
func (m *model) String() string {
	var b strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(m.entities), CompareKeys) {
		e := m.entities[key]
		ready, gated, held := e.count()
		fmt.Fprintf(&b, "%v %v failed=%v %d/%d/%d until=%d at=%d ready=%d gated=%d held=%d next=%s\n", key, e.state, e.failed,
			e.attempts, e.rejects, e.errors, e.until, e.timestamp, ready, gated, held, e.next())
	}
	return b.String()
}

func show(q *Queue) string {
	var b strings.Builder
	for _, e := range q.All() {
		s := e.State()
		if e.Owed() {
			s = Active
		}
		next := ""
		if p := e.Next(); p != nil {
			next = p.Name
		}
		fmt.Fprintf(&b, "%v %v failed=%v %d/%d/%d until=%d at=%d ready=%d gated=%d held=%d next=%s\n", e.key, s, e.failed,
			e.attempts, e.unschedulableCount, e.errorCount, e.backoffUntil, e.timestamp, e.NumReady(), e.NumGated(), e.NumHeld(), next)
	}
	return b.String()
}

func TestTheQueueIsWhatTheModelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{gated: map[types.UID]string{}, free: 2}
		room := func(o *Options) {
			o.Room = func(e *Entity) bool { return e.NumReady() <= w.free }
		}
		r := &run{
			t: t, w: w,
			m: &model{world: w, now: epoch, entities: map[Key]*modelEntity{}},
			q: newQueue(t, w.profile(), room, func(o *Options) { o.RoomVersion = func() uint64 { return w.version } }),
			// plain asks Room anew after every change: the version is a memo only.
			plain: newQueue(t, w.profile(), room),
		}
		t.Repeat(r.actions())
	})
}

// run is one history told to the queue, to one without RoomVersion, and to the model.
type run struct {
	t        *rapid.T
	w        *world
	m        *model
	q, plain *Queue
}

func (r *run) both(f func(q *Queue)) { f(r.q); f(r.plain) }

// entity draws one that exists.
func (r *run) entity() *modelEntity {
	if len(r.m.entities) == 0 {
		r.t.Skip("the queue is empty")
	}
	keys := slices.SortedFunc(maps.Keys(r.m.entities), CompareKeys)
	return r.m.entities[rapid.SampledFrom(keys).Draw(r.t, "entity")]
}

func (r *run) uid(e *modelEntity) types.UID {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(e.members))).Draw(r.t, "pod")
}

func (r *run) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"add":        func(*rapid.T) { r.add() },
		"attempt":    func(*rapid.T) { r.attempt() },
		"attempt2":   func(*rapid.T) { r.attempt() },
		"move":       func(*rapid.T) { r.move() },
		"time":       func(*rapid.T) { r.time() },
		"world":      func(*rapid.T) { r.change() },
		"pod":        func(*rapid.T) { r.pod() },
		"entity":     func(*rapid.T) { r.tellEntity() },
		"wake":       func(*rapid.T) { r.wake() },
		"beforeWake": func(*rapid.T) { r.beforeWake() },
		"":           func(*rapid.T) { r.check() },
	}
}

func (r *run) add() {
	g := rapid.IntRange(0, 5).Draw(r.t, "entity")
	i := 0
	key := podKey(fmt.Sprintf("e%d-0", g))
	if g >= 3 {
		i = rapid.IntRange(0, 3).Draw(r.t, "member")
		key = gangKey(fmt.Sprintf("e%d", g))
	}
	pod := r.draw(fmt.Sprintf("e%d-%d", g, i))
	if e := r.m.entities[key]; e != nil && e.members[pod.UID] != nil {
		r.t.Skip("it is there")
	}
	r.both(func(q *Queue) { q.Add(key, pod) })
	r.m.add(key, pod)
}

func (r *run) draw(name string) *v1.Pod {
	return withPriority(podNamed(name), rapid.SampledFrom([]int32{0, 0, 0, 1}).Draw(r.t, "priority"))
}

// attempt lets the head, or any entity, go one step of an attempt.
func (r *run) attempt() {
	e := r.entity()
	if h := r.q.Head(); h != nil && rapid.Bool().Draw(r.t, "head") {
		e = r.m.entities[h.Key()]
	}
	key := e.key
	switch what := rapid.SampledFrom([]string{"begin", "hold", "unhold", "finish", "refuse", "refuse", "park", "park"}).Draw(r.t, "step"); what {
	case "begin":
		r.both(func(q *Queue) { q.Begin(key) })
		r.m.begin(key)
	case "hold", "unhold":
		uid := r.uid(e)
		if e.members[uid].held == (what == "hold") {
			r.t.Skip("it is so already")
		}
		r.both(func(q *Queue) {
			if what == "hold" {
				q.Hold(key, uid)
			} else {
				q.Unhold(key, uid)
			}
		})
		r.m.hold(key, uid, what == "hold")
	case "finish":
		r.both(func(q *Queue) { q.Finish(key) })
		r.m.finish(key)
	case "park", "refuse":
		names := func(of ...string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID[string]).Draw(r.t, "plugins")
		}
		f := Failure{Plugins: names("P", "R", "H", "unheard"), PendingPlugins: names("W", "R"), Error: rapid.IntRange(0, 4).Draw(r.t, "error") == 0}
		if what == "refuse" || rapid.Bool().Draw(r.t, "of one") {
			f.UID = r.uid(e)
		}
		if what == "refuse" {
			r.both(func(q *Queue) { q.Refuse(key, f) })
			r.m.refuse(key, f)
			return
		}
		r.both(func(q *Queue) { q.Park(key, f) })
		r.m.park(key, f)
	}
}

func (r *run) move() {
	ev := rapid.SampledFrom([]fwk.ClusterEvent{evA, evB, evC, evG, wildcard}).Draw(r.t, "event")
	var obj any
	var only types.UID
	if ev == wildcard && rapid.Bool().Draw(r.t, "for one") {
		only = r.uid(r.entity())
		pod := podNamed("x")
		pod.UID = only
		obj = pod
	}
	r.both(func(q *Queue) { q.Move(ev, nil, obj) })
	r.m.move(ev, only)
}

func (r *run) advance(to eventlog.Time) {
	r.both(func(q *Queue) { q.Advance(to) })
	r.m.advance(to)
}

func (r *run) time() {
	d := rapid.SampledFrom([]time.Duration{0, 1, time.Second, 3 * time.Second, 29 * time.Second, 5 * time.Minute}).Draw(r.t, "time")
	r.advance(r.m.now.Add(d))
}

// change changes what plugins and Room see. Who is gated is told to nobody.
func (r *run) change() {
	if rapid.Bool().Draw(r.t, "free") {
		free := rapid.IntRange(0, 4).Draw(r.t, "free")
		if free > r.w.free {
			r.w.version++
			r.m.change()
			r.both(func(q *Queue) { q.changed() })
		}
		r.w.free = free
		return
	}
	uid := r.uid(r.entity())
	r.w.gated[uid] = rapid.SampledFrom([]string{"G", "H", "I", ""}).Draw(r.t, "gate")
	if r.w.gated[uid] == "" {
		delete(r.w.gated, uid)
	}
}

func (r *run) pod() {
	e := r.entity()
	key, uid := e.key, r.uid(e)
	if rapid.Bool().Draw(r.t, "delete") {
		r.both(func(q *Queue) { q.Delete(key, uid) })
		r.m.delete(key, uid)
		return
	}
	pod := r.draw(e.members[uid].pod.Name)
	r.both(func(q *Queue) { q.Update(key, nil, pod) })
	r.m.update(key, pod)
}

func (r *run) tellEntity() {
	key := r.entity().key
	if rapid.Bool().Draw(r.t, "activate") {
		r.both(func(q *Queue) { q.Activate(key) })
		r.m.activate(key)
		return
	}
	if rapid.Bool().Draw(r.t, "retry") {
		r.both(func(q *Queue) { q.Retry(key) })
		r.m.retry(key)
		return
	}
	r.both(func(q *Queue) { q.Recheck(key) })
	r.m.recheck(key)
}

// wake advances to when the queue wants to be woken: then something must happen.
func (r *run) wake() {
	at, ok := r.q.Wake()
	if !ok {
		r.t.Skip("never")
	}
	if at <= r.m.now {
		r.t.Fatalf("Wake says %v, and it is %v", at, r.m.now)
	}
	before := r.q.AppendState(nil)
	r.advance(at)
	if bytes.Equal(before, r.q.AppendState(nil)) {
		r.t.Fatalf("nothing happened at %v", at)
	}
}

// beforeWake advances to some time before that: then nothing must happen.
func (r *run) beforeWake() {
	at, ok := r.q.Wake()
	if !ok {
		at = r.m.now.Add(time.Hour)
	}
	before := r.q.AppendState(nil)
	r.advance(eventlog.Time(rapid.Int64Range(int64(r.m.now), int64(at)-1).Draw(r.t, "before")))
	if !bytes.Equal(before, r.q.AppendState(nil)) {
		r.t.Fatalf("something happened before %v", at)
	}
}

func (r *run) check() {
	r.both(func(q *Queue) { q.Settle() })
	checkPlaces(r.t, r.q)
	if got, want := show(r.q), r.m.String(); got != want {
		r.t.Fatalf("the queue is\n%sthe model is\n%s", got, want)
	}
	head := "none"
	if e := r.q.Head(); e != nil {
		head = e.Key().String()
	}
	if want := r.m.head(); head != want {
		r.t.Fatalf("the head is %s, want %s, of\n%s", head, want, r.m)
	}
	if !bytes.Equal(r.q.AppendState(nil), r.plain.AppendState(nil)) {
		r.t.Fatal("RoomVersion makes a difference")
	}
	if !slices.IsSortedFunc(r.q.owed, r.q.compare) {
		r.t.Fatal("the owed are out of order")
	}
}
