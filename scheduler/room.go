package scheduler

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/backfill"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/outlook"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
	"github.com/rollcall-sched/rollcall/queue"
)

// room answers, for the queue, whether an attempt on an entity would certainly fail now for want of room. It has no
// state.
//
// Invariant: false is certain, true is not. It compares sums over all nodes and not nodes, so it costs little. Example:
// a gang needs 4 GPUs on one node each, and two nodes have 2 free each. The answer is true, and the attempt fails. With
// 3 free in all the answer is false, and no attempt is made.
type room struct {
	cluster   *cluster.State
	profiles  *profiles
	entities  *entities
	topology  *topology
	nominated *nominations
	planner   *backfill.Planner
	find      func(r *room, e *queue.Entity) bool // (*room).look, or that of another behaviour
}

// version is the queue's RoomVersion: while it is the same, no answer of room.has has turned from false to true. It
// grows when room is added or freed, when a reservation comes or goes, and when a nomination does.
func (r *room) version() uint64 {
	return r.cluster.RoomVersion() + r.planner.Version() + r.nominated.changes
}

// has is the queue's Room: whether an attempt on an entity that failed may end otherwise.
func (r *room) has(e *queue.Entity) bool { return r.find(r, e) }

// look reports whether the cluster as a whole has enough for the gang, or for the gangs that are
// admitted together, and for all of that beside a reservation.
func (r *room) look(e *queue.Entity) bool {
	if !r.profiles.roomChecked[e.Profile()] {
		return true
	}
	// What is free beside a reservation takes the longer to count, and is never more than what is free.
	return r.hasForAll(e) && r.planner.HasRoom(e)
}

// hasForAll is has without regard to reservations.
func (r *room) hasForAll(e *queue.Entity) bool {
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
		c := r.cluster.Composite(key.Namespace, key.Name)
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
			if _, why := r.topology.domainOf(g, false); why != "" {
				return false
			}
		}
	}
	return true
}

// podHasRoom reports whether all nodes together have enough for a single pod.
func (r *room) podHasRoom(e *queue.Entity) bool {
	demand, _ := r.entities.needed(e, false)
	for _, p := range demand.Pods() {
		for _, name := range outlook.ResourcesOf([]*cluster.Pod{p}) {
			if free, offered := r.cluster.Free(name); offered && p.Amount(name) > free {
				return false
			}
		}
	}
	return true
}

// mayPreempt reports whether only an attempt can tell if the entity's gangs find room: pods of lower priority could be
// evicted for them, or some member is nominated to a node, and the attempt may end or move that nomination.
func (r *room) mayPreempt(e *queue.Entity, gangs []*cluster.Group) bool {
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
	return slices.ContainsFunc(gangs, func(g *cluster.Group) bool { return r.cluster.MayMakeRoom(g, e.Priority()) })
}

// podMayPreempt is mayPreempt for a single pod.
func (r *room) podMayPreempt(e *queue.Entity) bool {
	prof := r.profiles.byName[e.Profile()]
	return prof != nil && prof.Has(framework.PostFilter, preemption.Name) && r.cluster.LowestPriority() < e.Priority()
}
