package backfill

import (
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/queue"
)

// Overtaking: what nominated pods may do although an entity before them lets nothing pass.
//
// Room that is kept for a nominated pod is not free for others of its priority. If such an entity could not be
// attempted because another one of its lane comes first and lets none pass, neither would ever be placed. So it
// overtakes, under these rules:
//
//   - Room is kept, by Decisions of the log, for all that the entity needs at once. A nomination that only the pod's
//     object has is somebody else's, and lets nothing overtake.
//   - While it overtakes, its pods go to the nodes where room is kept for them, and to no others.
//   - Room that is kept for an entity that cannot overtake is free for entities of its lane that come before it. So
//     the first of a lane never waits for room that nobody can take.
//
// Example: gang A, of 2 pods, is the first of its lane and fits nowhere. Gang B, of 3 pods and the same priority, had
// pods evicted and is nominated to 3 nodes. B is placed on these 3 nodes before A. With one of the 3 pods nominated, B
// would wait, and A could be placed where that pod is nominated.

// Overtaking returns the entities that may be attempted before the first of a lane, which lets none pass.
func (p *Planner) Overtaking(first *queue.Entity) []*queue.Entity {
	if p.laneOf(first) == nil {
		return nil
	}
	var all []*queue.Entity
	for _, e := range p.view.Nominated() {
		if p.Overtakes(e, first) {
			all = append(all, e)
		}
	}
	return all
}

// Overtakes reports whether an entity may be attempted before one of its lane that comes first and lets none pass.
func (p *Planner) Overtakes(e, first *queue.Entity) bool {
	if l := p.laneOf(e); l == nil || l != p.laneOf(first) {
		return false
	}
	asked := overtakes{e.Key(), first.Priority()}
	may, known := p.overtakes[asked]
	if !known {
		may = p.mayOvertake(e, first.Priority())
		p.overtakes[asked] = may
	}
	return may
}

// overtakes is the question whether an entity overtakes one of a priority.
type overtakes struct {
	key      queue.Key
	priority int32
}

// ForgetOvertaking forgets which entities overtake: a nomination has changed, or what an entity needs.
func (p *Planner) ForgetOvertaking() { clear(p.overtakes) }

// mayOvertake is Overtakes without a memo.
func (p *Planner) mayOvertake(e *queue.Entity, priority int32) bool {
	nominations := p.view.KeptFor(e.Key())
	p.looked += len(nominations)
	kept := make(map[*cluster.Pod]bool, len(nominations))
	for _, k := range nominations {
		if k.Counts && k.Own && p.view.Gangs().PriorityOf(k.Pod.Object) >= priority {
			kept[k.Pod] = true
		}
	}
	if len(kept) == 0 {
		return false
	}
	if p.view.HasEnough(e) {
		return true // it needs no more than one pod at once
	}
	needed, ok := p.view.Needed(e)
	return ok && covers(kept, needed)
}

// covers reports whether the pods are all that an entity needs at once.
func covers(kept map[*cluster.Pod]bool, needed room.Demand) bool {
	satisfied := 0
	for _, part := range needed.Parts {
		n := 0
		for _, pod := range part.Pods {
			if kept[pod] {
				n++
			}
		}
		if n >= part.Wanted {
			satisfied++
		}
	}
	return satisfied >= needed.Enough
}

// Looked returns the number of nominations that were examined to find overtaking entities. Tests bound it.
func (p *Planner) Looked() int { return p.looked }

// GoesBefore reports whether a nominated pod has no lower priority than another pod.
func (p *Planner) GoesBefore(kept, other *cluster.Pod) bool {
	return p.view.Gangs().PriorityOf(kept.Object) >= p.view.Gangs().PriorityOf(other.Object)
}

// KeepsFrom reports whether the room that is kept for a nominated pod is not free for another pod: it is the rule of
// every scheduling cycle.
func (p *Planner) KeepsFrom(kept, other *cluster.Pod) bool {
	if !p.GoesBefore(kept, other) {
		return false
	}
	e, first := p.view.EntityOf(kept), p.view.EntityOf(other)
	if e == nil || first == nil || e == first || p.laneOf(e) == nil || p.laneOf(e) != p.laneOf(first) {
		return true
	}
	return !p.view.StandsBefore(first, e) || p.Overtakes(e, first)
}

// overtaken returns the entity that lets none pass and comes before the pod's entity, nil if there is none. own is the
// node where room is kept for the pod. Callers ask it about entities with nominations of their own, because no others
// overtake. They also ask it about members beyond an entity's minimum. These go to no other nodes either if the earlier
// members are bound by then, and so have no nominations.
func (p *Planner) overtaken(pod *cluster.Pod) (first *queue.Entity, own string) {
	if pod == nil {
		return nil, ""
	}
	l, e := p.lanes[laneOfPod(pod)], p.view.EntityOf(pod)
	if l == nil || e == nil {
		return nil, ""
	}
	any := p.view.HasEnough(e)
	for _, k := range p.view.KeptFor(e.Key()) {
		any = any || k.Own
		if k.Own && k.Pod == pod {
			own = k.Node
		}
	}
	if !any {
		return nil, ""
	}
	if l.Backfill {
		if first = p.first(l.Name); first != nil && !p.blocks(l, first) {
			first = nil
		}
	} else {
		first = p.view.FirstInLane(l.Name, func(e *queue.Entity) (yes, passed bool) {
			return !p.view.HasEnough(e), false
		})
	}
	if first == nil || first == e || !p.view.StandsBefore(first, e) {
		return nil, ""
	}
	return first, own
}

// keptAloneRefusal returns a function that refuses all nodes but the one that is kept for the pod, if its entity
// overtakes another one; nil if it does not.
func (p *Planner) keptAloneRefusal(pod *cluster.Pod) func(info fwk.NodeInfo) (why string) {
	first, own := p.overtaken(pod)
	if first == nil {
		return nil
	}
	return func(info fwk.NodeInfo) string {
		if info.Node().Name == own {
			return ""
		}
		return "node(s) are kept for " + nameOf(first.Key()) + IsAhead
	}
}

// IsAhead ends the refusals of keptAloneRefusal. It is recorded: IsKeptAlone reads it.
const IsAhead = ", which is ahead in the queue"

// IsKeptAlone reports whether a reason that a Decision records says that nodes are for an entity that was overtaken.
func IsKeptAlone(reason string) bool { return strings.HasSuffix(reason, IsAhead) }
