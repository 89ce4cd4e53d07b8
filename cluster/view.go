package cluster

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/internal/gang"
)

// The state for explanations. No decision reads it, but a change of configuration uses AllPods.

// Requests returns the pod's requests. Init containers and overhead count as kube-scheduler counts them.
func (p *Pod) Requests() fwk.Resource { return p.info.CalculateResource().Resource }

// Pending counts the members that have no node, whatever may keep them from one.
func (g *Group) Pending() int { return g.counts.Pending }

// Named returns the names of the gangs that are to be admitted together, as far as they are known. For gangs that name
// each other these are all names, sorted, whether or not the gangs exist. For a CompositePodGroup these are the gangs
// below it, in the order of Gangs. The slice must not be changed.
func (c *Composite) Named() []types.NamespacedName {
	if c.named != nil {
		return c.named
	}
	all := c.Gangs()
	names := make([]types.NamespacedName, 0, len(all))
	for _, g := range all {
		names = append(names, g.Key())
	}
	return names
}

// Need is an amount of one resource, in its base unit; cpu in thousandths of a core.
type Need struct {
	Resource v1.ResourceName
	Amount   int64
}

// GangNeeds returns how many members g still needs for its minimum, and the least that any such members request: for
// each resource, the sum of the smallest requests. Members that wait on nodes count as missing, because they give their
// nodes back if the rest find none. The needs are in a fixed order. members is 0, and needs nil, if none is missing.
func (s *State) GangNeeds(g *Group) (members int, needs []Need) {
	missing := g.Lacking(gang.Assigned)
	if missing <= 0 {
		return 0, nil
	}
	var candidates []*Pod
	for _, p := range g.Members() {
		if p.Stage == Waiting || p.Stage == Pending && s.gangs.isReady(p) {
			candidates = append(candidates, p)
		}
	}
	for _, n := range needsOf(candidates) {
		needs = append(needs, Need{Resource: n.Resource, Amount: n.Smallest(missing)})
	}
	return missing, needs
}
