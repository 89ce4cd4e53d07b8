package scheduler

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

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

	memo besideMemo
}

// Reservations returns those that stand, by profile.
func (m *Machine) Reservations() []Reservation {
	var out []Reservation
	for _, profile := range slices.Sorted(maps.Keys(m.reservations)) {
		out = append(out, m.reservations[profile].Reservation)
	}
	return out
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
		pods := m.needed(e)
		if pods == nil {
			continue
		}
		elsewhere := refusedElsewhere(e)
		if was := &m.lanes[profile].shadowed; was.of.same(pods) && was.books == books && was.elsewhere == elsewhere && m.now < was.until {
			continue // looked at already
		}
		o := m.outlookFor(e, pods)
		at, places, until, found := o.earliest(m.now)
		if found && at <= m.now && elsewhere && o.fitsNow() {
			found = false // room is not what it waits for
		}
		if !found && r == nil || found && r != nil && (at == r.At || at <= m.now && r.At <= m.now) && slices.Equal(places, r.Places) {
			m.lanes[profile].shadowed = shadowed{asTheyAre(pods), books, elsewhere, until}
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

// shadowed is for which pods the time was looked for, in which books, and for whom nothing else came of it than what stands.
type shadowed struct {
	of        podsAsTheyWere
	books     books
	elsewhere bool
	until     eventlog.Time
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
	if l := m.lanes[profile]; l != nil {
		l.shadowed = shadowed{}
	}
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
			case changed || r.isOf(entry):
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

// isOf says whether the entry brought another object of a pod that the reservation is for: it may ask for something else.
func (r *reservation) isOf(e eventlog.Entry) bool {
	u, ok := e.Payload.(*eventlog.Upserted)
	if !ok || u.Resource != eventlog.Pods {
		return false
	}
	return slices.ContainsFunc(r.Places, func(place eventlog.Place) bool { return place.UID == u.Object.GetUID() })
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

// reservedFrom is the framework's Reserved: why the pod must not go to a node that has room for it; nil if it may go to any.
func (m *Machine) reservedFrom(pod *v1.Pod) func(info fwk.NodeInfo) *fwk.Status {
	p := m.cluster.Pod(pod.UID)
	r := m.passing(p)
	if r == nil {
		return nil
	}
	return func(info fwk.NodeInfo) *fwk.Status {
		if len(m.takenBy(r)[info.Node().Name]) == 0 {
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
