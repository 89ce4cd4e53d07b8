package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
)

// Reservations: package backfill has the rules of lanes. Here are its view of the Machine, and the Decisions and
// changes of the queue that follow from its answers.

// planView is the Machine's state as its Planner sees it.
type planView struct {
	*cluster.State
	entities  *entities
	topology  *topology
	room      *roomCheck
	nominated *nominations
	now       func() eventlog.Time
	guard     *searchGuard
}

var _ backfill.View = planView{}

// planView returns the view of a Planner.
func (m *Machine) planView(check *roomCheck) planView {
	return planView{State: m.cluster, entities: m.entities, topology: m.topology, room: check, nominated: m.nominated,
		now: m.Now, guard: m.guard}
}

// Now implements backfill.View.
func (v planView) Now() eventlog.Time { return v.now() }

// Versions implements backfill.View.
func (v planView) Versions() backfill.Versions {
	return backfill.Versions{
		Room:        v.Changed(cluster.RoomFreed),
		Placements:  v.Changed(cluster.PodPlaced),
		Allowed:     v.Changed(cluster.PodAllowed),
		Nominations: v.nominated.changes,
	}
}

// KeptNodes implements backfill.View.
func (v planView) KeptNodes() []string {
	if len(v.nominated.byNode) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(v.nominated.byNode))
}

// KeptOn implements backfill.View.
func (v planView) KeptOn(node string) (pods []*cluster.Pod) {
	for _, uid := range v.nominated.byNode[node] {
		if v.nominated.counts(uid) {
			pods = append(pods, v.Pods().Get(uid))
		}
	}
	return pods
}

// Nominated implements backfill.View.
func (v planView) Nominated() []*queue.Entity {
	_, entities := v.nominated.byEntity()
	return entities
}

// KeptFor implements backfill.View.
func (v planView) KeptFor(key queue.Key) []backfill.Kept {
	kept, _ := v.nominated.byEntity()
	return kept[key]
}

// EntityOf implements backfill.View.
func (v planView) EntityOf(p *cluster.Pod) *queue.Entity {
	if e := v.entities.queue.Find(p.Object.UID); e != nil && !e.Resize() {
		return e
	}
	return nil
}

// StandsBefore implements backfill.View.
func (v planView) StandsBefore(a, b *queue.Entity) bool { return v.entities.queue.StandsBefore(a, b) }

// FirstInLane implements backfill.View.
func (v planView) FirstInLane(lane string, wanted func(*queue.Entity) (yes, passed bool)) *queue.Entity {
	v.guard.check("the first of a lane")
	return v.entities.queue.FirstInLane(lane, wanted)
}

// ForgetPassed implements backfill.View.
func (v planView) ForgetPassed(lane string) { v.entities.queue.ForgetPassed(lane) }

// Entities implements backfill.View.
func (v planView) Entities() int { return v.entities.queue.Len() }

// Entity implements backfill.View.
func (v planView) Entity(key queue.Key) *queue.Entity { return v.entities.queue.Get(key) }

// IsPicked implements backfill.View.
func (v planView) IsPicked(e *queue.Entity) bool { return v.entities.queue.IsPicked(e) }

// InFlight implements backfill.View.
func (v planView) InFlight() bool { return v.entities.queue.Counts().InFlight > 0 }

// KeyOf implements backfill.View.
func (v planView) KeyOf(p *cluster.Pod) queue.Key { return v.entities.keyOf(p) }

// HasEnough implements backfill.View.
func (v planView) HasEnough(e *queue.Entity) bool { return v.entities.hasEnough(e) }

// Needed implements backfill.View.
func (v planView) Needed(e *queue.Entity) (_ room.Demand, ok bool) {
	return v.entities.needed(e)
}

// LeastNeeds implements backfill.View.
func (v planView) LeastNeeds(e *queue.Entity) (needs []backfill.Need, longest time.Duration, ok bool) {
	return v.entities.leastNeeds(e)
}

// LacksRoom implements backfill.View.
func (v planView) LacksRoom(e *queue.Entity) bool {
	return v.room.profiles.roomChecked[e.Profile()] && !v.room.hasForAll(e)
}

// DomainsNow implements backfill.View.
func (v planView) DomainsNow(e *queue.Entity) (nodes [][]string, limited bool) {
	if e.Type() != fwk.PodGroupKeyType {
		return nil, false
	}
	gangs := v.entities.gangsOf(e.Key())
	if len(gangs) != 1 {
		return nil, false
	}
	g := gangs[0]
	required, _ := g.Topology()
	if len(required) == 0 {
		return nil, false
	}
	domains := v.topology.domainsBy(required)
	if d := holding(g, domains); d != nil {
		return [][]string{d.names}, true
	}
	if g.Placed()+g.Waiting() > 0 {
		return nil, true // the nodes of its members are in none
	}
	for _, d := range domains {
		nodes = append(nodes, d.names)
	}
	return nodes, true
}

// Reservations returns the reservations there are, by lane.
func (m *Machine) Reservations() []backfill.Reservation {
	if m.backfill == nil {
		return nil
	}
	return m.backfill.Reservations()
}

// BlockedLanes returns the lanes whose first entity lets nothing pass, without a reservation, by name.
func (m *Machine) BlockedLanes() []backfill.BlockedLane {
	if m.backfill == nil {
		return nil
	}
	m.pick()
	return m.backfill.BlockedLanes()
}

// Overtakes reports whether an entity may be attempted before an entity of its lane that comes first and lets none
// pass. It may if room is kept on nodes for it, which the other one cannot use.
func (m *Machine) Overtakes(e, first *queue.Entity) bool {
	return m.backfill != nil && m.backfill.Overtakes(e, first)
}

// LetsPass reports whether an entity that waits for its turn lets entities behind it in its lane be attempted first.
func (m *Machine) LetsPass(e *queue.Entity) bool { return m.queue == nil || m.queue.Passes(e) }

// KeptFor returns the nominations of the pods of an entity.
func (m *Machine) KeptFor(key queue.Key) []backfill.Kept {
	kept, _ := m.nominated.byEntity()
	return kept[key]
}

// retryOvertaking retries an entity after its backoff if it does not overtake any more, and its attempt has failed on
// nodes that were not kept for it while it did. The entity then waits for its turn, and need not wait for an event.
func (m *Machine) retryOvertaking(key queue.Key) {
	m.nominated.forgetIndex() // the Decision may have changed it
	e := m.queue.Get(key)
	if e == nil || e.State() != queue.Unschedulable || e.Retryable() || !m.backfill.HasLane(e.Profile()) {
		return
	}
	if e.KeptOff() && !m.backfill.Overtakes(e, e) {
		m.queue.Retry(key)
	}
}

// decideReservation decides on a reservation for the first of a lane, if there is something to decide.
func (m *Machine) decideReservation() (d eventlog.Decision, ok bool) {
	proposal, ok := m.backfill.Propose()
	if !ok {
		return eventlog.Decision{}, false
	}
	d = m.decisionOn(proposal.Pod)
	d.Outcome, d.WaitUntil, d.Places = eventlog.Reserved, proposal.At, proposal.Places
	d.Ended = proposal.Ended
	return d, true
}

// applyReserved makes a decided reservation the one of its lane.
func (m *Machine) applyReserved(p *cluster.Pod, d *eventlog.Decision) error {
	profile := p.Object.Spec.SchedulerName
	if m.profiles.byName[profile] == nil {
		return fmt.Errorf("reservation for pod %s/%s: no profile schedules it", d.Namespace, d.Name)
	}
	m.renewReserved(profile)
	m.backfill.Reserve(
		backfill.Reservation{Key: m.entities.keyOf(p), Lane: profile, At: d.WaitUntil, Places: d.Places},
	)
	m.renewReserved(profile)
	m.queue.RetryInLane(profile, coscheduling.Name)
	return nil
}

// renewReserved makes the queue compute the needs again of the entity that has the reservation of a lane: the
// reservation does not keep it from any room.
func (m *Machine) renewReserved(lane string) {
	if r, ok := m.backfill.ReservationOf(lane); ok {
		m.queue.Renew(r.Key)
	}
}

// keepReservations ends the reservations that are over after the entry, and notes what the entry may have changed
// about the others; roomChanged says that it took, freed or lost room. Entities that a reservation kept from nodes
// are retried when it ends.
func (m *Machine) keepReservations(entry eventlog.Entry, roomChanged bool) {
	for _, lane := range m.backfill.Backfilled() {
		m.backfill.Observe(lane, entry, roomChanged)
		if key, failed := m.failedAttempt(entry); failed {
			m.backfill.Recheck(lane, key)
		}
		if m.backfill.WaitsNoMore(lane) {
			m.renewReserved(lane)
			m.backfill.End(lane)
			m.queue.RetryInLane(lane, coscheduling.Name)
		}
	}
}

// failedAttempt returns the entity of a pod for which an attempt found no node; ok is false for other entries.
func (m *Machine) failedAttempt(entry eventlog.Entry) (key queue.Key, ok bool) {
	d, isDecision := entry.Payload.(*eventlog.Decision)
	if !isDecision || d.Outcome != eventlog.Unschedulable && d.Outcome != eventlog.Error {
		return queue.Key{}, false
	}
	p := m.cluster.Pods().Get(d.UID)
	if p == nil {
		return queue.Key{}, false
	}
	return m.entities.keyOf(p), true
}

// refusalOf is the framework's Reserved: why the pod must not go to a node that has room for it; nil if it may go to
// any. With apart it must not go where it would be in the way of a nominated pod.
func (m *Machine) refusalOf(pod *v1.Pod, apart bool) *framework.Reserved {
	reserved := reservedFrom(m.backfill, pod)
	if !apart {
		return reserved
	}
	from := m.nominated.apartFrom(pod, m.cluster.Informers().Factory().Core().V1().Namespaces().Lister())
	switch {
	case from == nil:
		return reserved
	case reserved == nil:
		return &framework.Reserved{Why: from}
	}
	return &framework.Reserved{Why: func(info fwk.NodeInfo) *fwk.Status {
		if status := reserved.Why(info); status != nil {
			return status
		}
		return from(info)
	}}
}

// reservedFrom is refusalOf for reservations and for the first entity.
func reservedFrom(planner *backfill.Planner, pod *v1.Pod) *framework.Reserved {
	if pod.Spec.NodeName != "" {
		return nil // what it requests is counted on its node already
	}
	refusal := planner.Refusal(pod.UID)
	if refusal == nil {
		return nil
	}
	why := func(info fwk.NodeInfo) *fwk.Status {
		if why := refusal.Why(info); why != "" {
			return fwk.NewStatus(fwk.Unschedulable, why).WithPlugin(coscheduling.Name)
		}
		return nil
	}
	return &framework.Reserved{Why: why, Limited: refusal.Limited, Nodes: refusal.Nodes}
}
