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
	counts       gang.Counts   // without Untried and Cleared, which only the scheduler knows
	needs        []Requests    // a memo: of the ready members; nil after they changed
	longest      time.Duration // a memo with needs: the longest duration they declare, 0 if one declares none

	// What the members say of the gang and of themselves.
	namings    census[string]
	faults     census[string]
	terms      census[terms]
	own        census[own]
	priorities census[int32]
	schedulers census[string]

	// away counts the members that the gang needs (see Pod.needed), and that have no node or are leaving theirs;
	// counts.Missing are those of them that will have none again.
	away int
	// onlyAsked counts the leaving members that are only asked to go, and may stay after all.
	onlyAsked int

	// avoided are the domains in which an attempt has failed, sorted. It is emptied when no other domain is left to
	// try, or when a member is placed for good. Example: with racks a and b it is [a] after a failure in a, and empty
	// again after one in b.
	avoided []string

	composite *Composite // that it is admitted with, nil for none

	parts []partCount // those of the object that counts, by index; nil if they are not counted
	open  int         // how many members can be chosen, of whatever part; counted if parts are

	refusal  string // a memo of Refusal; it holds if judged
	forParts bool   // a memo with refusal: see RefusedForParts
	judged   bool

	recounted bool // it is in State.recounted
}

// Declared reports whether it is known how many members are enough: by the group's object, or else by what its
// members ask for.
func (g *Group) Declared() bool { return len(g.declarations) > 0 || len(g.terms.count) > 0 }

// declaredTerms returns what holds for the group but for Rollcall's own annotations: what its object says, or else what
// its members do. If they contradict each other it is the most that any of them asks for; the group is refused then.
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

// Min is the number of members that are placed together or not at all, at least 1; 1 for a group of
// scheduling.k8s.io with the basic policy, whose pods are placed one by one.
func (g *Group) Min() int { return max(1, g.asked().min) }

// Total is how many members the group is said to come to, 0 if it does not say.
func (g *Group) Total() int { return g.asked().total }

// Timeout is how long the group lets members wait on their nodes for the rest; 0 if it does not say.
func (g *Group) Timeout() time.Duration { return g.asked().timeout }

// Mode returns what becomes of waiting members when another member finds no node.
func (g *Group) Mode() Mode { return g.asked().mode }

// NonStrict reports whether waiting members stay on their nodes until their deadline when others find no node.
func (g *Group) NonStrict() bool { return g.asked().mode == NonStrict }

// MatchPolicy returns which members with a node count toward the minimum.
func (g *Group) MatchPolicy() gang.MatchPolicy { return g.asked().policy }

// Topology returns the labels of nodes of each of which all members' nodes must have one value, and those of which they
// had better have one, the first one first; nil for none.
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

// Priority is the priority that the group's object gives it, by number or by the name of a class that is there; before
// that, the priority of a CompositePodGroup that it is below without being admitted together with others, the topmost
// that has one. ok is false if none gives one.
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

// declaredPriority is that of the group's object.
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

// Gang returns g as package gang counts it. What only the scheduler knows, the Untried and the Cleared members, is 0.
func (g *Group) Gang() gang.Gang {
	known := g.known()
	known.Refused = g.Refusal() != ""
	return known
}

// known is Gang without looking for a contradiction, which may have to look at all members.
func (g *Group) known() gang.Gang {
	t := g.asked()
	terms := gang.Terms{Declared: g.Declared(), Min: max(1, t.min), Policy: t.policy, NonStrict: t.mode == NonStrict}
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

// Beyond reports whether the members that have no node for good are beyond the minimum.
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

// Untouched reports whether no member is on a node, for good or waiting. Members that are leaving do not count.
func (g *Group) Untouched() bool { return g.counts.Untouched() }

// Ready returns how many members a cycle could place: Pending, with no scheduling gate, not being deleted, and not
// another scheduler's.
func (g *Group) Ready() int { return g.counts.Ready }

// Waiting returns how many members Permit holds on nodes.
func (g *Group) Waiting() int { return g.counts.Waiting }

// Assigned returns how many members count toward the minimum because they have their node for good, as far as the
// group's MatchPolicy says, or have ended well since it first came to its minimum.
func (g *Group) Assigned() int { return g.Count(gang.Assigned) }

// Placed returns how many members have their node for good, whether or not they count toward the minimum. Those that
// are leaving have not: they are being deleted, or asked to go, or their node is gone.
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

// recount calls change, which brings or takes a node away, and counts the members on it anew.
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
