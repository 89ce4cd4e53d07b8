package backfill

import (
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/queue"
)

// The room beside a reservation, for entities that would still run at its time. Example: 12 of a node's 16 cpu are in
// use, 4 of them end before the reservation's time, and 6 cpu of the node are reserved. So the node will have 8 cpu
// free then, and 2 beside the reservation: others may take 2 of the 4 cpu that are free now.

// besideMemo is a memo about a reservation's nodes.
type besideMemo struct {
	// taken are the pending pods that the reservation is for, by node. uids and names are of all pods that the
	// reservation is for, also of pods that are gone or have a node.
	taken map[string][]*cluster.Pod
	uids  map[types.UID]bool
	names map[types.NamespacedName]bool
	nodes map[string]nodeBeside
	// free is the amount that all nodes together have free beside the reservation, at these versions.
	free     map[v1.ResourceName]int64
	versions Versions
	overdue  bool
}

// nodeBeside is the part of a node's free amounts that others must leave to a reservation.
type nodeBeside struct {
	generation int64  // the node's: its pods
	allowed    uint64 // when they end
	overdue    bool
	left       map[v1.ResourceName]int64
}

// keep forgets which pods a reservation is for if the entry may have changed one of them.
func (b *besideMemo) keep(e eventlog.Entry) {
	same := false
	switch p := e.Payload.(type) {
	case *eventlog.Tick:
		same = true
	case *eventlog.BindResult:
		same = !b.uids[p.UID]
	case *eventlog.Upserted:
		pod, isPod := p.Object.(*v1.Pod)
		// Another pod of that name means that the former one is gone.
		same = !isPod || !b.uids[pod.UID] && !b.names[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	case *eventlog.Deleted:
		same = !b.uids[p.UID]
	case *eventlog.Decision:
		same = !b.uids[p.UID] && len(p.Rejected) == 0
	}
	if !same {
		b.taken, b.nodes, b.free = nil, nil, nil
	}
}

// takenBy returns the pods that the reservation is for, by node.
func (p *Planner) takenBy(r *reservation) map[string][]*cluster.Pod {
	b := &r.memo
	if b.taken == nil {
		b.taken, b.uids, b.nodes = map[string][]*cluster.Pod{}, map[types.UID]bool{}, map[string]nodeBeside{}
		b.names = map[types.NamespacedName]bool{}
		for _, place := range r.Places {
			b.uids[place.UID] = true
			pod := p.view.Pods().Get(place.UID)
			if pod == nil {
				continue
			}
			b.names[types.NamespacedName{Namespace: pod.Object.Namespace, Name: pod.Object.Name}] = true
			if pod.Stage == cluster.Pending {
				b.taken[place.Node] = append(b.taken[place.Node], pod)
			}
		}
	}
	return b.taken
}

// slack returns how much of a resource a node will have left at the reservation's time, without the reserved amount, if
// no other pod comes.
func (p *Planner) slack(r *reservation, info fwk.NodeInfo, name v1.ResourceName) int64 {
	left, _ := p.view.AmountOn(info, name)
	now := p.view.Now()
	for _, running := range info.GetPods() {
		pod := p.view.Pods().Get(running.GetPod().UID)
		if pod == nil {
			continue
		}
		if at, ok := room.EndOf(pod); !ok || max(at, now) > r.At {
			left -= pod.Amount(name)
		}
	}
	for _, pod := range p.takenBy(r)[info.Node().Name] {
		left -= pod.Amount(name)
	}
	return left
}

// isKept reports whether room is kept on a node for a pod that the reservation is not for. The reservation leaves out
// such room, because it was promised before.
func (p *Planner) isKept(r *reservation, pod *cluster.Pod, node string) bool {
	if !slices.Contains(p.view.KeptOn(node), pod) {
		return false
	}
	return !slices.ContainsFunc(p.takenBy(r)[node], func(of *cluster.Pod) bool { return !p.KeepsFrom(pod, of) })
}

// kept returns how much of a node's resource nominated pods will have at the reservation's time. It counts only pods
// that another pod must leave their room, and not the pods that the reservation is for.
func (p *Planner) kept(r *reservation, other *cluster.Pod, info fwk.NodeInfo, name v1.ResourceName) (amount int64) {
	for _, kept := range p.view.KeptOn(info.Node().Name) {
		gone := kept.Life() > 0 && p.view.Now().Add(kept.Life()) <= r.At
		if kept != other && !gone && p.view.KeyOf(kept) != r.Key && p.KeepsFrom(kept, other) {
			amount += kept.Amount(name)
		}
	}
	return amount
}

// mayGoWhereKept reports whether room that the reservation leaves out is kept for a pod of an entity.
func (p *Planner) mayGoWhereKept(r *reservation, e *queue.Entity) bool {
	return slices.ContainsFunc(p.view.KeptFor(e.Key()), func(k Kept) bool {
		return k.Counts && p.isKept(r, k.Pod, k.Node)
	})
}

// HasRoom reports whether all nodes together have enough for an entity beside its lane's reservation, if the entity
// must not delay that. It is a necessary condition for an attempt to succeed, not a sufficient one.
func (p *Planner) HasRoom(e *queue.Entity) bool {
	r := p.reservations[laneName(e)]
	if r == nil || e.Key() == r.Key {
		return true
	}
	if p.mayGoWhereKept(r, e) {
		return true
	}
	needs, longest, ok := p.view.LeastNeeds(e)
	if !ok || longest > 0 && p.view.Now().Add(longest) <= r.At {
		return true
	}
	for _, n := range needs {
		if n.Amount > p.freeBeside(r, n.Resource) {
			return false
		}
	}
	return true
}

// MayHaveRoom reports whether some entity of a lane may have room beside the lane's reservation. The entity needs no
// more than these amounts. If longest is above 0, it may hold them no longer than that. False is certain, as with
// HasRoom.
func (p *Planner) MayHaveRoom(lane string, longest time.Duration, needs []Need) bool {
	r := p.reservations[lane]
	if r == nil || longest > 0 && p.view.Now().Add(longest) <= r.At {
		return true
	}
	for _, n := range needs {
		if n.Amount > p.freeBeside(r, n.Resource) {
			return false
		}
	}
	return true
}

// freeBeside returns how much of a resource all nodes have free that can be taken without a delay of the reservation.
func (p *Planner) freeBeside(r *reservation, name v1.ResourceName) int64 {
	b, overdue := &r.memo, p.view.Now() > r.At
	if now := p.view.Versions(); b.free == nil || b.versions != now || b.overdue != overdue {
		b.free, b.versions, b.overdue = map[v1.ResourceName]int64{}, now, overdue
	}
	free, known := b.free[name]
	if !known {
		free = p.countFreeBeside(r, name, overdue)
		b.free[name] = free
	}
	return free
}

func (p *Planner) countFreeBeside(r *reservation, name v1.ResourceName, overdue bool) int64 {
	free, offered := p.view.Free(name)
	if !offered {
		return math.MaxInt64 // left to NodeResourcesFit
	}
	// any order: a sum
	for node := range p.takenBy(r) {
		if info, err := p.view.Nodes().Get(node); err == nil {
			free -= p.leftTo(r, info, name, overdue)
		}
	}
	return free
}

// leftTo returns how much of a node's free amount of a resource others must leave to the reservation.
func (p *Planner) leftTo(r *reservation, info fwk.NodeInfo, name v1.ResourceName, overdue bool) int64 {
	node, allowed := info.Node().Name, p.view.Versions().Allowed
	b := r.memo.nodes[node]
	if b.left == nil || b.generation != info.GetGeneration() || b.allowed != allowed || b.overdue != overdue {
		b = nodeBeside{info.GetGeneration(), allowed, overdue, map[v1.ResourceName]int64{}}
		r.memo.nodes[node] = b
	}
	left, known := b.left[name]
	if !known {
		p.counts++
		allocatable, requested := p.view.AmountOn(info, name)
		if now := max(0, allocatable-requested); now > 0 {
			left = now - min(now, max(0, p.slack(r, info, name)))
		}
		b.left[name] = left
	}
	return left
}
