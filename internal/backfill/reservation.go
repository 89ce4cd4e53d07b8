package backfill

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/queue"
)

// Reservation is room kept for the first of a lane at a time.
type Reservation struct {
	// Lane is the lane's name, and Key the entity.
	Lane string
	Key  queue.Key
	// At is the time at which there will be room, as the running pods declare.
	At eventlog.Time
	// Places are the nodes of the pods that it is for.
	Places []eventlog.Place
}

// reservation is a Reservation with its memos.
type reservation struct {
	Reservation
	stale bool // a pod came, went or changed since it was decided: state, since it says what is decided next

	memo  besideMemo
	nodes []string // the nodes of Places; nil: not computed yet
}

// Reservations returns the reservations there are, by lane.
func (p *Planner) Reservations() []Reservation {
	var out []Reservation
	for _, lane := range slices.Sorted(maps.Keys(p.reservations)) {
		out = append(out, p.reservations[lane].Reservation)
	}
	return out
}

// ReservationOf returns the reservation of a lane; ok is false if there is none.
func (p *Planner) ReservationOf(lane string) (_ Reservation, ok bool) {
	if r := p.reservations[lane]; r != nil {
		return r.Reservation, true
	}
	return Reservation{}, false
}

// Proposal is a reservation to be decided for the first of a lane.
type Proposal struct {
	// Pod is the pod of the Decision: the first one that the reservation is for, or the first one that needs room.
	Pod *cluster.Pod
	// At and Places are the reservation's. Without Places the one there is has to go.
	At     eventlog.Time
	Places []eventlog.Place
	// Ended says why the one there is has to go.
	Ended eventlog.Ending
}

// Propose returns the next reservation to decide. It is for the first of a lane that has failed and has no reservation,
// or it replaces one that would be found otherwise now. ok is false if there is nothing to decide. It changes memos
// only.
//
// It also proposes the end of a reservation whose entity is not the first of the lane now, unless another reservation
// takes its place.
func (p *Planner) Propose() (_ Proposal, ok bool) {
	if len(p.backfilled) == 0 {
		return Proposal{}, false
	}
	attempt := p.view.InFlight()
	versions := p.view.Versions()
	for _, lane := range p.backfilled {
		r := p.reservations[lane]
		over := p.notFirst(lane)
		if over != nil {
			r = nil
		}
		if !attempt {
			if proposal, ok := p.proposeFor(lane, r, versions); ok {
				return proposal, true
			}
		}
		if over != nil {
			return Proposal{Pod: over, Ended: eventlog.NotFirst}, true
		}
	}
	return Proposal{}, false
}

// proposeFor is Propose for a lane whose reservation is r, nil for none.
func (p *Planner) proposeFor(lane string, r *reservation, versions Versions) (_ Proposal, ok bool) {
	e := p.first(lane)
	if e == nil || !e.Failed() || e.State() == queue.Active {
		return Proposal{}, false
	}
	if r != nil && !r.stale {
		return Proposal{}, false
	}
	needed, ok := p.view.Needed(e)
	if !ok {
		return Proposal{}, false
	}
	now, elsewhere := p.view.Now(), refusedElsewhere(e)
	was := &p.lanes[lane].looked
	if was.versions == versions && was.elsewhere == elsewhere && now < was.until && was.of.same(needed) {
		return Proposal{}, false
	}
	o := p.aheadFor(e, needed)
	at, places, until, found := o.earliest()
	var ended eventlog.Ending
	switch {
	case !found:
		ended = eventlog.NoTime
	case len(places) == 0 || at <= now && elsewhere && o.fitsNow():
		// Room is not what it waits for: it was refused for another reason although it fits now, or needs no place, as
		// a pod that a Permit plugin holds.
		found, at, places, ended = false, 0, nil, eventlog.OtherReason
	}
	if r.isSame(found, at, places, now) {
		*was = lookedAt{asTheyAre(needed), versions, elsewhere, until}
		return Proposal{}, false
	}
	pod := needed.First()
	if len(places) > 0 {
		pod = p.view.Pods().Get(places[0].UID)
	}
	return Proposal{Pod: pod, At: at, Places: places, Ended: ended}, true
}

// isSame reports whether the reservation, which may be nil, equals the one that was found: the same places at the same
// time, or both times have come.
func (r *reservation) isSame(found bool, at eventlog.Time, places []eventlog.Place, now eventlog.Time) bool {
	if r == nil || !found {
		return r == nil && !found
	}
	return (at == r.At || at <= now && r.At <= now) && slices.Equal(places, r.Places)
}

// lookedAt is a memo of Propose: the pods of the last search, which found nothing else than the present reservation.
type lookedAt struct {
	of        demandAsItWas
	versions  Versions
	elsewhere bool
	until     eventlog.Time
}

// Reserve makes a decided reservation the one of its lane, in place of the one it may have. One without Places ends
// that.
func (p *Planner) Reserve(r Reservation) {
	p.End(r.Lane)
	if len(r.Places) > 0 {
		p.reservations[r.Lane] = &reservation{Reservation: r}
	}
}

// End ends the reservation of a lane.
func (p *Planner) End(lane string) {
	p.changes++
	delete(p.reservations, lane)
	if l := p.lanes[lane]; l != nil {
		l.looked = lookedAt{}
	}
}

// WaitsNoMore reports whether a lane has a reservation whose entity does not wait in the lane now. The entity is gone,
// has its minimum, or has no ready pod. The answer follows from counts, without a search.
func (p *Planner) WaitsNoMore(lane string) bool {
	r := p.reservations[lane]
	if r == nil {
		return false
	}
	e := p.view.Entity(r.Key)
	return e == nil || p.view.HasEnough(e) || laneName(e) != lane || e.State() == queue.Gated ||
		e.State() == queue.Placed
}

// notFirst returns a pod of the entity that has the lane's reservation, if the entity is not the first that room can
// help now. Otherwise, and during an attempt on the entity, it returns nil. The answer does not depend on the entity
// that the queue has picked for a retry, see roomIsNotIt.
func (p *Planner) notFirst(lane string) *cluster.Pod {
	r := p.reservations[lane]
	if r == nil {
		return nil
	}
	e := p.view.Entity(r.Key)
	if e == nil || e.State() == queue.InFlight || p.first(lane) == e {
		return nil
	}
	for _, pod := range e.Pending() {
		if own := p.view.Pods().Get(pod.UID); laneOfPod(own) == lane {
			return own
		}
	}
	return nil
}

// Observe notes what an applied entry may have changed about a lane's reservation. changed means that room was taken,
// freed, kept or lost. Then Propose checks the reservation again: the same room may be elsewhere, where it leaves more
// to others.
func (p *Planner) Observe(lane string, entry eventlog.Entry, changed bool) {
	r := p.reservations[lane]
	if r == nil {
		return
	}
	r.memo.keep(entry)
	r.stale = r.stale || changed || r.isOf(entry)
}

// Recheck makes Propose check a lane's reservation again if it is the entity's: an attempt on the entity has failed. If
// the reason was not a lack of room, the reservation is of no use.
func (p *Planner) Recheck(lane string, key queue.Key) {
	if r := p.reservations[lane]; r != nil && r.Key == key {
		r.stale = true
	}
}

// NoteBlocked changes Version if a lane has become blocked or unblocked. During an attempt it does nothing: Passes is
// not asked before the attempt has ended.
func (p *Planner) NoteBlocked() {
	if p.view.InFlight() {
		return
	}
	for _, lane := range p.backfilled {
		l := p.lanes[lane]
		if e := p.first(lane); l.blocked != (e != nil && p.blocks(l, e)) {
			l.blocked = !l.blocked
			p.changes++
		}
	}
}

// isOf reports whether the entry brought another object of a pod that the reservation is for: it may ask for something
// else.
func (r *reservation) isOf(e eventlog.Entry) bool {
	u, ok := e.Payload.(*eventlog.Upserted)
	if !ok || u.Resource != eventlog.Pods {
		return false
	}
	return slices.ContainsFunc(r.Places, func(place eventlog.Place) bool { return place.UID == u.Object.GetUID() })
}

// limiting returns the reservation that a pod must not delay, nil for none.
func (p *Planner) limiting(pod *cluster.Pod) *reservation {
	if len(p.reservations) == 0 || pod == nil {
		return nil
	}
	r := p.reservations[laneOfPod(pod)]
	if r == nil || p.view.KeyOf(pod) == r.Key {
		return nil
	}
	if life := pod.Life(); life > 0 && p.view.Now().Add(life) <= r.At {
		return nil // it will be gone
	}
	return r
}

// Refusal is the reason why a pod may not use nodes that have room for it.
type Refusal struct {
	// Why says why the pod must not go to a node, "" if it may.
	Why func(info fwk.NodeInfo) string
	// Limited says that Why may refuse the nodes of these names only. They are sorted, and must not be changed.
	Limited bool
	Nodes   []string
}

// Refusal returns the reason why the pod may not use nodes that have room for it, nil if it may use any node.
func (p *Planner) Refusal(uid types.UID) *Refusal {
	pod := p.view.Pods().Get(uid)
	if refusal := p.keptAloneRefusal(pod); refusal != nil {
		return &Refusal{Why: refusal}
	}
	r := p.limiting(pod)
	if r == nil {
		return nil
	}
	return &Refusal{Limited: true, Nodes: r.reservedNodes(), Why: func(info fwk.NodeInfo) string {
		if len(p.takenBy(r)[info.Node().Name]) == 0 || p.isKept(r, pod, info.Node().Name) {
			return ""
		}
		for _, name := range room.ResourcesOf([]*cluster.Pod{pod}) {
			if need := pod.Amount(name); need > 0 && p.slack(r, info, name)-p.kept(r, pod, info, name) < need {
				return fmt.Sprintf("node(s) were reserved for %s from %s on", nameOf(r.Key), r.At)
			}
		}
		return ""
	}}
}

// reservedNodes returns the names of the nodes of the reservation, sorted, each once.
func (r *reservation) reservedNodes() []string {
	if r.nodes == nil {
		for _, place := range r.Places {
			r.nodes = append(r.nodes, place.Node)
		}
		slices.Sort(r.nodes)
		r.nodes = slices.Compact(r.nodes)
	}
	return r.nodes
}

// nameOf returns the name of an entity in messages.
func nameOf(key queue.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// AppendState appends the reservations in one canonical form.
func (p *Planner) AppendState(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p.reservations)))
	for _, lane := range slices.Sorted(maps.Keys(p.reservations)) {
		r := p.reservations[lane]
		for _, s := range [...]string{lane, string(r.Key.Type), r.Key.Namespace, r.Key.Name} {
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

// Restore reads what AppendState wrote into a Planner without reservations. The reader keeps an error.
func (p *Planner) Restore(r *canonical.Reader) {
	for range r.Count("reservations", 7) {
		var x reservation
		x.Lane = r.String("profile")
		x.Key = queue.Key{
			Type:      fwk.EntityKeyType(r.String("entity type")),
			Namespace: r.String("entity namespace"), Name: r.String("entity name"),
		}
		x.At = eventlog.Time(r.Varint("reserved at"))
		x.stale = r.Flags("reservation flags", 1)[0]
		for range r.Count("places", 2) {
			uid := types.UID(r.String("place's uid"))
			x.Places = append(x.Places, eventlog.Place{UID: uid, Node: r.String("place's node")})
		}
		if r.Err() != nil {
			return
		}
		p.reservations[x.Lane] = &x
	}
}
