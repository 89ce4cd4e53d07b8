package scheduler

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
)

// Who is the first in line, and whether it holds the others back.

// laneRules is what the Machine knows of a profile's line.
type laneRules struct {
	profile string
	policy  coscheduling.QueuePolicy
	hold    time.Duration
	held    bool // a memo of holds, of the last entry that left nobody in flight

	shadowed shadowed                // a memo of reserve
	room     map[queue.Key]roomToGet // a memo of roomIsNotIt
}

// Holding is what is kept free for the first in line when nobody knows when there will be room for it: all that is free, and
// comes free, since nobody of its line may pass it.
type Holding struct {
	// Key is whose it is, and Profile in which line.
	Key     queue.Key
	Profile string
	// Since is when it had waited for as long as it lets others pass. It may have come to be the first only later.
	Since eventlog.Time
	// Pods is how many of the Needed pods find room by now, one after the other, and Nodes on how many nodes.
	Nodes, Pods, Needed int
}

// Holdings returns what is kept free without a reservation, by profile.
func (m *Machine) Holdings() []Holding {
	var out []Holding
	for _, profile := range m.backfilled {
		l, e := m.lanes[profile], m.firstInLine(profile)
		if e == nil || m.queue.Counts().InFlight > 0 || !m.holds(l, e) {
			continue
		}
		h := Holding{Key: e.Key(), Profile: profile, Since: e.FirstActive().Add(l.hold)}
		pods := m.needed(e)
		nodes := map[string]bool{}
		for _, place := range m.outlookFor(e, pods).mostNow() {
			nodes[place.Node] = true
			h.Pods++
		}
		h.Needed, h.Nodes = len(pods), len(nodes)
		out = append(out, h)
	}
	return out
}

// letsPass is the queue's Passes.
func (m *Machine) letsPass(e *queue.Entity) bool {
	if m.hasEnough(e) {
		return true
	}
	l := m.lanes[e.Profile()]
	if l == nil || l.policy != coscheduling.Backfill {
		return l == nil
	}
	return !m.holds(l, e)
}

// holds says whether e, the first in line, lets nobody pass any more: nobody knows when there will be room for it, and it
// has waited long enough. One that is to be attempted next keeps nobody back otherwise than by that.
func (m *Machine) holds(l *laneRules, e *queue.Entity) bool {
	if r := m.reservations[l.profile]; e.State() == queue.Active || r != nil && r.Key == e.Key() {
		return false
	}
	return e.FirstActive().Add(l.hold) <= m.now && m.firstInLine(l.profile) == e
}

// firstInLine returns the first entity in the line of a profile that lacks something it needs, of those that room can help;
// nil for none.
func (m *Machine) firstInLine(profile string) *queue.Entity {
	l := m.lanes[profile]
	return m.queue.FirstInLane(profile, func(e *queue.Entity) bool { return !m.hasEnough(e) && !m.roomIsNotIt(l, e) })
}

// roomIsNotIt says that no room that comes free will help e: it has failed, and fits not even if everybody is gone, or there
// is room for it now and it fails for another reason. As long as it has a reservation, that is yet to be decided.
func (m *Machine) roomIsNotIt(l *laneRules, e *queue.Entity) bool {
	if r := m.reservations[l.profile]; !e.Failed() || r != nil && r.Key == e.Key() {
		return false
	}
	pods := m.needed(e)
	if pods == nil {
		return false
	}
	room, known := l.room[e.Key()]
	if !known || room.version != m.cluster.Version() || !room.of.same(pods) {
		room = roomToGet{of: asTheyAre(pods), version: m.cluster.Version(), ever: m.outlookFor(e, pods).fitsEver()}
		m.noteRoom(l, e, room)
	}
	if !room.ever {
		return true
	}
	if e.State() == queue.Active || !refusedElsewhere(e) || m.roomChecked[l.profile] && !m.hasRoomForAll(e) {
		return false
	}
	if now := m.books(); room.books != now {
		room.books, room.now = now, m.outlookFor(e, pods).fitsNow()
		m.noteRoom(l, e, room)
	}
	return room.now
}

// refusedElsewhere says that it need not be for want of room that e was not placed: it waits for an event that some plugin
// has asked for, or a plugin ended in an error.
func refusedElsewhere(e *queue.Entity) bool {
	return e.State() == queue.Unschedulable && !e.Owed() || e.GetConsecutiveErrorsCount() > 0
}

// roomToGet is whether there is room for pods as they were: on an empty cluster, of a version of its objects, and now, in
// these books.
type roomToGet struct {
	of        podsAsTheyWere
	version   uint64
	books     books
	ever, now bool
}

// maxRoomNoted bounds the memo of roomIsNotIt: it is for the few in front.
const maxRoomNoted = 64

func (m *Machine) noteRoom(l *laneRules, e *queue.Entity, room roomToGet) {
	if l.room == nil || len(l.room) >= maxRoomNoted {
		l.room = map[queue.Key]roomToGet{}
	}
	l.room[e.Key()] = room
}

// podsAsTheyWere are pods with their objects.
type podsAsTheyWere struct {
	pods    []*cluster.Pod
	objects []*v1.Pod
}

func asTheyAre(pods []*cluster.Pod) podsAsTheyWere {
	objects := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		objects[i] = p.Object
	}
	return podsAsTheyWere{pods, objects}
}

func (w *podsAsTheyWere) same(pods []*cluster.Pod) bool {
	if !slices.Equal(w.pods, pods) {
		return false
	}
	for i, p := range pods {
		if w.objects[i] != p.Object {
			return false
		}
	}
	return true
}

// outlook is the cluster as it matters for the pods of one entity: as a whole, or each of the domains of which they need one.
type outlook []*shadow

func (m *Machine) outlookFor(e *queue.Entity, pods []*cluster.Pod) outlook {
	if gangs := m.gangsOf(e.Key()); e.Type() == fwk.PodGroupKeyType && len(gangs) == 1 {
		if required, _ := gangs[0].Topology(); len(required) > 0 {
			return m.outlookWithin(gangs[0], m.domainsBy(required), pods)
		}
	}
	return outlook{m.shadowOf(pods, nil)}
}

// outlookWithin is that of a gang all of whose members must go to one of the domains.
func (m *Machine) outlookWithin(g *cluster.Group, domains []*domain, pods []*cluster.Pod) outlook {
	if d := holding(g, domains); d != nil {
		return outlook{m.shadowOf(pods, d)}
	}
	if g.Placed()+g.Waiting() > 0 {
		return nil // the nodes of its members are in none
	}
	o := make(outlook, len(domains))
	for i, d := range domains {
		o[i] = m.shadowOf(pods, d)
	}
	return o
}

// earliest is that of the shadow with the earliest time; of equals that of the fewest nodes, then the first.
func (o outlook) earliest(now eventlog.Time) (at eventlog.Time, places []eventlog.Place, until eventlog.Time, ok bool) {
	until = eventlog.Time(1<<63 - 1)
	nodes := 0
	for _, s := range o {
		t, found, same, there := s.earliest(now)
		until = min(until, same)
		if there && (!ok || t < at || t == at && len(s.nodes) < nodes) {
			at, places, nodes, ok = t, found, len(s.nodes), true
		}
	}
	return at, places, until, ok
}

func (o outlook) fitsNow() bool {
	return slices.ContainsFunc(o, func(s *shadow) bool { return len(s.placeIn(nil)) == len(s.pods) })
}

func (o outlook) fitsEver() bool {
	return slices.ContainsFunc(o, func(s *shadow) bool { return s.countEmpty() == len(s.pods) })
}

// mostNow returns places for as many of the pods as find one now.
func (o outlook) mostNow() (most []eventlog.Place) {
	for _, s := range o {
		if places := s.placeIn(nil); len(places) > len(most) {
			most = places
		}
	}
	return most
}
