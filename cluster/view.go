package cluster

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// What explanations read of the state, and no decision does; AllPods serves a change of configuration too.

// AllPods returns every pod, by namespace, name and UID.
func (s *State) AllPods() []*Pod {
	pods := make([]*Pod, 0, len(s.pods))
	// any order: sorted right below
	for _, p := range s.pods {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(strings.Compare(a.Object.Namespace, b.Object.Namespace), comparePods(a, b))
	})
	return pods
}

// Requests returns what the pod requests: init containers and overhead counted as kube-scheduler counts them.
func (p *Pod) Requests() fwk.Resource { return p.info.CalculateResource().Resource }

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
	missing := g.Min() - g.Assigned()
	if missing <= 0 {
		return 0, nil
	}
	var candidates []*Pod
	for _, p := range g.Members() {
		if p.Stage == Waiting || p.Stage == Pending && s.isReady(p.Object) {
			candidates = append(candidates, p)
		}
	}
	for _, n := range needsOf(candidates) {
		needs = append(needs, Need{Resource: n.resource, Amount: n.smallest(missing)})
	}
	return missing, needs
}
