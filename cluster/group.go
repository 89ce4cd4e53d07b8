package cluster

import (
	"slices"
	"strings"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// Group is the one internal form of a gang, whichever API declared it: a PodGroup of one of
// GroupResources, or for want of one the annotations of its members. docs/GANGS.md tells how pods name it
// and what is read. It is there as soon as either a member or its object is.
type Group struct {
	// Namespace and Name are the PodGroup's.
	Namespace, Name string

	informers    *Informers
	declarations []declaration // at most one by API, in the order of GroupResources; the first alone counts
	members      map[types.UID]*Pod
	counts       gang.Counts   // without the counts that only the scheduler has
	needs        []Requests    // a memo: of the ready members; nil after they changed
	longest      time.Duration // a memo with needs: the longest duration they declare, 0 if one declares none

	// The fields of members about the gang and about themselves.
	namings    census[string]
	faults     census[string]
	terms      census[terms]
	own        census[own]
	priorities census[int32]
	schedulers census[string]
	// controllers are the UIDs of the members' controllers, "" for none.
	controllers census[types.UID]

	// away counts the members that the gang needs (see Pod.needed), and that have no node or are leaving it.
	// counts.Missing counts the members among them that will have none again.
	away int
	// onlyAsked counts the leaving members that are only asked to go, and may stay after all.
	onlyAsked int

	// avoided are the domains in which an attempt has failed, sorted. It is emptied when no other domain is left to
	// try, or when a member is bound or being bound. Example: with racks a and b it is [a] after a failure in a, and
	// empty again after one in b.
	avoided []string

	composite *Composite // that it is admitted with, nil for none

	parts []partCount // the parts of the object that counts, by index; nil if they are not counted
	open  int         // how many members can be chosen, of whatever part; counted if parts are

	refusal  string // a memo of Refusal; it holds if judged
	forParts bool   // a memo with refusal: see RefusedForParts
	judged   bool

	recounted bool // it is in State.recounted
}

// Declared reports whether the minimum is known: from the group's object, or else from its members.
func (g *Group) Declared() bool { return len(g.declarations) > 0 || len(g.terms.count) > 0 }

// declaredTerms returns the terms of the group without Rollcall's own annotations: from its object, or else from its
// members. If members contradict each other it is the most that any of them asks for. The group is refused then.
func (g *Group) declaredTerms() terms {
	if len(g.declarations) > 0 {
		return g.declarations[0].terms
	}
	var most terms
	// any order: the greatest is found
	for t := range g.terms.count {
		if t.compare(most) > 0 {
			most = t
		}
	}
	return most
}

// Min is the number of members that are placed together or not at all, at least 1. It is 1 for a group of
// scheduling.k8s.io with the basic policy, whose pods are placed one by one.
func (g *Group) Min() int { return max(1, g.asked().min) }

// Total is the number of members that the group will have, 0 if it does not say.
func (g *Group) Total() int { return g.asked().total }

// Timeout is the time for which the group lets members wait on their nodes for the rest, 0 if it does not say.
func (g *Group) Timeout() time.Duration { return g.asked().timeout }

// Mode returns the treatment of waiting members when another member finds no node.
func (g *Group) Mode() Mode { return g.asked().mode }

// NonStrict reports whether waiting members stay on their nodes until their deadline when others find no node.
func (g *Group) NonStrict() bool { return g.asked().mode == NonStrict }

// MatchPolicy returns which members with a node count toward the minimum.
func (g *Group) MatchPolicy() gang.MatchPolicy { return g.asked().policy }

// Topology returns two lists of node labels, nil for none. All members' nodes must have one value of each required
// label. They should have one value of a preferred label, the first one first.
func (g *Group) Topology() (required, preferred []string) {
	t := g.asked()
	if t.required != "" {
		required = strings.Split(t.required, ",")
	}
	if t.preferred != "" {
		preferred = strings.Split(t.preferred, ",")
	}
	return required, preferred
}

// HasTopology reports whether Topology returns any label, or a CompositePodGroup above g asks for one.
func (g *Group) HasTopology() bool {
	t := g.asked()
	return t.required != "" || t.preferred != "" || g.HasTopologyAbove()
}

// Priority is the priority that the group's object gives it, by number or by the name of an existing class. If it gives
// none, a CompositePodGroup above the group counts, if the group is not admitted together with others: the topmost that
// has one. ok is false if none gives one.
func (g *Group) Priority() (priority int32, ok bool) {
	if c := g.composite; c != nil && c.Unit() == nil {
		for _, above := range c.lineage() {
			if priority, ok := above.ownPriority(); ok {
				return priority, true
			}
		}
	}
	return g.declaredPriority()
}

// declaredPriority is the priority of the group's object.
func (g *Group) declaredPriority() (priority int32, ok bool) {
	if len(g.declarations) == 0 {
		return 0, false
	}
	d := &g.declarations[0]
	if d.priority != nil {
		return *d.priority, true
	}
	if d.class == "" {
		return 0, false
	}
	class, ok := g.informers.Get(eventlog.PriorityClasses, "", d.class).(*schedulingv1.PriorityClass)
	if !ok {
		return 0, false
	}
	return class.Value, true
}

// Gang returns g as package gang counts it. Counts that only the scheduler has are 0.
func (g *Group) Gang() gang.Gang {
	known := g.known()
	known.Refused = g.Refusal() != ""
	return known
}

// known is Gang without looking for a contradiction, which may have to look at all members.
func (g *Group) known() gang.Gang {
	t := g.asked()
	terms := gang.Terms{Declared: g.Declared(), Min: max(1, t.min), Policy: t.policy, NonStrict: t.mode == NonStrict,
		Lasting: len(g.declarations) > 0 || isControlled(g)}
	return gang.Gang{Terms: terms, Counts: g.counts}
}

// Count returns how many members count, see package gang.
func (g *Group) Count(by gang.Count) int {
	known := g.known()
	return known.Count(by)
}

// Lacking returns how many members more have to count for the minimum; 0 or less if it is there.
func (g *Group) Lacking(by gang.Count) int {
	known := g.known()
	return known.Lacking(by)
}

// Beyond reports whether the members that are not bound or being bound are beyond the minimum.
func (g *Group) Beyond() bool {
	known := g.known()
	return known.Beyond()
}

// HasMinimum reports whether the members that count are the minimum. They never are if the gang is not declared or
// contradicts itself.
func (g *Group) HasMinimum(by gang.Count) bool {
	known := g.Gang()
	return known.HasMinimum(by)
}

// Suffices reports whether g can be admitted with the members that count: it has its minimum, and so have enough of the
// gangs that it is admitted together with.
func (g *Group) Suffices(by gang.Count) bool {
	if g.Composite() == nil {
		return g.HasMinimum(by)
	}
	u := g.Tally(nil)
	return u.OwnSuffices(by)
}

// Untouched reports whether no member is on a node, also not waiting. Members that are leaving do not count.
func (g *Group) Untouched() bool { return g.counts.Untouched() }

// Ready returns how many members a cycle could place: Pending, with no scheduling gate, not being deleted, and not
// another scheduler's.
func (g *Group) Ready() int { return g.counts.Ready }

// Waiting returns how many members Permit holds on nodes.
func (g *Group) Waiting() int { return g.counts.Waiting }

// Assigned returns how many members count toward the minimum. They are bound or being bound, as far as the group's
// MatchPolicy says, or have ended well since the group first came to its minimum.
func (g *Group) Assigned() int { return g.Count(gang.Assigned) }

// Placed returns how many members are bound or being bound, whether or not they count toward the minimum. Members that
// are leaving do not count: they are being deleted or evicted, or their node is gone.
func (g *Group) Placed() int { return g.counts.Placed() }

// Leaving returns how many members are on nodes and are leaving them.
func (g *Group) Leaving() int { return g.counts.Leaving }

// Members returns the group's pods, by name.
func (g *Group) Members() []*Pod {
	members := make([]*Pod, 0, len(g.members))
	// any order: sorted right below
	for _, p := range g.members {
		members = append(members, p)
	}
	slices.SortFunc(members, comparePods)
	return members
}

// String is namespace/name.
func (g *Group) String() string { return g.Namespace + "/" + g.Name }

// ObjectOf returns the gang's PodGroup of one of GroupResources; nil for none.
func (g *Group) ObjectOf(res eventlog.Resource) eventlog.Object {
	return g.informers.Get(res, g.Namespace, g.Name)
}

// Key is namespace and name.
func (g *Group) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
}

// setStage moves p to another stage and keeps its group's numbers.
func (s *State) setStage(p *Pod, stage Stage) {
	if p.Group != nil {
		s.gangs.tally(p, -1)
		defer func() {
			s.gangs.tally(p, +1)
			s.gangs.observe(p.Group)
		}()
	}
	s.enter(p, stage)
}

// counted returns the number of members of that stage.
func (g *Group) counted(stage Stage) *int {
	return [...]*int{&g.counts.Pending, &g.counts.Waiting, &g.counts.Binding, &g.counts.Bound}[stage]
}

// Evicting notes that a pod is asked to go.
func (s *State) Evicting(p *Pod) { s.setEvicted(p, true) }

// Staying notes that a pod that was asked to go stays.
func (s *State) Staying(p *Pod) { s.setEvicted(p, false) }

func (s *State) setEvicted(p *Pod, evicted bool) {
	if p.Group == nil {
		p.evicted = evicted
		return
	}
	s.gangs.tally(p, -1)
	p.evicted = evicted
	s.gangs.tally(p, +1)
	s.gangs.observe(p.Group)
}

// GangsOn returns the gangs that have members on a node, whether or not it is there, by namespace and name.
func (s *State) GangsOn(node string) []*Group {
	var gangs []*Group
	if n := s.nodes.byName[node]; n != nil {
		for _, info := range n.info.Pods {
			if p := s.pods.byUID[info.GetPod().UID]; p != nil && p.Group != nil && !slices.Contains(gangs, p.Group) {
				gangs = append(gangs, p.Group)
			}
		}
	}
	slices.SortFunc(gangs, compareGroups)
	return gangs
}

// recount calls change, which brings or takes a node away, and counts the members on it again.
func (s *State) recount(node string, change func()) {
	var members []*Pod
	if n := s.nodes.byName[node]; n != nil {
		for _, info := range n.info.Pods {
			if p := s.pods.byUID[info.GetPod().UID]; p != nil && p.Group != nil {
				members = append(members, p)
			}
		}
	}
	for _, p := range members {
		s.gangs.tally(p, -1)
	}
	change()
	for _, p := range members {
		s.gangs.tally(p, +1)
	}
	for _, p := range members {
		s.gangs.observe(p.Group) // only now that all of it are counted again
	}
}
