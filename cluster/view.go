package cluster

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/internal/gang"
)

// What explanations read of the state, and no decision does; AllPods serves a change of configuration too.

// Requests returns what the pod requests: init containers and overhead counted as kube-scheduler counts them.
func (p *Pod) Requests() fwk.Resource { return p.info.CalculateResource().Resource }

// Pending counts the members that have no node, whatever may keep them from one.
func (g *Group) Pending() int { return g.counts.Pending }

// Named returns the names of the gangs that are to be admitted together as far as they are known: those that name each
// other, whether or not they are there, by namespace and name, or those below the CompositePodGroup, in the order of
// Gangs. The slice must not be changed.
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

// GangNeeds returns how many of g's members have still to get their node for good before it has its minimum,
// and what they request at the least, whichever members they are: per resource, the sum of the smallest
// requests. Members that are held on nodes count among the missing, because they give their nodes back if
// the rest find none. The needs are in a fixed order; members is 0, and needs nil, if none is missing.
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
