package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/internal/gang"
)

// What explanations read of the state, and no decision does; AllPods serves a change of configuration too.

// AllPods returns every pod, by namespace, name and UID.
func (s *State) AllPods() []*Pod { return s.PodsThat(func(*Pod) bool { return true }) }

// GroupNames returns the names of all groups, those that an object declares and those that pods name, by namespace and
// name.
func (s *State) GroupNames() []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(s.groups), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// PodsThat returns the pods of which is says true, by namespace, name and UID. It is asked of all, in any order. Where
// few of many are wanted, that takes a fraction of the time of AllPods, which sorts them all.
func (s *State) PodsThat(is func(*Pod) bool) []*Pod {
	var pods []*Pod
	// any order: sorted right below
	for _, p := range s.pods {
		if is(p) {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(strings.Compare(a.Object.Namespace, b.Object.Namespace), comparePods(a, b))
	})
	return pods
}

// Requests returns what the pod requests: init containers and overhead counted as kube-scheduler counts them.
func (p *Pod) Requests() fwk.Resource { return p.info.CalculateResource().Resource }

// Pending counts the members that have no node, whatever may keep them from one.
func (g *Group) Pending() int { return g.counts.Pending }

// KeptBack counts the members of g without a node that no cycle could place: those that have a scheduling gate,
// those that are being deleted or were asked to go, and else those of another scheduler.
func (s *State) KeptBack(g *Group) (gated, deleted, foreign int) {
	// any order: the sum is the same
	for _, p := range g.members {
		switch {
		case p.Stage != Pending || s.isReady(p):
		case !s.MayBePlaced(p):
			deleted++
		case len(p.Object.Spec.SchedulingGates) > 0:
			gated++
		default:
			foreign++
		}
	}
	return gated, deleted, foreign
}

// CompositePodGroup returns what the CompositePodGroup of that name and the gangs that name it are, also if they have
// nothing to do with each other; nil if neither it nor such a gang is there.
func (s *State) CompositePodGroup(namespace, name string) *Composite {
	return s.composites[types.NamespacedName{Namespace: namespace, Name: name}]
}

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
		if p.Stage == Waiting || p.Stage == Pending && s.isReady(p) {
			candidates = append(candidates, p)
		}
	}
	for _, n := range needsOf(candidates) {
		needs = append(needs, Need{Resource: n.resource, Amount: n.smallest(missing)})
	}
	return missing, needs
}
