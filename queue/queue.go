package queue

import (
	"context"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// nowhere is the state of an entity that is in no place of the queue while a method moves it.
const nowhere State = 0

// Queue is the scheduling queue. The zero value is not usable: call New.
type Queue struct {
	opts Options
	ctx  context.Context // for PreEnqueue: carries a logger that discards

	now eventlog.Time // of the last SetTime
	// changes counts calls that say that the world has changed, and changedAt is the time of the last one. An entity
	// that came to rest at the same count (Entity.stamp) has met nothing new since: a flush would only repeat its
	// last attempt.
	changes   uint64
	changedAt eventlog.Time
	regated   []types.UID // see TakeRegated

	entities map[Key]*Entity
	sorted   byKey
	byUID    map[types.UID]*member
	byName   map[types.NamespacedName]*member
	counts   Counts

	active    entityHeap
	backoff   entityHeap
	flight    []*Entity // in the order of StartAttempt
	retryable tree      // those in no lane; see room.go
	// the entities in backoff that may be attempted early, in the order of early attempts; see early.go
	early   []*Entity
	alike   []*refusedAlike // the other unschedulable ones by reason; see hints.go
	lanes   laneSets        // of those with a lane
	resting restList        // unschedulable (not retryable) and gated, by since; see timers.go
	outside restList        // the resting entities that are flushed also if nothing has changed; see timers.go

	alikeByReason map[string]*refusedAlike
	pluginsByName map[pluginName]*plugin
	pluginsOf     map[string][]*plugin // by profile: those in Profile.Hints, by name
	gating        []*plugin            // the plugins that ever gated a pod, by profile and name
	gatingNow     []*plugin            // scratch of Move
	events        map[eventKind]int

	// stale are the entities whose needs must be computed again before a search for room. They are part of a memo.
	stale []*Entity
	plain bool // see WithoutMemos
	// earlyAsked and roomVersion are a memo: at this RoomVersion, Room reports false for the first earlyAsked entities
	// of early.
	roomVersion uint64
	earlyAsked  int
	earlyHead   *Entity   // the one to be attempted early, nil for none; a memo of ChooseHead
	picks       []*Entity // that ChooseHead made active
	releases    uint64    // how often MarkPending gave a node back; part of the default RoomVersion
	moves       uint64    // how often Move was called; numbers the occurrences
}

// Counts is the number of entities in each state.
type Counts struct {
	Gated, Active, Backoff, Unschedulable, InFlight, Placed, Asking int
}

// New returns an empty queue, or says which option is wrong.
func New(opts Options) (*Queue, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	q := &Queue{
		opts:          opts,
		ctx:           klog.NewContext(context.Background(), logr.Discard()),
		entities:      map[Key]*Entity{},
		byUID:         map[types.UID]*member{},
		byName:        map[types.NamespacedName]*member{},
		alikeByReason: map[string]*refusedAlike{},
		pluginsByName: map[pluginName]*plugin{},
		pluginsOf:     map[string][]*plugin{},
		events:        map[eventKind]int{},
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Profiles)) {
		q.lanes.addPolicy(name, opts.Profiles[name].Lanes)
	}
	q.active.less = q.less
	q.backoff.less = func(a, b *Entity) bool {
		if a.backoffUntil != b.backoffUntil {
			return a.backoffUntil < b.backoffUntil
		}
		return CompareKeys(a.key, b.key) < 0
	}
	q.internProfiles()
	return q, nil
}

// less is the order of activeQ, made total by the key.
func (q *Queue) less(a, b *Entity) bool {
	if q.opts.Less(a, b) {
		return true
	}
	if q.opts.Less(b, a) {
		return false
	}
	return CompareKeys(a.key, b.key) < 0
}

// Inherit gives the entities the history of the entities with the same keys in old: when they came, how often they were
// tried, and how long they back off. old is a queue with other options, which must not be used afterwards.
func (q *Queue) Inherit(old *Queue) {
	for _, from := range old.sorted.all() {
		e := q.entities[from.key]
		if e == nil {
			continue
		}
		q.take(e)
		e.timestamp = from.timestamp
		if from.firstActive != 0 {
			e.setFirstActive(from.firstActive)
		}
		e.attempts, e.unschedulableCount, e.errorCount = from.attempts, from.unschedulableCount, from.errorCount
		e.backoffUntil, e.poppedEarly = from.backoffUntil, from.poppedEarly
		if e.ready > 0 {
			q.requeue(e)
		} else {
			q.rest(e)
		}
	}
}

// Get returns the entity, nil if there is none.
func (q *Queue) Get(key Key) *Entity { return q.entities[key] }

// Find returns the entity that the pod is a member of, nil if there is none.
func (q *Queue) Find(uid types.UID) *Entity {
	if m := q.byUID[uid]; m != nil {
		return m.entity
	}
	return nil
}

// PlacedByAttempt reports whether the attempt under way on the pod's entity gave it its node.
func (q *Queue) PlacedByAttempt(uid types.UID) bool {
	m := q.byUID[uid]
	return m != nil && m.placed && m.tried && m.entity.state == InFlight
}

// All returns every entity, sorted by key.
func (q *Queue) All() []*Entity { return slices.Clone(q.sorted.all()) }

// Len returns how many entities there are.
func (q *Queue) Len() int { return len(q.entities) }

// Counts returns how many entities are in each state.
func (q *Queue) Counts() Counts { return q.counts }

// Head returns the entity that the next decision is about: the one in flight, else the first of activeQ, else the one
// that ChooseHead found to be attempted early, else nil. It changes nothing. With Options.Room or PopEarly, call
// ChooseHead first.
func (q *Queue) Head() *Entity {
	if len(q.flight) > 0 {
		return q.flight[0]
	}
	head := q.active.top()
	if e := q.headOfLanes(); e != nil && (head == nil || q.less(e, head)) {
		head = e
	}
	if head == nil {
		head = q.earlyHead
	}
	return head
}

// Add takes in a new unscheduled pod: an entity of its own, or a member of a gang, as key says. It also takes in a pod
// on a node that waits for a resize there, under a key of its own (see Entity.Resize). PreEnqueue decides whether the
// pod is gated. A new entity becomes Active or Gated. A gang that is Gated or Placed becomes active if the new member
// is ready. In every other state it stays where it is, as upstream, and the event about the new pod (see Move) may
// retry it. A known pod is updated, or moved to its new entity.
func (q *Queue) Add(key Key, pod *v1.Pod) {
	if m := q.byUID[pod.UID]; m != nil {
		if m.entity.key == key {
			q.Update(key, m.pod, pod)
			return
		}
		q.Delete(m.entity.key, pod.UID)
	}
	q.changed()
	e := q.entities[key]
	if e == nil {
		e = &Entity{key: key, profile: pod.Spec.SchedulerName, timestamp: q.now, resize: isResize(pod)}
		q.entities[key] = e
		q.sorted.add(e)
	}
	m := &member{entity: e, pod: pod, part: q.partOf(key, pod)}
	e.insert(m)
	q.byUID[pod.UID] = m
	q.regated = append(q.regated, pod.UID)
	q.byName[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = m
	q.reprioritise(e)
	q.test(m)
	if m.part != "" && m.gate == nil && e.gated > 0 {
		q.testAll(e) // it may be the one that its gang waited for, in an entity that did not wait for the gang
	}
	q.rest(e)
}

// partOf returns which of a composite's gangs the pod is a member of, "" in any other entity.
func (q *Queue) partOf(key Key, pod *v1.Pod) string {
	if key.Type != fwk.CompositePodGroupKeyType || q.opts.Part == nil {
		return ""
	}
	return q.opts.Part(pod)
}

// Update takes in a change of an unscheduled pod. old is the pod before, nil for the pod that the queue has. A gated
// pod is tested again with PreEnqueue. If the entity is unschedulable, the hints of the plugins that rejected it are
// asked about the change, which is an event on TargetPod. An unknown pod is added.
func (q *Queue) Update(key Key, old, pod *v1.Pod) {
	m := q.byUID[pod.UID]
	if m == nil || m.entity.key != key {
		q.Add(key, pod)
		return
	}
	q.changed()
	if old == nil {
		old = m.pod
	}
	e := m.entity
	q.replace(m, pod)
	q.reprioritise(e)
	if m.gate != nil {
		q.test(m)
	}
	if e.state == InFlight || e.state == Unschedulable && !e.retryable {
		for _, ev := range framework.PodSchedulingPropertiesChange(pod, old, true) {
			occurred := q.occur(ev, old, pod)
			o := &occurred
			if e.state == InFlight {
				q.note(e, o)
			} else if q.tell(e, o) {
				break
			}
		}
	}
	q.rest(e)
}

// Refresh takes in a change of a placed pod. It asks no plugin. If the pod becomes pending again, the plugins see the
// pod as it is then. Pods that are not placed, or unknown, are ignored.
func (q *Queue) Refresh(pod *v1.Pod) {
	m := q.byUID[pod.UID]
	if m == nil || !m.placed {
		return
	}
	q.changed()
	e := m.entity
	q.replace(m, pod)
	q.reprioritise(e)
}

// replace sets the member's pod, whose name may in theory differ.
func (q *Queue) replace(m *member, pod *v1.Pod) {
	if m.pod.Name == pod.Name && m.pod.Namespace == pod.Namespace {
		m.pod = pod
		return
	}
	m.entity.remove(m)
	q.unname(m)
	m.pod = pod
	m.entity.insert(m)
	q.byName[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = m
}

func (q *Queue) unname(m *member) {
	name := types.NamespacedName{Namespace: m.pod.Namespace, Name: m.pod.Name}
	if q.byName[name] == m {
		delete(q.byName, name)
	}
}

// Delete takes in that a pod was deleted or bound. The entity is dropped with its last member, in any state. An unknown
// pod is ignored.
func (q *Queue) Delete(key Key, uid types.UID) {
	m := q.byUID[uid]
	if m == nil || m.entity.key != key {
		return
	}
	q.changed()
	e := m.entity
	q.ungate(m)
	e.noLongerAsking(m)
	e.remove(m)
	q.unname(m)
	delete(q.byUID, uid)
	q.regated = append(q.regated, uid)
	if len(e.members) == 0 {
		q.take(e)
		delete(q.entities, key)
		q.sorted.remove(e)
		return
	}
	q.reprioritise(e)
	q.rest(e)
}

// Activate does the work of PodActivator. If the entity is unschedulable, backing off or gated, PreEnqueue is run for
// it, and it becomes active without regard to its backoff. If it is in flight and its attempt fails, it is tried again
// after its backoff.
func (q *Queue) Activate(key Key) {
	e := q.entities[key]
	if e == nil {
		return
	}
	q.changed()
	switch e.state {
	case InFlight:
		e.notedAny, e.notedAll = true, true
	case Unschedulable, Backoff, Gated:
		if !e.retryable {
			q.activate(e)
		}
	}
}

// Retry says that something about the entity itself changed, so that its next attempt may end differently. If it is
// unschedulable it is tried again after its backoff. If it is in flight, that happens when its attempt fails.
func (q *Queue) Retry(key Key) {
	e := q.entities[key]
	if e == nil {
		return
	}
	q.changed()
	switch {
	case e.state == InFlight:
		e.notedAny, e.notedAll = true, true
	case e.state == Unschedulable && !e.retryable:
		q.requeue(e)
	}
}

// Recheck takes in that something about the gang changed (its group object, its members). PreEnqueue is run again for
// every pending member, which may gate or ungate the entity, and the entity gets its new place in the order. It is not
// needed after Add, which tests the new member itself, and the others if that one passes.
func (q *Queue) Recheck(key Key) {
	e := q.entities[key]
	if e == nil {
		return
	}
	q.changed()
	q.reorder(e, func() {
		e.priority = q.priorityOf(e)
		q.testAll(e)
	})
	q.rest(e)
}

// rest brings an entity that is not in flight to where its members say: Gated or Placed without a ready
// one; out of there with one. An entity in another place stays.
func (q *Queue) rest(e *Entity) {
	q.renew(e) // the entity changed: Room may answer otherwise
	if e.isEarly {
		q.earlyAsked = 0
	}
	switch {
	case e.state == InFlight:
	case e.ready > 0:
		switch e.state {
		case nowhere:
			if e.NumPending() == 1 && !e.failed {
				q.activateTested(e) // the one pending pod was just tested
			} else {
				q.requeue(e)
			}
		case Gated, Placed:
			q.requeue(e)
		case Asking:
			q.endAsking(e)
		}
	case e.gated > 0:
		if e.state != Gated {
			q.put(e, Gated)
		}
	default:
		if e.state != Placed {
			q.put(e, Placed)
		}
	}
}

// requeue makes an entity active, now or when its backoff expires.
func (q *Queue) requeue(e *Entity) {
	if e.backoffUntil > q.now {
		q.testAll(e)
		if e.ready > 0 {
			q.put(e, Backoff)
			return
		}
		q.take(e)
		q.rest(e)
		return
	}
	q.activate(e)
}

// activate puts the pending members to PreEnqueue, as upstream does whenever an entity goes to activeQ, and
// makes the entity active if one is ready.
func (q *Queue) activate(e *Entity) {
	q.testAll(e)
	q.activateTested(e)
}

func (q *Queue) activateTested(e *Entity) {
	switch {
	case e.ready == 0:
		q.take(e)
		q.rest(e)
	case e.failed && q.opts.Room != nil && !e.resize:
		q.makeRetryable(e)
	default:
		q.put(e, Active)
	}
}

// reprioritise finds what follows from an entity's members: its profile, its place in the order, and its lane.
func (q *Queue) reprioritise(e *Entity) {
	if profile := e.members[0].pod.Spec.SchedulerName; profile != e.profile && e.state != InFlight {
		q.take(e) // and rest puts it where it belongs now
		e.profile = profile
	}
	if p := q.priorityOf(e); p != e.priority {
		q.reorder(e, func() { e.priority = p })
	}
	q.changeLane(e)
}

// reorder takes the entity out of its place, lets change do what its place may depend on, and puts it back.
func (q *Queue) reorder(e *Entity, change func()) {
	switch {
	case e.lane != nil:
		l := e.lane
		l.remove(e)
		change()
		l.add(q, e)
	case e.state == Active:
		q.active.remove(e)
		change()
		q.active.push(e)
	case e.retryable:
		q.removeRetryable(e)
		change()
		q.addRetryable(e)
	case e.isEarly:
		q.removeEarly(e)
		change()
		q.addEarly(e)
		q.earlyAsked = 0
	default:
		change()
	}
}

// noteGates notes that an entity becomes gated or ungated.
func (q *Queue) noteGates(e *Entity) {
	for _, m := range e.members {
		q.regated = append(q.regated, m.pod.UID)
	}
}

// TakeRegated returns the pods that came to the queue or left it since the last call, and the pods of entities that
// became gated or ungated since then. A pod may be there more than once. The slice is valid until the queue changes
// again.
func (q *Queue) TakeRegated() []types.UID {
	regated := q.regated
	q.regated = q.regated[:0]
	return regated
}

// put moves the entity to the place of state s.
func (q *Queue) put(e *Entity, s State) {
	q.take(e)
	if e.state = s; s == Gated {
		q.noteGates(e)
	}
	*q.counts.of(s)++
	switch s {
	case Active:
		if e.firstActive == 0 {
			e.setFirstActive(q.now)
		}
		if !q.hasLane(e) {
			q.active.push(e)
		}
	case Backoff:
		q.backoff.push(e)
		q.addEarly(e)
	case InFlight:
		q.flight = append(q.flight, e)
	case Unschedulable:
		q.classify(e)
		q.restsIn(e).push(e, q.now, q.changes)
	case Gated:
		q.restsIn(e).push(e, q.now, q.changes)
	}
	q.joinLane(e)
}

// take removes the entity from the place it is in.
func (q *Queue) take(e *Entity) {
	if e.state == nowhere {
		return
	}
	laned := e.lane != nil
	if laned {
		e.lane.remove(e)
	}
	switch e.state {
	case Active:
		if !laned {
			q.active.remove(e)
		}
	case Backoff:
		q.backoff.remove(e)
		q.removeEarly(e)
	case InFlight:
		i := slices.Index(q.flight, e)
		q.flight = slices.Delete(q.flight, i, i+1)
	case Unschedulable:
		if e.retryable {
			q.removeRetryable(e)
			break
		}
		q.declassify(e)
		e.rest.in.remove(e)
	case Gated:
		e.rest.in.remove(e)
	}
	*q.counts.of(e.state)--
	if e.state == Gated {
		q.noteGates(e)
	}
	e.state = nowhere
}

// changed counts a change of the world.
func (q *Queue) changed() {
	q.changes++
	q.changedAt = q.now
}

func (c *Counts) of(s State) *int {
	switch s {
	case Gated:
		return &c.Gated
	case Active:
		return &c.Active
	case Backoff:
		return &c.Backoff
	case Unschedulable:
		return &c.Unschedulable
	case InFlight:
		return &c.InFlight
	case Placed:
		return &c.Placed
	case Asking:
		return &c.Asking
	}
	panic("queue: no such state: " + s.String())
}

func (e *Entity) setFirstActive(t eventlog.Time) {
	e.firstActive, e.firstStd = t, t.Std()
}

func (e *Entity) forgetNotes() {
	e.noted, e.notedAll, e.notedAny = nil, false, false
}
