package cluster

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Group is the one internal form of a gang, whichever API declared it: a PodGroup of scheduling.k8s.io or of
// scheduling.x-k8s.io, or for want of one the annotations of its members. docs/GANGS.md tells how pods name it
// and what is read. It is there as soon as either a member or its object is.
type Group struct {
	// Namespace and Name are the PodGroup's.
	Namespace, Name string

	informers    *Informers
	declarations []declaration // at most one by API, scheduling.k8s.io first, which alone counts
	members      map[types.UID]*Pod
	stages       [Bound + 1]int // members by stage, without those that are leaving
	leaving      int
	ready        int            // Pending members that no scheduling gate and no deletion keep back
	needs        []resourceNeed // of the ready members; nil when they changed since
	longest      time.Duration  // that one of them declares, 0 if one declares nothing; as good as needs

	// What the members say of the gang and of themselves.
	namings    census[string]
	faults     census[string]
	terms      census[terms]
	own        census[own]
	priorities census[int32]
	schedulers census[string]

	// met says that the minimum had nodes for good since the last time that no member had. Since then it needs certain
	// members, see Pod.needed; of these, succeeded counts those that have ended well, and lost those that have gone
	// otherwise; away those that are there and have no node, or are leaving theirs, and missing those of them that will
	// have none again.
	met             bool
	succeeded, lost int
	away, missing   int

	avoided []string // domains in which an attempt has failed since one was last begun anew, sorted

	composite *Composite // what it says that it is admitted with, nil for nothing

	refusal string // a memo, if judged
	judged  bool
}

// GroupOf returns the gang that pod belongs to, nil for none: the one that it named when it came, whatever
// its label says now. The Group may be undeclared: its object has not been seen.
func (s *State) GroupOf(pod *v1.Pod) *Group {
	if p, ok := s.pods[pod.UID]; ok {
		return p.Group
	}
	if name, ok := GroupName(pod); ok {
		return s.groups[name]
	}
	return nil
}

// GangOf returns the name of the gang that pod belongs to, or would if it came now; ok is false for none.
func (s *State) GangOf(pod *v1.Pod) (name types.NamespacedName, ok bool) {
	if p, known := s.pods[pod.UID]; known {
		if p.Group == nil {
			return types.NamespacedName{}, false
		}
		return p.Group.Key(), true
	}
	return GroupName(pod)
}

// Group returns the gang of that name, nil if neither its object nor a member has been seen.
func (s *State) Group(namespace, name string) *Group {
	return s.groups[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Declared says whether it is known how many members are enough: by the group's object, or else by what its
// members ask for.
func (g *Group) Declared() bool { return len(g.declarations) > 0 || len(g.terms.count) > 0 }

// declaredTerms returns what holds for the group but for Rollcall's own annotations: what its object says, or else what its
// members do. If they contradict each other it is the most that any of them asks for; the group is refused then.
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

// Mode says what becomes of held members when another finds no node.
func (g *Group) Mode() Mode { return g.asked().mode }

// MatchPolicy says which members with a node count toward the minimum.
func (g *Group) MatchPolicy() MatchPolicy { return g.asked().policy }

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

// HasTopology says whether Topology returns any label.
func (g *Group) HasTopology() bool {
	t := g.asked()
	return t.required != "" || t.preferred != ""
}

// Priority is the priority that the group's object gives it, by number or by the name of a class that is there;
// ok is false if it gives none.
func (g *Group) Priority() (priority int32, ok bool) {
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

// Ready counts the members that a cycle could place: Pending, with no scheduling gate, not being deleted, and
// not another scheduler's.
func (g *Group) Ready() int { return g.ready }

// Waiting counts the members that are held on nodes.
func (g *Group) Waiting() int { return g.stages[Waiting] }

// Assigned counts the members that count toward the minimum: those that have their node for good (see Placed), as far as
// the group's MatchPolicy says (with OnlyWaiting those that are bound do not, and with OnceSatisfied one is as good as the
// minimum), and those that have ended well since it last had its minimum.
func (g *Group) Assigned() int {
	placed := g.Placed()
	if placed+g.succeeded == 0 {
		return 0 // most are asked about while they wait
	}
	t := g.asked()
	switch {
	case t.policy == OnceSatisfied && placed > 0:
		return max(placed, t.min)
	case t.policy == OnlyWaiting && !(g.met && g.lost+g.missing == 0 && placed+g.succeeded < t.min):
		return g.stages[Binding]
	}
	return placed + g.succeeded
}

// Placed counts the members that have their node for good, whether or not they count toward the minimum. Those that are
// leaving have not: they are being deleted, or asked to go, or their node is gone.
func (g *Group) Placed() int { return g.stages[Binding] + g.stages[Bound] }

// Leaving counts the members that are on nodes and are leaving them.
func (g *Group) Leaving() int { return g.leaving }

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

// Key is namespace and name.
func (g *Group) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
}

func (s *State) groupAt(name types.NamespacedName) *Group {
	g, ok := s.groups[name]
	if !ok {
		g = &Group{Namespace: name.Namespace, Name: name.Name, informers: s.informers, members: map[types.UID]*Pod{}}
		s.groups[name] = g
	}
	return g
}

func (s *State) dropGroupIfEmpty(g *Group) {
	if len(g.members) == 0 && len(g.declarations) == 0 {
		delete(s.fallen, g)
		delete(s.groups, g.Key())
	}
}

// join makes a new pod a member of the group that it names. A pod cannot change its group: the field is
// immutable, and a label that changes later is not followed.
func (s *State) join(p *Pod) {
	name, ok := GroupName(p.Object)
	if !ok {
		return
	}
	s.roomVersion++
	s.joinGroup(p, name)
}

func (s *State) joinGroup(p *Pod, name types.NamespacedName) {
	p.Group = s.groupAt(name)
	p.Group.members[p.Object.UID] = p
	p.facts = factsOf(p.Object, p.Group)
	p.Group.enroll(p)
	s.tally(p, +1)
	s.realign(p.Group)
	s.observe(p.Group)
}

func (s *State) leave(p *Pod) {
	if p.Group == nil {
		return
	}
	s.roomVersion++
	s.tally(p, -1)
	p.Group.strike(p)
	p.Group.miss(p)
	delete(p.Group.members, p.Object.UID)
	s.realign(p.Group)
	s.observe(p.Group)
	s.dropGroupIfEmpty(p.Group)
}

// restate reads p's object again, which is new: what it says of its gang may have changed, but not which it is. The gang
// is not observed, since p is not counted at this moment.
func (s *State) restate(p *Pod) {
	if p.Group == nil {
		return
	}
	if f := factsOf(p.Object, p.Group); f != p.facts {
		s.roomVersion++
		p.Group.strike(p)
		p.facts = f
		p.Group.enroll(p)
		s.realign(p.Group)
	}
}

// setStage moves p to another stage and keeps its group's numbers.
func (s *State) setStage(p *Pod, stage Stage) {
	if p.Group != nil {
		s.tally(p, -1)
		defer func() {
			s.tally(p, +1)
			s.observe(p.Group)
		}()
	}
	p.Stage = stage
}

// tally counts p in or out of its group's numbers.
func (s *State) tally(p *Pod, sign int) {
	g := p.Group
	if sign > 0 {
		p.leaving = s.isLeaving(p)
		p.needed = p.needed || g.met && p.hasNode()
	}
	if p.leaving {
		g.leaving += sign
	} else {
		g.stages[p.Stage] += sign
	}
	g.tallyNeeded(p, sign)
	if p.Stage == Pending && s.isReady(p.Object) {
		g.ready += sign
	}
	g.needs = nil
}

// isLeaving says of a pod that has its node for good whether it is to give it up.
func (s *State) isLeaving(p *Pod) bool {
	if p.Stage != Binding && p.Stage != Bound {
		return false
	}
	if p.Object.DeletionTimestamp != nil || p.evicted {
		return true
	}
	n := s.nodes[p.Node]
	return !s.withoutNodes && (n == nil || !n.exists)
}

// Evicting notes that a pod is asked to go.
func (s *State) Evicting(p *Pod) {
	if p.Group == nil {
		p.evicted = true
		return
	}
	s.tally(p, -1)
	p.evicted = true
	s.tally(p, +1)
	s.observe(p.Group)
}

// GangsOn returns the gangs that have members on a node, whether or not it is there, by namespace and name.
func (s *State) GangsOn(node string) []*Group {
	var gangs []*Group
	if n := s.nodes[node]; n != nil {
		for _, info := range n.info.Pods {
			if p := s.pods[info.GetPod().UID]; p != nil && p.Group != nil && !slices.Contains(gangs, p.Group) {
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
	if n := s.nodes[node]; n != nil {
		for _, info := range n.info.Pods {
			if p := s.pods[info.GetPod().UID]; p != nil && p.Group != nil {
				members = append(members, p)
			}
		}
	}
	for _, p := range members {
		s.tally(p, -1)
	}
	change()
	for _, p := range members {
		s.tally(p, +1)
	}
	for _, p := range members {
		s.observe(p.Group) // only now that all of it are counted again
	}
}

// isReady says of a Pending pod whether a cycle of this scheduler could place it.
func (s *State) isReady(pod *v1.Pod) bool {
	return len(pod.Spec.SchedulingGates) == 0 && pod.DeletionTimestamp == nil && (s.mine == nil || s.mine(pod.Spec.SchedulerName))
}
