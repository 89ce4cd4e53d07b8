package cluster

import (
	"maps"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/internal/gang"
)

// holdings are the amounts that the pods with a node hold, by the priority that counts for each of them: see
// PriorityOf.
type holdings struct {
	pods map[int32]int
	sums map[int32]*Capacity
}

// countIn counts p in, which has come to its node.
func (s *State) countIn(p *Pod) {
	p.countedPriority = s.gangs.PriorityOf(p.Object)
	if p.countedPriority < s.LowestPriority() {
		s.record.note(RoomFreed) // the amounts of all pods with a node do not count from now on
	}
	s.holdings.add(p.countedPriority, p.info, +1)
}

// countOut counts p out, which is about to leave its node.
func (s *State) countOut(p *Pod) {
	s.holdings.add(p.countedPriority, p.info, -1)
}

// recountAll counts again those pods of the gangs that have a node and whose priority has changed.
func (s *State) recountAll(gangs ...*Group) {
	for _, g := range gangs {
		// any order: sums of integers
		for _, p := range g.members {
			if p.Node != "" && p.countedPriority != s.gangs.PriorityOf(p.Object) {
				s.countOut(p)
				s.countIn(p)
				s.record.note(RoomFreed)
				s.record.note(Reprioritised)
			}
		}
	}
}

// CountedPriority returns the priority that a pod with a node is counted with, see State.PriorityOf.
func (p *Pod) CountedPriority() int32 { return p.countedPriority }

// recountWith counts again the pods of the gang, and of all gangs that it is admitted with.
func (s *State) recountWith(name types.NamespacedName) {
	if g, ok := s.gangs.byName[name]; ok {
		s.recountAll(g)
		if g.composite != nil {
			s.recountAll(g.composite.together()...)
		}
	}
}

// add counts a pod of the priority in, or out with sign -1.
func (h *holdings) add(priority int32, info *framework.PodInfo, sign int64) {
	if h.pods == nil {
		h.pods, h.sums = map[int32]int{}, map[int32]*Capacity{}
	}
	if h.pods[priority] += int(sign); h.pods[priority] == 0 {
		delete(h.pods, priority)
		delete(h.sums, priority)
		return
	}
	c := h.sums[priority]
	if c == nil {
		c = &Capacity{Scalar: map[v1.ResourceName]int64{}}
		h.sums[priority] = c
	}
	r := info.CalculateResource().Resource
	c.add(r.GetMilliCPU(), r.GetMemory(), r.GetEphemeralStorage(), 1, sign)
	// any order: sums of integers
	for name, amount := range r.GetScalarResources() {
		c.addScalar(name, amount, sign)
	}
}

// LowestPriority returns the lowest priority of the pods with a node; the highest there is if there are no such pods.
func (s *State) LowestPriority() int32 {
	lowest := int32(math.MaxInt32)
	// any order: a minimum
	for priority := range s.holdings.pods {
		lowest = min(lowest, priority)
	}
	return lowest
}

// MayMakeRoom reports whether the nodes together could have the rest of g's needs, or of its unit's, if all pods of
// lower priority had gone. False is certain, as with Lacks. g is not NonStrict: waiting members of such a gang keep
// their nodes, and a lack of room delays none of its attempts. See also room.Table.MayMakeRoom.
func (s *State) MayMakeRoom(g *Group, priority int32) bool {
	if s.LowestPriority() >= priority || !g.MayPreempt() {
		return false
	}
	all := s.freeFor(priority)
	k := max(0, g.Lacking(gang.Assigned))
	_, lacks := s.lacksOf(all, g, k)
	return !lacks
}

// freeFor returns the free amounts of all nodes together if all pods of lower priority had gone. It must not be
// changed.
func (s *State) freeFor(priority int32) *Capacity {
	if s.LowestPriority() >= priority {
		return &s.free
	}
	room, placements := s.record[RoomFreed], s.record[PodPlaced]
	if c := s.gone.by[priority]; c != nil && s.gone.room == room && s.gone.placements == placements {
		return c
	}
	all := s.free
	if all.Scalar, all.scalarHigh = maps.Clone(s.free.Scalar), maps.Clone(s.free.scalarHigh); all.Scalar == nil {
		all.Scalar = map[v1.ResourceName]int64{}
	}
	// any order: sums of integers
	for p, c := range s.holdings.sums {
		if p >= priority {
			continue
		}
		all.plus(c)
	}
	if s.gone.by == nil || s.gone.room != room || s.gone.placements != placements {
		s.gone = freeWithout{room, placements, map[int32]*Capacity{}}
	}
	s.gone.by[priority] = &all
	return &all
}

// freeWithout is a memo of freeFor, by priority. It holds as long as no room is freed and no pod comes to a node.
type freeWithout struct {
	room, placements uint64
	by               map[int32]*Capacity
}

// MayBeFree reports whether all nodes together may have so much of a resource free if all pods of lower priority had
// gone, or do not offer it. A no is certain, and means that Lacks and MayMakeRoom say so as well.
func (s *State) MayBeFree(name v1.ResourceName, amount int64, priority int32) bool {
	free, offered := s.freeFor(priority).of(name)
	return !offered || amount <= free
}

// LeastOf calls each with the least amounts that the missing members of g's minimum request. It does so for every
// resource of which they request some. The amounts hold whether waiting members give their nodes back or keep them.
func (s *State) LeastOf(g *Group, each func(resource v1.ResourceName, amount int64)) (longest time.Duration) {
	k := max(0, min(g.Lacking(gang.OnNodes), g.Lacking(gang.Assigned)))
	needs := s.needsOf(g)
	for i := range needs {
		if amount := needs[i].Smallest(k); amount > 0 {
			each(needs[i].Resource, amount)
		}
	}
	return g.longest
}

// RequestsOf returns the requests of the ready members of g, resource by resource. The slice must not be changed.
func (s *State) RequestsOf(g *Group) []Requests { return s.needsOf(g) }

// WantsMoreThan reports whether the minResources of g, before the first of its members is bound or being bound, exceed
// the requests of its own pods among the given ones.
func (s *State) WantsMoreThan(g *Group, pods []*Pod) bool {
	if len(g.declarations) == 0 || g.Placed() > 0 {
		return false
	}
	for _, m := range g.declarations[0].room {
		requested := int64(0)
		for _, p := range pods {
			if p.Group == g {
				requested += p.Amount(m.resource)
			}
		}
		if requested < m.amount {
			return true
		}
	}
	return false
}
