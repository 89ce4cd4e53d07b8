package scheduler

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
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

// reservation is one with what is kept beside it.
type reservation struct {
	Reservation
	stale bool // somebody came or went since it was decided

	// Memos: the pods by node, and what is free beside them.
	taken  map[string][]*cluster.Pod
	beside beside
	free   map[v1.ResourceName]int64
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

// books are memo's versions of who is booked where: while they are the same, and until the next pod has run as long as it
// declared, so is every answer of shadow.earliest.
type books struct{ room, placements uint64 }

func (m *Machine) books() books { return books{m.cluster.RoomVersion(), m.cluster.Placements()} }

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
func (m *Machine) keepReservations(changed bool) {
	for _, profile := range m.backfilled {
		if r := m.reservations[profile]; r != nil {
			e := m.queue.Get(r.Key)
			switch {
			case e == nil || m.hasEnough(e) || e.State() != queue.InFlight && m.firstInLine(profile) != e:
				delete(m.reservations, profile)
				m.reservationChanged(profile)
			case changed:
				r.stale, r.taken = true, nil
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
func (m *Machine) roomVersion() uint64 { return m.cluster.RoomVersion() + m.reserved }

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
	if r == nil || len(r.on(m, info.Node().Name)) == 0 {
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

// on returns the pods that the reservation has on a node.
func (r *reservation) on(m *Machine, node string) []*cluster.Pod {
	if r.taken == nil {
		r.taken = map[string][]*cluster.Pod{}
		for _, place := range r.Places {
			if p := m.cluster.Pod(place.UID); p != nil && p.Stage == cluster.Pending {
				r.taken[place.Node] = append(r.taken[place.Node], p)
			}
		}
	}
	return r.taken[node]
}

// slack is what a node will have left of a resource at the reservation's time beside what is reserved of it, if nobody
// comes.
func (m *Machine) slack(r *reservation, info fwk.NodeInfo, name v1.ResourceName) int64 {
	left, _ := cluster.AmountOn(info, name)
	for _, running := range info.GetPods() {
		p := m.cluster.Pod(running.GetPod().UID)
		if p == nil {
			continue
		}
		if at, ok := endOf(p); !ok || max(at, m.now) > r.At {
			left -= p.Amount(name)
		}
	}
	for _, p := range r.on(m, info.Node().Name) {
		left -= p.Amount(name)
	}
	return left
}

// roomBeside says whether all nodes together have enough for an entity that must not delay its line's reservation: a
// necessary condition only, as Lacks.
func (m *Machine) roomBeside(e *queue.Entity) bool {
	r := m.reservations[e.Profile()]
	if r == nil || e.Key() == r.Key {
		return true
	}
	var needs []need
	longest, ok := m.needsOf(e, &needs)
	if !ok || longest > 0 && m.now.Add(longest) <= r.At {
		return true
	}
	for _, n := range needs {
		if n.amount > m.freeBeside(r, n.resource) {
			return false
		}
	}
	return true
}

// need is an amount of a resource.
type need struct {
	resource v1.ResourceName
	amount   int64
}

// needsOf adds what an entity needs at the least, and returns the longest that its pods declare to hold it, 0 if one of
// them declares nothing; ok is false if it is not known which of its gangs will be placed.
func (m *Machine) needsOf(e *queue.Entity, needs *[]need) (longest time.Duration, ok bool) {
	if e.Type() == fwk.PodKeyType {
		next := e.Next()
		if next == nil {
			return 0, false
		}
		p := m.cluster.Pod(next.UID)
		for _, name := range resourcesOf([]*cluster.Pod{p}) {
			*needs = append(*needs, need{name, p.Amount(name)})
		}
		return p.Life(), true
	}
	gangs := m.gangsOf(e.Key())
	if c := m.compositeOf(e); c != nil && c.Min() < len(gangs) {
		return 0, false
	}
	for i, g := range gangs {
		its := m.cluster.Needs(g, func(resource v1.ResourceName, amount int64) {
			at := slices.IndexFunc(*needs, func(n need) bool { return n.resource == resource })
			if at < 0 {
				*needs = append(*needs, need{resource, amount})
				return
			}
			(*needs)[at].amount += amount
		})
		if i == 0 || its == 0 || longest > 0 && its > longest {
			longest = its
		}
		if its == 0 {
			longest = -1
		}
	}
	return max(0, longest), len(gangs) > 0
}

// freeBeside is what all nodes have free of a resource that can be had without delaying the reservation.
func (m *Machine) freeBeside(r *reservation, name v1.ResourceName) int64 {
	now := beside{m.books(), m.now > r.At}
	if r.beside != now || r.free == nil {
		r.beside, r.free = now, map[v1.ResourceName]int64{}
	}
	free, known := r.free[name]
	if !known {
		free = m.countFreeBeside(r, name)
		r.free[name] = free
	}
	return free
}

// beside is a memo's version: while it is the same, so is what is free beside a reservation.
type beside struct {
	books   books
	overdue bool
}

func (m *Machine) countFreeBeside(r *reservation, name v1.ResourceName) int64 {
	m.work.counts++
	free, offered := m.cluster.Free(name)
	if !offered {
		return math.MaxInt64 // left to NodeResourcesFit
	}
	r.on(m, "")
	// any order: a sum
	for node := range r.taken {
		info, err := m.cluster.Get(node)
		if err != nil {
			continue
		}
		allocatable, requested := cluster.AmountOn(info, name)
		if now := max(0, allocatable-requested); now > 0 {
			free -= now - min(now, max(0, m.slack(r, info, name)))
		}
	}
	return free
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
