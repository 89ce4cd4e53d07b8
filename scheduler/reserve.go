package scheduler

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/canonical"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
)

// Backfill: the first in line that does not fit has a reservation, and others pass it if they do not delay that.

// Reservation is the room that the first in line will have.
type Reservation struct {
	// Key is whose it is, and Profile in which line.
	Key     queue.Key
	Profile string
	// At is when the room will be there, by what is declared of the pods that run.
	At eventlog.Time
	// Places are the nodes of the pods that it is for.
	Places []eventlog.Place
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

// reservation is one with what is kept beside it.
type reservation struct {
	Reservation
	stale bool // somebody came or went since it was decided

	memo besideMemo
}

// line is what the Machine knows of a profile's line.
type laneRules struct {
	profile string
	policy  coscheduling.QueuePolicy
	hold    time.Duration
	held    bool // a memo of holds, of the last entry that left nobody in flight

	looked roomLookedFor // a memo of roomIsNotIt
}

// Reservations returns those that stand, by profile.
func (m *Machine) Reservations() []Reservation {
	var out []Reservation
	for _, profile := range slices.Sorted(maps.Keys(m.reservations)) {
		out = append(out, m.reservations[profile].Reservation)
	}
	return out
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
		for _, place := range m.shadowOf(pods, nil).placeIn(nil) {
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
	return e.FirstActive().Add(l.hold) <= m.now && m.firstInLine(l.profile) == e && !m.roomIsNotIt(l, e)
}

// roomIsNotIt says that no room that comes free will help e: it fits not even if everybody is gone, or there is room for it
// now and another plugin has refused it.
func (m *Machine) roomIsNotIt(l *laneRules, e *queue.Entity) bool {
	pods := m.needed(e)
	if pods == nil {
		return false
	}
	if !l.looked.same(m.books(), pods) {
		s := m.shadowOf(pods, nil)
		l.looked = roomLookedFor{books: m.books(), pods: pods, fits: s.fitsNow(), fitsEver: s.countEmpty() == len(pods)}
		for _, p := range pods {
			l.looked.objects = append(l.looked.objects, p.Object)
		}
	}
	return !l.looked.fitsEver || l.looked.fits && rests(e)
}

// rests says that e waits for an event that some plugin has asked for, and not for room.
func rests(e *queue.Entity) bool { return e.State() == queue.Unschedulable && !e.Owed() }

// roomLookedFor is for which pods, as they were, and in which books room was looked for, and whether there was any: beside
// who is there, and on an empty cluster.
type roomLookedFor struct {
	books          books
	pods           []*cluster.Pod
	objects        []*v1.Pod
	fits, fitsEver bool
}

func (r *roomLookedFor) same(now books, pods []*cluster.Pod) bool {
	if r.books != now || !slices.Equal(r.pods, pods) {
		return false
	}
	for i, p := range pods {
		if r.objects[i] != p.Object {
			return false
		}
	}
	return true
}

// firstInLine returns the first entity in the line of a profile that lacks something it needs, nil for none.
func (m *Machine) firstInLine(profile string) *queue.Entity {
	return m.queue.FirstInLane(profile, func(e *queue.Entity) bool { return !m.hasEnough(e) })
}

// reserve decides on a reservation for the first of a line that does not fit, if it has none, or one that does not hold
// any more as it is; ok is false if there is nothing to decide.
func (m *Machine) reserve() (d eventlog.Decision, ok bool) {
	if m.queue.Counts().InFlight > 0 {
		return eventlog.Decision{}, false
	}
	books := m.books()
	for _, profile := range m.backfilled {
		e := m.firstInLine(profile)
		if e == nil || !e.Failed() || e.State() == queue.Active {
			continue
		}
		r := m.reservations[profile]
		if r != nil && !r.stale {
			continue
		}
		if looked := m.sameShadow[profile]; looked.key == e.Key() && looked.books == books && m.now < looked.until {
			continue // looked at already
		}
		pods := m.needed(e)
		if pods == nil {
			continue
		}
		s := m.shadowOf(pods, nil)
		at, places, until, found := s.earliest(m.now)
		if found && at <= m.now && rests(e) && s.fitsNow() {
			found = false // room is not what it waits for
		}
		if !found && r == nil || found && r != nil && (at == r.At || at <= m.now && r.At <= m.now) && slices.Equal(places, r.Places) {
			m.sameShadow[profile] = shadowed{e.Key(), books, until}
			continue
		}
		d := m.decisionOn(pods[0])
		d.Outcome, d.WaitUntil, d.Places = eventlog.Reserved, at, places
		return d, true
	}
	return eventlog.Decision{}, false
}

// books are memo's versions of who is booked where, and of whom it is known when they end: while they are the same, and
// until the next pod has run as long as it declared, so is every answer of shadow.earliest.
type books struct{ room, placements, allowed uint64 }

func (m *Machine) books() books {
	return books{m.cluster.RoomVersion(), m.cluster.Placements(), m.cluster.Allowed()}
}

// shadowed is whose time was looked for, and in which books.
type shadowed struct {
	key   queue.Key
	books books
	until eventlog.Time
}

// applyReserved makes a decided reservation the one of its line.
func (m *Machine) applyReserved(p *cluster.Pod, d *eventlog.Decision) error {
	profile := p.Object.Spec.SchedulerName
	if m.profiles[profile] == nil {
		return fmt.Errorf("reservation for pod %s/%s: no profile schedules it", d.Namespace, d.Name)
	}
	m.reservationChanged(profile)
	if len(d.Places) == 0 {
		delete(m.reservations, profile) // nobody knows any more when there will be room
		return nil
	}
	m.reservations[profile] = &reservation{Reservation: Reservation{Key: m.keyOf(p), Profile: profile, At: d.WaitUntil, Places: d.Places}}
	return nil
}

// reservationChanged has those looked at again that a reservation has kept back.
func (m *Machine) reservationChanged(profile string) {
	m.reserved++
	m.queue.RetryInLane(profile, coscheduling.Name)
}

// keepReservations drops the reservations of those that are not first in line any more, and has the others looked at
// again if by the last entry room was taken, freed or lost: others that will be gone by then may have taken what was not
// reserved, so that the same room may be had elsewhere, and more is left to who will not.
func (m *Machine) keepReservations(entry eventlog.Entry, changed bool) {
	for _, profile := range m.backfilled {
		if r := m.reservations[profile]; r != nil {
			r.memo.keep(entry)
			e := m.queue.Get(r.Key)
			switch {
			case e == nil || m.hasEnough(e) || e.State() != queue.InFlight && m.firstInLine(profile) != e:
				delete(m.reservations, profile)
				m.reservationChanged(profile)
			case changed:
				r.stale = true
			}
		}
		if m.queue.Counts().InFlight > 0 {
			continue // nobody asks before that has come to its end
		}
		l := m.lanes[profile]
		if e := m.firstInLine(profile); l.held != (e != nil && m.holds(l, e)) {
			l.held = !l.held
			m.reserved++
		}
	}
}

// roomVersion is the queue's RoomVersion.
func (m *Machine) roomVersion() uint64 {
	return m.cluster.RoomVersion() + m.reserved + m.nominated.changes
}

// passing returns the reservation that a pod must not delay, nil for none.
func (m *Machine) passing(p *cluster.Pod) *reservation {
	if len(m.reservations) == 0 || p == nil {
		return nil
	}
	r := m.reservations[p.Object.Spec.SchedulerName]
	if r == nil || m.keyOf(p) == r.Key {
		return nil
	}
	if life := p.Life(); life > 0 && m.now.Add(life) <= r.At {
		return nil // it will be gone
	}
	return r
}

// reservedBy is the framework's Reserved: why a pod must not go to a node that has room for it.
func (m *Machine) reservedBy(pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	p := m.cluster.Pod(pod.UID)
	r := m.passing(p)
	if r == nil || len(m.takenBy(r)[info.Node().Name]) == 0 {
		return nil
	}
	for _, name := range resourcesOf([]*cluster.Pod{p}) {
		if need := p.Amount(name); need > 0 && m.slack(r, info, name) < need {
			status := fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("node(s) were reserved for %s from %s on", nameOf(r.Key), r.At))
			status.SetPlugin(coscheduling.Name)
			return status
		}
	}
	return nil
}

// nameOf is how messages name an entity.
func nameOf(key queue.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// appendReservations appends them in one canonical form.
func (m *Machine) appendReservations(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m.reservations)))
	for _, profile := range slices.Sorted(maps.Keys(m.reservations)) {
		r := m.reservations[profile]
		for _, s := range [...]string{profile, string(r.Key.Type), r.Key.Namespace, r.Key.Name} {
			dst = canonical.AppendString(dst, s)
		}
		dst = binary.AppendVarint(dst, int64(r.At))
		dst = append(dst, canonical.Flags(r.stale))
		dst = binary.AppendUvarint(dst, uint64(len(r.Places)))
		for _, place := range r.Places {
			dst = canonical.AppendString(dst, string(place.UID))
			dst = canonical.AppendString(dst, place.Node)
		}
	}
	return dst
}

// restoreReservations reads what appendReservations wrote.
func (m *Machine) restoreReservations(r *canonical.Reader) {
	for range r.Count("reservations", 7) {
		var x reservation
		x.Profile = r.String("profile")
		x.Key = queue.Key{Type: fwk.EntityKeyType(r.String("entity type")), Namespace: r.String("entity namespace"), Name: r.String("entity name")}
		x.At = eventlog.Time(r.Varint("reserved at"))
		x.stale = r.Flags("reservation flags", 1)[0]
		for range r.Count("places", 2) {
			x.Places = append(x.Places, eventlog.Place{UID: types.UID(r.String("place's uid")), Node: r.String("place's node")})
		}
		if r.Err() != nil {
			return
		}
		m.reservations[x.Profile] = &x
	}
}
