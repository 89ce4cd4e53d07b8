package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Group is the one internal form of a gang, whichever API declared it: a PodGroup of scheduling.k8s.io that
// pods name by spec.schedulingGroup.podGroupName, or a PodGroup of scheduling.x-k8s.io that pods name by
// the label scheduling.x-k8s.io/pod-group. It is there as soon as either a member or its object is.
type Group struct {
	// Namespace and Name are the PodGroup's.
	Namespace, Name string

	declarations []declaration // at most one by API, scheduling.k8s.io first
	members      map[types.UID]*Pod
	stages       [Bound + 1]int // members by stage
	ready        int            // Pending members that no scheduling gate and no deletion keep back
	needs        []resourceNeed // of the ready members; nil when they changed since
}

// declaration is what one API's object says of a group.
type declaration struct {
	resource eventlog.Resource
	min      int
	timeout  time.Duration
	priority *int32
}

// GroupOf returns the gang that pod belongs to, nil for none: the one that it named when it came, whatever
// its label says now. The Group may be undeclared: its object has not been seen.
func (s *State) GroupOf(pod *v1.Pod) *Group {
	if p, ok := s.pods[pod.UID]; ok {
		return p.Group
	}
	name, ok := groupName(pod)
	if !ok {
		return nil
	}
	return s.groups[name]
}

// Group returns the gang of that name, nil if neither its object nor a member has been seen.
func (s *State) Group(namespace, name string) *Group {
	return s.groups[types.NamespacedName{Namespace: namespace, Name: name}]
}

func groupName(pod *v1.Pod) (types.NamespacedName, bool) {
	name := pod.Labels[xscheduling.PodGroupLabel]
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		name = *g.PodGroupName
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}, name != ""
}

// Declared says whether the group's object is there: without it nobody knows how many members are enough.
func (g *Group) Declared() bool { return len(g.declarations) > 0 }

// Min is the number of members that are placed together or not at all, at least 1; 1 for a group of
// scheduling.k8s.io with the basic policy, whose pods are placed one by one.
func (g *Group) Min() int {
	if !g.Declared() {
		return 1
	}
	return max(1, g.declarations[0].min)
}

// Timeout is how long the group lets members wait on their nodes for the rest; 0 if it does not say.
func (g *Group) Timeout() time.Duration {
	if !g.Declared() {
		return 0
	}
	return g.declarations[0].timeout
}

// Priority is the priority that the group's object gives it; ok is false if it gives none.
func (g *Group) Priority() (priority int32, ok bool) {
	if !g.Declared() || g.declarations[0].priority == nil {
		return 0, false
	}
	return *g.declarations[0].priority, true
}

// Ready counts the members that a cycle could place: Pending, with no scheduling gate, not being deleted, and
// not another scheduler's.
func (g *Group) Ready() int { return g.ready }

// Waiting counts the members that are held on nodes.
func (g *Group) Waiting() int { return g.stages[Waiting] }

// Assigned counts the members that have their node for good: being bound or bound.
func (g *Group) Assigned() int { return g.stages[Binding] + g.stages[Bound] }

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

// Lacks tells whether the cluster as a whole has too little free for the members that g still needs to
// reach its minimum, and of what. It is a necessary condition only, so that a "lacks" is certain: free
// capacity is summed over all nodes, however scattered.
func (s *State) Lacks(g *Group) (Shortfall, bool) {
	k := g.Min() - g.Assigned() - g.Waiting()
	if k <= 0 {
		return Shortfall{}, false
	}
	if g.needs == nil {
		var ready []*Pod
		// any order: needsOf sorts the requests
		for _, p := range g.members {
			if p.Stage == Pending && s.isReady(p.Object) {
				ready = append(ready, p)
			}
		}
		g.needs = needsOf(ready)
	}
	return s.free.lacks(g.needs, k)
}

// declareGroup takes in a PodGroup of either API.
func (s *State) declareGroup(res eventlog.Resource, obj eventlog.Object) error {
	d := declaration{resource: res}
	switch o := obj.(type) {
	case *schedulingv1beta1.PodGroup:
		if gang := o.Spec.SchedulingPolicy.Gang; gang != nil {
			d.min = int(gang.MinCount)
		}
		d.priority = o.Spec.Priority
	case *xscheduling.PodGroup:
		d.min = int(o.Spec.MinMember)
		if seconds := o.Spec.ScheduleTimeoutSeconds; seconds != nil {
			d.timeout = time.Duration(*seconds) * time.Second
		}
	default:
		return fmt.Errorf("upsert %s: object is a %T", res, obj)
	}
	s.roomVersion++
	g := s.groupAt(types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()})
	g.declarations = slices.DeleteFunc(g.declarations, func(d declaration) bool { return d.resource == res })
	g.declarations = append(g.declarations, d)
	slices.SortFunc(g.declarations, func(a, b declaration) int { return strings.Compare(string(a.resource), string(b.resource)) })
	return nil
}

func (s *State) withdrawGroup(res eventlog.Resource, name types.NamespacedName) {
	g, ok := s.groups[name]
	if !ok {
		return
	}
	s.roomVersion++
	g.declarations = slices.DeleteFunc(g.declarations, func(d declaration) bool { return d.resource == res })
	s.dropGroupIfEmpty(g)
}

func (s *State) groupAt(name types.NamespacedName) *Group {
	g, ok := s.groups[name]
	if !ok {
		g = &Group{Namespace: name.Namespace, Name: name.Name, members: map[types.UID]*Pod{}}
		s.groups[name] = g
	}
	return g
}

func (s *State) dropGroupIfEmpty(g *Group) {
	if len(g.members) == 0 && !g.Declared() {
		delete(s.groups, types.NamespacedName{Namespace: g.Namespace, Name: g.Name})
	}
}

// join makes a new pod a member of the group that it names. A pod cannot change its group: the field is
// immutable, and a label that changes later is not followed.
func (s *State) join(p *Pod) {
	name, ok := groupName(p.Object)
	if !ok {
		return
	}
	s.roomVersion++
	p.Group = s.groupAt(name)
	p.Group.members[p.Object.UID] = p
	s.tally(p, +1)
}

func (s *State) leave(p *Pod) {
	if p.Group == nil {
		return
	}
	s.roomVersion++
	s.tally(p, -1)
	delete(p.Group.members, p.Object.UID)
	s.dropGroupIfEmpty(p.Group)
}

// setStage moves p to another stage and keeps its group's numbers.
func (s *State) setStage(p *Pod, stage Stage) {
	if p.Group != nil {
		s.tally(p, -1)
		defer s.tally(p, +1)
	}
	p.Stage = stage
}

// tally counts p in or out of its group's numbers.
func (s *State) tally(p *Pod, sign int) {
	g := p.Group
	g.stages[p.Stage] += sign
	if p.Stage == Pending && s.isReady(p.Object) {
		g.ready += sign
	}
	g.needs = nil
}

// isReady says of a Pending pod whether a cycle of this scheduler could place it.
func (s *State) isReady(pod *v1.Pod) bool {
	return len(pod.Spec.SchedulingGates) == 0 && pod.DeletionTimestamp == nil && (s.mine == nil || s.mine(pod.Spec.SchedulerName))
}
