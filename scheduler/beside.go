package scheduler

import (
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
)

// What is left beside a reservation for those that would still be there at its time.

// besideMemo is what is known of a reservation's nodes. It is a memo only.
type besideMemo struct {
	// taken are the pods that the reservation is for, by node, and uids and names all of them, also those that are gone
	// or have got one.
	taken map[string][]*cluster.Pod
	uids  map[types.UID]bool
	names map[types.NamespacedName]bool
	nodes map[string]nodeBeside
	// free is what all nodes together have free beside the reservation, in these books.
	free    map[v1.ResourceName]int64
	books   books
	overdue bool
}

// nodeBeside is how much of what a node has free now others must leave to a reservation.
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
		// Another pod of the name means that the one there was is gone.
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
func (m *Machine) takenBy(r *reservation) map[string][]*cluster.Pod {
	b := &r.memo
	if b.taken == nil {
		b.taken, b.uids, b.nodes = map[string][]*cluster.Pod{}, map[types.UID]bool{}, map[string]nodeBeside{}
		b.names = map[types.NamespacedName]bool{}
		for _, place := range r.Places {
			b.uids[place.UID] = true
			p := m.cluster.Pod(place.UID)
			if p == nil {
				continue
			}
			b.names[types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}] = true
			if p.Stage == cluster.Pending {
				b.taken[place.Node] = append(b.taken[place.Node], p)
			}
		}
	}
	return b.taken
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
	for _, p := range m.takenBy(r)[info.Node().Name] {
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
	b, overdue := &r.memo, m.now > r.At
	if now := m.books(); b.free == nil || b.books != now || b.overdue != overdue {
		b.free, b.books, b.overdue = map[v1.ResourceName]int64{}, now, overdue
	}
	free, known := b.free[name]
	if !known {
		free = m.countFreeBeside(r, name, overdue)
		b.free[name] = free
	}
	return free
}

func (m *Machine) countFreeBeside(r *reservation, name v1.ResourceName, overdue bool) int64 {
	free, offered := m.cluster.Free(name)
	if !offered {
		return math.MaxInt64 // left to NodeResourcesFit
	}
	// any order: a sum
	for node := range m.takenBy(r) {
		if info, err := m.cluster.Get(node); err == nil {
			free -= m.leftTo(r, info, name, overdue)
		}
	}
	return free
}

// leftTo is how much of what a node has free of a resource now others must leave to the reservation.
func (m *Machine) leftTo(r *reservation, info fwk.NodeInfo, name v1.ResourceName, overdue bool) int64 {
	node := info.Node().Name
	b := r.memo.nodes[node]
	if b.left == nil || b.generation != info.GetGeneration() || b.allowed != m.cluster.Allowed() || b.overdue != overdue {
		b = nodeBeside{info.GetGeneration(), m.cluster.Allowed(), overdue, map[v1.ResourceName]int64{}}
		r.memo.nodes[node] = b
	}
	left, known := b.left[name]
	if !known {
		m.work.counts++
		allocatable, requested := cluster.AmountOn(info, name)
		if now := max(0, allocatable-requested); now > 0 {
			left = now - min(now, max(0, m.slack(r, info, name)))
		}
		b.left[name] = left
	}
	return left
}
