package scheduler

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/queue"
)

// hasEnough reports whether an entity waits only for members beyond what it needs.
func (n *entities) hasEnough(e *queue.Entity) bool {
	gangs := n.gangsOf(e.Key())
	if len(gangs) == 0 {
		return false
	}
	u := gangs[0].Tally(nil)
	return u.Satisfied()
}

// needed returns the pods of an entity of which some must be placed at once for its minimum. For a gang these are as
// many as it lacks, for a composite the pods of as many gangs as are enough. ok is false if too few are ready.
func (n *entities) needed(e *queue.Entity) (demand room.Demand, ok bool) {
	if e.Type() == fwk.PodKeyType {
		if next := e.Next(); next != nil {
			return room.DemandOf(n.cluster.Pods().Get(next.UID)), true
		}
		return room.Demand{}, false
	}
	gangs := n.gangsOf(e.Key())
	want := len(gangs)
	if c := n.compositeOf(e); c != nil {
		if want = c.Min(); len(c.Below()) > 0 {
			pods, ok := n.neededBelow(e, c)
			return room.DemandOf(pods...), ok && len(pods) > 0
		}
	}
	demand = room.Demand{Enough: want, Passing: true}
	for _, g := range gangs {
		members, k := n.readyOf(e, g), g.Lacking(gang.OnNodes)
		if len(members) < k {
			continue
		}
		demand.Parts = append(demand.Parts, room.Part{Pods: members, Wanted: max(0, k)})
	}
	if len(demand.Parts) < want || len(demand.Pods()) == 0 {
		return room.Demand{}, false
	}
	return demand, true
}

// neededBelow returns the pods of the first gangs and composites directly below c that are enough; ok is false if there
// are too few that have enough ready.
func (n *entities) neededBelow(e *queue.Entity, c *cluster.Composite) (pods []*cluster.Pod, ok bool) {
	want := c.Min()
	take := func(members []*cluster.Pod, ok bool) {
		if ok {
			pods = append(pods, members...)
			want--
		}
	}
	gangs, composites := c.Directly()
	for _, g := range gangs {
		if want > 0 {
			members, k := n.readyOf(e, g), max(0, g.Lacking(gang.OnNodes))
			take(members[:min(k, len(members))], len(members) >= k)
		}
	}
	for _, below := range composites {
		if want > 0 {
			take(n.neededBelow(e, below))
		}
	}
	return pods, want <= 0
}

// readyOf returns the members of a gang that an attempt on the entity could place.
func (n *entities) readyOf(e *queue.Entity, g *cluster.Group) (members []*cluster.Pod) {
	for _, pod := range e.Ready() {
		if p := n.cluster.Pods().Get(pod.UID); p.Group == g {
			members = append(members, p)
		}
	}
	return members
}

// leastNeeds returns the least amounts that an entity needs, and the longest time that its pods declare to hold them.
// The time is 0 if one of the pods declares nothing. ok is false if it is not known which of its gangs will be placed.
func (n *entities) leastNeeds(e *queue.Entity) (needs []backfill.Need, longest time.Duration, ok bool) {
	if e.Type() == fwk.PodKeyType {
		next := e.Next()
		if next == nil {
			return nil, 0, false
		}
		p := n.cluster.Pods().Get(next.UID)
		for _, name := range room.ResourcesOf([]*cluster.Pod{p}) {
			needs = append(needs, backfill.Need{Resource: name, Amount: p.Amount(name)})
		}
		return needs, p.Life(), true
	}
	gangs := n.gangsOf(e.Key())
	if c := n.compositeOf(e); c != nil && !c.NeedsAll() {
		return nil, 0, false
	}
	for i, g := range gangs {
		its := n.cluster.Needs(g, func(resource v1.ResourceName, amount int64) {
			at := slices.IndexFunc(needs, func(n backfill.Need) bool { return n.Resource == resource })
			if at < 0 {
				needs = append(needs, backfill.Need{Resource: resource, Amount: amount})
				return
			}
			needs[at].Amount += amount
		})
		if i == 0 || its == 0 || longest > 0 && its > longest {
			longest = its
		}
		if its == 0 {
			longest = -1
		}
	}
	return needs, max(0, longest), len(gangs) > 0
}
