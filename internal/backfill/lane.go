package backfill

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/queue"
)

// BlockedLane is a lane whose first entity lets none pass. It is not known when there will be room for that entity, so
// all free room is kept for it. Example: a gang needs 8 nodes, 5 are free, and the pods on the others declare no
// duration. After Lane.Hold nothing else of the lane is placed on the 5 nodes.
type BlockedLane struct {
	// Lane is the lane's name, and Key its first entity.
	Lane string
	Key  queue.Key
	// Since is the time at which the entity had waited for Lane.Hold. It may have become the first only later.
	Since eventlog.Time
	// Pods is the number of the Needed pods that find room now, one after the other, and Nodes the number of their
	// nodes.
	Nodes, Pods, Needed int
}

// BlockedLanes returns the blocked lanes, by name; none while an attempt is under way.
func (p *Planner) BlockedLanes() []BlockedLane {
	if p.view.InFlight() {
		return nil
	}
	var out []BlockedLane
	for _, lane := range p.backfilled {
		l, e := p.lanes[lane], p.first(lane)
		if e == nil || !p.blocks(l, e) {
			continue
		}
		b := BlockedLane{Key: e.Key(), Lane: lane, Since: e.FirstActive().Add(l.Hold)}
		nodes := map[string]bool{}
		if needed, ok := p.view.Needed(e); ok {
			for _, place := range p.outlooksFor(e, needed).placesNow() {
				nodes[place.Node] = true
				b.Pods++
			}
			b.Needed = needed.Wanted()
		}
		b.Nodes = len(nodes)
		out = append(out, b)
	}
	return out
}

// blocks reports whether e is the first of its lane, it is not known when there will be room for it, and it has waited
// long enough to let nothing pass. An entity that is to be attempted next blocks nothing: it goes first anyway.
func (p *Planner) blocks(l *lane, e *queue.Entity) bool {
	if r := p.reservations[l.Name]; e.State() == queue.Active || r != nil && r.Key == e.Key() {
		return false
	}
	return e.FirstActive().Add(l.Hold) <= p.view.Now() && p.first(l.Name) == e
}

// first returns the first entity of a lane that lacks something it needs and that room can help, nil if there is none.
func (p *Planner) first(lane string) *queue.Entity {
	l := p.lanes[lane]
	p.recallPassed()
	return p.view.FirstInLane(lane, func(e *queue.Entity) (yes, passed bool) {
		if p.view.HasEnough(e) {
			return false, false
		}
		elsewhere, passed := p.roomIsNotIt(l, e)
		return !elsewhere, passed
	})
}

// roomIsNotIt reports whether no room that comes free will help e. This is so if e has failed, and does not fit on an
// empty cluster either. It is also so if there is room for e now and it fails for another reason. The result is false
// while e has a reservation.
//
// Invariant: the result does not depend on the entity that the queue has picked for a retry, so first and notFirst do
// not depend on it either. The pick depends on the reservations. If the end of a reservation depended on the pick in
// turn, it could change the pick so that the reservation is decided again, without end. Example: A can never fit, B and
// C wait for a retry, and C has the reservation. With it A lacks room, so B is picked. Without it A is picked.
//
// If passed is true, the result stays the same until something about e changes, or the nodes as recallPassed sees them.
func (p *Planner) roomIsNotIt(l *lane, e *queue.Entity) (elsewhere, passed bool) {
	if r := p.reservations[l.Name]; !e.Failed() || r != nil && r.Key == e.Key() {
		return false, false
	}
	needed, ok := p.view.Needed(e)
	if !ok {
		return false, false
	}
	room := l.room[e.Key()]
	if room == nil || !room.of.same(needed) {
		room = &roomToGet{of: asTheyAre(needed)}
		room.shape, room.wanted = p.oneShape(e, needed)
		l.noteRoom(e, room, p.view.Entities())
	}
	if p.learnEver(e, needed, room); !room.ever {
		if room.shape != nil {
			p.notePassed(room.shape, room.wanted)
		}
		return true, room.shape != nil
	}
	active := e.State() == queue.Active && !p.view.IsPicked(e)
	if active || !refusedElsewhere(e) || p.view.LacksRoom(e) {
		return false, false
	}
	if now := p.view.Versions(); room.versions != now {
		room.versions, room.now = now, p.aheadFor(e, needed).fitsNow()
	}
	return room.now, false
}

// oneShape returns the shape of an entity's pods, and how many of them are wanted. It returns nil if the pods differ in
// shape, or may not use all nodes.
func (p *Planner) oneShape(e *queue.Entity, needed room.Demand) (*room.Shape, int) {
	if len(needed.Parts) != 1 || needed.Enough != 1 || needed.Parts[0].Wanted < 1 {
		return nil, 0
	}
	if e.Type() == fwk.CompositePodGroupKeyType {
		return nil, 0 // the needs of a composite may change without a notice
	}
	if _, limited := p.view.DomainsNow(e); limited {
		return nil, 0
	}
	s, ok := room.ShapeOf(needed.Parts[0].Pods)
	if !ok {
		return nil, 0
	}
	return s, needed.Parts[0].Wanted
}

// learnEver finds whether there is room on an empty cluster, if that may have changed.
func (p *Planner) learnEver(e *queue.Entity, needed room.Demand, to *roomToGet) {
	if to.shape != nil {
		to.ever = p.table.Take(to.shape, room.Empty, to.wanted)
		return
	}
	if version := p.view.Changed(cluster.ObjectChanged); !to.known || to.version != version {
		to.known, to.version, to.ever = true, version, p.outlooksFor(e, needed).fitsEver()
	}
}

// refusedElsewhere reports whether the entity may have failed for another reason than want of room: it waits for an
// event that some plugin asked for, or a plugin ended in an error.
func refusedElsewhere(e *queue.Entity) bool {
	return e.State() == queue.Unschedulable && !e.Retryable() || e.GetConsecutiveErrorsCount() > 0
}

// roomToGet says whether there is room for pods as they were: on an empty cluster, at a version of its objects, and
// now, at versions of the running pods.
type roomToGet struct {
	of        demandAsItWas
	shape     *room.Shape // nil if it is not known by one
	wanted    int         // with shape: how many pods
	known     bool        // without shape: ever holds at version
	version   uint64
	versions  Versions
	ever, now bool
}

// leastRoomNoted is the minimum size of the memo of roomIsNotIt before it is cleared.
const leastRoomNoted = 64

// noteRoom remembers whether there is room for e. entities is the number of entities. A full memo is cleared as a
// whole, which also drops entities that are gone.
func (l *lane) noteRoom(e *queue.Entity, room *roomToGet, entities int) {
	if l.room == nil || len(l.room) >= leastRoomNoted+2*entities {
		l.room = map[queue.Key]*roomToGet{}
	}
	l.room[e.Key()] = room
}

// demandAsItWas is a demand with its pods' objects.
type demandAsItWas struct {
	demand  room.Demand
	objects []*v1.Pod
}

func asTheyAre(demand room.Demand) demandAsItWas { return demandAsItWas{demand, objectsOf(demand)} }

func objectsOf(demand room.Demand) (objects []*v1.Pod) {
	for _, part := range demand.Parts {
		for _, p := range part.Pods {
			objects = append(objects, p.Object)
		}
	}
	return objects
}

func (w *demandAsItWas) same(demand room.Demand) bool {
	return w.demand.Same(demand) && slices.Equal(w.objects, objectsOf(demand))
}

// ahead tells when there is room for the demand of an entity.
type ahead interface {
	earliest() (at eventlog.Time, places []eventlog.Place, until eventlog.Time, ok bool)
	fitsNow() bool
}

// aheadFor returns the source of an entity's times: its outlooks, or a Horizon if that gives the same answers faster.
func (p *Planner) aheadFor(e *queue.Entity, demand room.Demand) ahead {
	if _, limited := p.view.DomainsNow(e); !limited && len(p.view.KeptNodes()) == 0 {
		if h, ok := p.table.Horizon(p.view.Now(), demand); ok {
			return horizon{h}
		}
	}
	return p.outlooksFor(e, demand)
}

// horizon is a Horizon as one of the answers there are.
type horizon struct{ *room.Horizon }

func (h horizon) earliest() (at eventlog.Time, places []eventlog.Place, until eventlog.Time, ok bool) {
	return h.Earliest()
}

func (h horizon) fitsNow() bool { return h.FitsNow() }

// outlooks are those for the demand of one entity: one of all nodes, or one of each domain that all of its pods may go
// to.
type outlooks []*room.Outlook

func (p *Planner) outlooksFor(e *queue.Entity, demand room.Demand) outlooks {
	domains, limited := p.view.DomainsNow(e)
	if !limited {
		return outlooks{p.outlookOn(nil, e, demand)}
	}
	all := make(outlooks, len(domains))
	for i, nodes := range domains {
		all[i] = p.outlookOn(nodes, e, demand)
	}
	return all
}

// outlookOn returns the outlook of some nodes, or of all, for the demand of an entity.
func (p *Planner) outlookOn(nodes []string, e *queue.Entity, demand room.Demand) *room.Outlook {
	o, first := p.table.Outlook(p.view.Now(), demand, nodes), demand.First()
	for _, node := range p.view.KeptNodes() {
		for _, kept := range p.view.KeptOn(node) {
			if p.view.KeyOf(kept) != e.Key() && p.KeepsFrom(kept, first) {
				o.Keep(kept, node)
			}
		}
	}
	return o
}

// earliest returns the answer of the Outlook with the earliest time. Ties go to the fewest nodes, then to the first
// one.
func (all outlooks) earliest() (at eventlog.Time, places []eventlog.Place, until eventlog.Time, ok bool) {
	until = eventlog.Time(1<<63 - 1)
	nodes := 0
	for _, o := range all {
		t, found, same, there := o.Earliest()
		until = min(until, same)
		if there && (!ok || t < at || t == at && o.NumNodes() < nodes) {
			at, places, nodes, ok = t, found, o.NumNodes(), true
		}
	}
	return at, places, until, ok
}

func (all outlooks) fitsNow() bool { return slices.ContainsFunc(all, (*room.Outlook).FitsNow) }

func (all outlooks) fitsEver() bool { return slices.ContainsFunc(all, (*room.Outlook).FitsEver) }

// placesNow returns places for as many of the pods as find one now.
func (all outlooks) placesNow() (most []eventlog.Place) {
	for _, o := range all {
		if places := o.PlacesNow(); len(places) > len(most) {
			most = places
		}
	}
	return most
}
