package scheduler

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/internal/gangplan"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
	"github.com/rollcall-sched/rollcall/queue"
)

// roomCheck answers, for the queue, whether an attempt on an entity would certainly fail now for want of room. It has
// no state.
//
// Invariant: false is certain, true is not. It compares sums over all nodes and not nodes, so it costs little.
// Example: a gang needs 4 GPUs on one node each, and two nodes have 2 free each. The answer is true, and the attempt
// fails. With 3 free in all the answer is false, and no attempt is made.
type roomCheck struct {
	cluster   *cluster.State
	table     *room.Table
	profiles  *profiles
	entities  *entities
	topology  *topology
	nominated *nominations
	planner   *backfill.Planner
	guard     *searchGuard

	// resources are the resources of needs, by their index in queue.Need.Amounts. numbers has the indexes.
	resources []v1.ResourceName
	numbers   map[v1.ResourceName]int
	scratch   []backfill.Need // of mayHave
}

// version is the queue's RoomVersion: while it is the same, no answer of roomCheck.has has turned from false to true.
// It grows when room is added or freed, when a reservation comes or goes, and when a nomination does.
func (r *roomCheck) version() uint64 {
	return r.cluster.Changed(cluster.RoomFreed) + r.planner.Version() + r.nominated.changes
}

// has is the queue's Room: whether an attempt on an entity that failed may end otherwise. It may if the cluster as a
// whole has enough for the gang, or for the gangs that are admitted together, and for all of that beside a reservation.
func (r *roomCheck) has(e *queue.Entity) bool {
	r.guard.check("room")
	if !r.profiles.roomChecked[e.Profile()] {
		return true
	}
	// The room beside a reservation takes longer to count, and is never more than the free room.
	return r.hasForAll(e) && r.planner.HasRoom(e)
}

// hasForAll is has without regard to reservations.
func (r *roomCheck) hasForAll(e *queue.Entity) bool {
	key := e.Key()
	if key.Type == fwk.PodKeyType {
		return !r.planner.HasLane(e.Profile()) || r.podHasRoom(e) || r.podMayPreempt(e)
	}
	gangs := r.entities.gangsOf(key)
	// An attempt of a NonStrict gang holds the nodes that it finds, also where they are not enough.
	if slices.ContainsFunc(gangs, (*cluster.Group).NonStrict) || r.mayPreempt(e, gangs) {
		return true
	}
	if key.Type == fwk.CompositePodGroupKeyType {
		c := r.cluster.Gangs().Composite(key.Namespace, key.Name)
		if c == nil {
			return true
		}
		_, lacks := r.cluster.LacksTogether(c)
		return !lacks
	}
	for _, g := range gangs {
		if _, lacks := r.cluster.Lacks(g); lacks {
			return false
		}
		if g.HasTopology() {
			if _, why := r.topology.domainOf(g); why != "" && !r.maySearch(g) {
				return false
			}
		}
	}
	return true
}

// needOf is the queue's Need: amounts that the answer of has depends on, so that it is certainly false if there is
// less.
func (r *roomCheck) needOf(e *queue.Entity) queue.Need {
	below, known := r.profiles.victimsBelow(e)
	n := queue.Need{Priority: below, Unknown: !known}
	if !known {
		return n
	}
	if reserved, ok := r.planner.ReservationOf(e.Profile()); ok && reserved.Key == e.Key() {
		n.Free = true
	}
	switch {
	case !r.profiles.roomChecked[e.Profile()] || r.anyNominated(e):
		n.Unknown = true
	case e.Type() == fwk.PodKeyType:
		next := e.Next()
		if next == nil || !r.planner.HasLane(e.Profile()) {
			n.Unknown = true
			return n
		}
		p := r.cluster.Pods().Get(next.UID)
		for _, name := range room.ResourcesOf([]*cluster.Pod{p}) {
			r.addNeed(&n, name, p.Amount(name))
		}
		n.Longest, n.Preempts = p.Life(), true
	default:
		gangs := r.entities.gangsOf(e.Key())
		if len(gangs) != 1 || gangs[0].Composite() != nil || gangs[0].NonStrict() {
			n.Unknown = true
			return n
		}
		add := func(name v1.ResourceName, amount int64) { r.addNeed(&n, name, amount) }
		n.Longest = r.cluster.LeastOf(gangs[0], add)
	}
	return n
}

// anyNominated reports whether a member of an entity is nominated to a node.
func (r *roomCheck) anyNominated(e *queue.Entity) bool {
	if len(r.nominated.nodes) == 0 {
		return false
	}
	return slices.ContainsFunc(e.Pending(), func(p *v1.Pod) bool { return r.nominated.nodeOf(p.UID) != "" })
}

func (r *roomCheck) addNeed(n *queue.Need, name v1.ResourceName, amount int64) {
	i, known := r.numbers[name]
	if !known {
		if r.numbers == nil {
			r.numbers = map[v1.ResourceName]int{}
		}
		i = len(r.resources)
		r.resources, r.numbers[name] = append(r.resources, name), i
	}
	for len(n.Amounts) <= i {
		n.Amounts = append(n.Amounts, 0)
	}
	n.Amounts[i] = amount
}

// mayHave is the queue's MayHaveRoom.
func (r *roomCheck) mayHave(lane string, n *queue.Need) bool {
	preempts := n.Preempts && r.cluster.LowestPriority() < n.Priority
	for i, amount := range n.Amounts {
		if amount > 0 && !preempts && !r.cluster.MayBeFree(r.resources[i], amount, n.Priority) {
			return false
		}
	}
	if lane == "" || n.Free {
		return true
	}
	r.scratch = r.scratch[:0]
	for i, amount := range n.Amounts {
		if amount > 0 {
			r.scratch = append(r.scratch, backfill.Need{Resource: r.resources[i], Amount: amount})
		}
	}
	return r.planner.MayHaveRoom(lane, n.Longest, r.scratch)
}

// podHasRoom reports whether all nodes together have enough for a single pod.
func (r *roomCheck) podHasRoom(e *queue.Entity) bool {
	demand, _ := r.entities.needed(e)
	for _, p := range demand.Pods() {
		for _, name := range room.ResourcesOf([]*cluster.Pod{p}) {
			if free, offered := r.cluster.Free(name); offered && p.Amount(name) > free {
				return false
			}
		}
	}
	return true
}

// mayPreempt reports whether only an attempt can tell if the entity's gangs find room. This is so if pods of lower
// priority could be evicted for them. It is also so if some member is nominated to a node: the attempt may end or move
// that nomination.
func (r *roomCheck) mayPreempt(e *queue.Entity, gangs []*cluster.Group) bool {
	for _, g := range gangs {
		isNominated := func(p *cluster.Pod) bool { return r.nominated.nodeOf(p.Object.UID) != "" }
		if len(r.nominated.nodes) > 0 && slices.ContainsFunc(g.Members(), isNominated) {
			return true
		}
	}
	prof := r.profiles.byName[e.Profile()]
	if prof == nil || !prof.Has(framework.PostFilter, preemption.Name) {
		return false
	}
	below, known := r.profiles.victimsBelow(e)
	return !known || slices.ContainsFunc(gangs, func(g *cluster.Group) bool { return r.table.MayMakeRoom(g, below) })
}

// podMayPreempt is mayPreempt for a single pod.
func (r *roomCheck) podMayPreempt(e *queue.Entity) bool {
	prof := r.profiles.byName[e.Profile()]
	if prof == nil || !prof.Has(framework.PostFilter, preemption.Name) {
		return false
	}
	below, known := r.profiles.victimsBelow(e)
	return !known || r.cluster.LowestPriority() < below
}

// maySearch reports whether a gang may have a plan in a domain for which topology.domainOf finds no room: it counts the
// members that find a node one after the other.
func (r *roomCheck) maySearch(g *cluster.Group) bool {
	if required, _ := g.Topology(); len(required) == 0 || g.HasTopologyAbove() {
		return false
	}
	u := gangplan.NewUnit(r.cluster, g)
	return !u.KeepsNodes() && gangplan.NewMembers(u).Unequal()
}
