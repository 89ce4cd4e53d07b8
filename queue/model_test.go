package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// model is a naive queue: a map of entities, and every answer from all of them. In its states, Active means active or
// retryable. Which of the two an entity is depends on the time at which ChooseHead checked it, and must not matter.
type model struct {
	world    *world
	early    bool // Options.PopEarly
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
	poppedEarly               bool
	attempts, rejects, errors int
	until, timestamp          eventlog.Time
	failure                   Failure
	since                     eventlog.Time
	changesAtRest             int
	changesAtBegin            int
	seen                      []seenEvent
}

type modelMember struct {
	pod    *v1.Pod
	placed bool
	gate   string
	// In the attempt under way or the last one: it was taken off its node or refused; it was refused.
	tried, refused bool
}

// seenEvent is an event during an attempt, and the members of then.
type seenEvent struct {
	ev      fwk.ClusterEvent
	only    types.UID
	members []string
}

// world has the answers of the plugins and of Room.
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

// wants is the answer of the hints of the model's plugins about a pod.
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
	if !mm.placed {
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
		case mm.placed:
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

// rest, requeue and activate are the rules for an entity's state.
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

func (m *model) setTime(now eventlog.Time) {
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
	if e.state == Unschedulable &&
		m.worth(e, seenEvent{ev: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}}) != skip {
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

func (m *model) startAttempt(key Key) {
	e := m.entities[key]
	if e.state == InFlight {
		return
	}
	e.attempts++
	if m.early && e.state == Backoff {
		e.poppedEarly = true
	} else if e.until <= m.now {
		e.poppedEarly = false
	}
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
	if mm := e.members[f.UID]; mm != nil && !mm.placed {
		mm.tried, mm.refused = true, true
	}
}

// next is the first member that the attempt has not come to.
func (e *modelEntity) next() string {
	var names []string
	for _, mm := range e.members {
		if !mm.placed && mm.gate == "" && !(e.state == InFlight && mm.tried) {
			names = append(names, mm.pod.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names[:min(1, len(names))], "")
}

func (m *model) mark(key Key, uid types.UID, held bool) {
	e := m.entities[key]
	mm := e.members[uid]
	mm.placed, mm.gate = held, ""
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
	e.timestamp, e.rejects, e.errors, e.until, e.poppedEarly = m.now, 0, 0, 0, false
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

// worth is the effect of an event on an entity with its failure, over the members named in it.
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
			refused = refused || mm.refused && !mm.placed
		}
		for _, mm := range e.members {
			if e.state == InFlight || !mm.placed && (mm.refused || !refused) {
				s.members = append(s.members, mm.pod.Name)
			}
		}
		_, concerned := e.members[only]
		for _, mm := range e.members {
			if mm.gate != "" &&
				(ev == wildcard && (only == "" || concerned) || ev != wildcard && m.world.wants(mm.gate, "", ev)) {
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
	var due, early []*modelEntity
	for _, e := range m.entities {
		ready, _, _ := e.count()
		switch {
		case e.failed && ready > m.world.free:
		case e.state == Active:
			due = append(due, e)
		case m.early && e.state == Backoff && !e.poppedEarly && e.errors == 0 &&
			len(e.failure.Plugins)+len(e.failure.PendingPlugins) > 0:
			early = append(early, e)
		}
	}
	second := func(*modelEntity) eventlog.Time { return 0 }
	if len(due) == 0 {
		due, second = early, func(e *modelEntity) eventlog.Time { return e.until / sec }
	}
	if len(due) == 0 {
		return "none"
	}
	return slices.MinFunc(due, func(a, b *modelEntity) int {
		return cmp.Or(
			cmp.Compare(second(a), second(b)),
			cmp.Compare(b.priority(), a.priority()),
			cmp.Compare(a.timestamp, b.timestamp),
			CompareKeys(a.key, b.key),
		)
	}).key.String()
}

// String shows the model as show does the queue.
func (m *model) String() string {
	var b strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(m.entities), CompareKeys) {
		e := m.entities[key]
		ready, gated, held := e.count()
		fmt.Fprintf(
			&b,
			"%v %v failed=%v %d/%d/%d until=%d at=%d ready=%d gated=%d held=%d next=%s\n",
			key,
			e.state,
			e.failed,
			e.attempts,
			e.rejects,
			e.errors,
			e.until,
			e.timestamp,
			ready,
			gated,
			held,
			e.next(),
		)
	}
	return b.String()
}

func show(q *Queue) string {
	var b strings.Builder
	for _, e := range q.All() {
		s := e.State()
		if e.Retryable() {
			s = Active
		}
		next := ""
		if p := e.Next(); p != nil {
			next = p.Name
		}
		fmt.Fprintf(
			&b,
			"%v %v failed=%v %d/%d/%d until=%d at=%d ready=%d gated=%d held=%d next=%s\n",
			e.key,
			s,
			e.failed,
			e.attempts,
			e.unschedulableCount,
			e.errorCount,
			e.backoffUntil,
			e.timestamp,
			e.NumReady(),
			e.NumGated(),
			e.NumPlaced(),
			next,
		)
	}
	return b.String()
}
