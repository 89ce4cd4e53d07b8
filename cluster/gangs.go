package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// Gangs are the groups of pods that are placed together, as pods and objects define them, with the numbers of their
// members. The State calls them for every pod that comes, goes, or comes to another stage.
type Gangs struct {
	byName     map[types.NamespacedName]*Group
	composites map[types.NamespacedName]*Composite
	namedBy    map[types.NamespacedName]map[*Composite]bool // by gang; the composites of gangs that name each other

	ended     endedGangs
	fallen    map[*Group]bool // had their minimum, lost it, and want the rest evicted
	restoring bool            // State.Restore is under way

	mine func(schedulerName string) bool // nil: every pod is

	// Changes that the State and TakeChanges have not taken yet: no state.
	recounted []*Group        // see Changes.Gangs
	judged    map[*Group]bool // whether they were refused, see Changes.Judged
	repriced  []*Group        // their members' priorities may have changed

	nodes     *Nodes
	pods      *Pods
	informers *Informers
	record    *record
}

func newGangs(nodes *Nodes, pods *Pods, informers *Informers, record *record) *Gangs {
	return &Gangs{
		byName:     map[types.NamespacedName]*Group{},
		composites: map[types.NamespacedName]*Composite{},
		namedBy:    map[types.NamespacedName]map[*Composite]bool{},
		fallen:     map[*Group]bool{},
		judged:     map[*Group]bool{},
		nodes:      nodes,
		pods:       pods,
		informers:  informers,
		record:     record,
	}
}

// OfPod returns the gang that pod belongs to, nil for none. It is the one that the pod named when it came, whatever its
// label says now. The Group may be undeclared: its object has not been seen.
func (gs *Gangs) OfPod(pod *v1.Pod) *Group {
	if p, ok := gs.pods.byUID[pod.UID]; ok {
		return p.Group
	}
	if name, ok := GroupName(pod); ok {
		return gs.byName[name]
	}
	return nil
}

// NameOf returns the name of the gang that pod belongs to, or would if it came now; ok is false for none.
func (gs *Gangs) NameOf(pod *v1.Pod) (name types.NamespacedName, ok bool) {
	if p, known := gs.pods.byUID[pod.UID]; known {
		if p.Group == nil {
			return types.NamespacedName{}, false
		}
		return p.Group.Key(), true
	}
	return GroupName(pod)
}

// Named returns the gang of that name, nil if neither its object nor a member has been seen.
func (gs *Gangs) Named(namespace, name string) *Group {
	return gs.byName[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Names returns the names of all groups, also of groups that only pods name, by namespace and name.
func (gs *Gangs) Names() []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(gs.byName), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// OfClass returns the groups whose objects name the priority class, by namespace and name.
func (gs *Gangs) OfClass(class string) []*Group {
	var groups []*Group
	// any order: sorted right below
	for _, g := range gs.byName {
		if slices.ContainsFunc(g.declarations, func(d declaration) bool { return d.class == class }) {
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(a, b *Group) int { return strings.Compare(a.String(), b.String()) })
	return groups
}

// Fallen returns the gangs that had their minimum, have lost members since so that they do not have it now, and want
// the rest of them evicted then; by namespace and name. A member is lost when it fails, its deletion begins, it is
// evicted, or its node is gone. So is a member that waits to be bound again. Members that ended well are not lost.
func (gs *Gangs) Fallen() []*Group {
	if len(gs.fallen) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(gs.fallen), compareGroups)
}

// KeptBack counts the members of g without a node that no cycle could place. gated members have a scheduling gate.
// deleted members are being deleted or were evicted. foreign members belong to another scheduler.
func (gs *Gangs) KeptBack(g *Group) (gated, deleted, foreign int) {
	// any order: the sum is the same
	for _, p := range g.members {
		switch {
		case p.Stage != Pending || gs.isReady(p):
		case !p.MayBePlaced():
			deleted++
		case len(p.Object.Spec.SchedulingGates) > 0:
			gated++
		default:
			foreign++
		}
	}
	return gated, deleted, foreign
}

// Placeable returns the members of g that are not bound or being bound and that a cycle could place, by name. Members
// that wait on nodes are among them.
func (gs *Gangs) Placeable(g *Group) (pods []*Pod) {
	for _, p := range g.Members() {
		if p.Stage == Waiting || p.Stage == Pending && gs.isReady(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// PriorityOf returns the priority that counts for the pod: the priority of its gang's unit, or of its gang, or else its
// own.
func (gs *Gangs) PriorityOf(pod *v1.Pod) int32 {
	g := gs.OfPod(pod)
	if g == nil {
		return corev1helpers.PodPriority(pod)
	}
	if c := g.Composite(); c != nil {
		if priority, ok := c.Priority(); ok {
			return priority
		}
	}
	if priority, ok := g.Priority(); ok {
		return priority
	}
	return corev1helpers.PodPriority(pod)
}

// MayPreempt reports whether pods may be preempted for the pod alone: as its gang says as a whole, or else as the pod
// says itself.
func (gs *Gangs) MayPreempt(pod *v1.Pod) bool {
	if g := gs.OfPod(pod); g != nil {
		if may, said := g.saysWhetherToPreempt(); said {
			return may
		}
	}
	return !saysNever(pod)
}

func (gs *Gangs) at(name types.NamespacedName) *Group {
	g, ok := gs.byName[name]
	if !ok {
		g = &Group{Namespace: name.Namespace, Name: name.Name, informers: gs.informers, members: map[types.UID]*Pod{}}
		gs.byName[name] = g
	}
	return g
}

func (gs *Gangs) dropIfEmpty(g *Group) {
	if len(g.members) == 0 && len(g.declarations) == 0 {
		delete(gs.fallen, g)
		delete(gs.judged, g)
		delete(gs.byName, g.Key())
	}
}

// join makes a new pod a member of the group that it names. A pod cannot change its group: the field is
// immutable, and a label that changes later is not followed.
func (gs *Gangs) join(p *Pod) {
	name, ok := GroupName(p.Object)
	if !ok {
		return
	}
	gs.record.note(RoomFreed)
	gs.joinNamed(p, name)
}

func (gs *Gangs) joinNamed(p *Pod, name types.NamespacedName) {
	p.Group = gs.at(name)
	p.facts = factsOf(p.Object, p.Group)
	gs.ended.join(p)
	p.Group.members[p.Object.UID] = p
	p.Group.enroll(p)
	gs.tally(p, +1)
	gs.realign(p.Group)
	gs.observe(p.Group)
}

func (gs *Gangs) leave(p *Pod) {
	if p.Group == nil {
		return
	}
	gs.record.note(RoomFreed)
	gs.ended.note(p)
	gs.tally(p, -1)
	p.Group.strike(p)
	p.Group.miss(p)
	delete(p.Group.members, p.Object.UID)
	gs.realign(p.Group)
	gs.observe(p.Group)
	gs.dropIfEmpty(p.Group)
}

// restate reads p's new object again: its fields about its gang may have changed, but not the gang's name. The gang is
// not observed, since p is not counted at this moment.
func (gs *Gangs) restate(p *Pod) {
	if p.Group == nil {
		return
	}
	if f := factsOf(p.Object, p.Group); f != p.facts {
		gs.record.note(RoomFreed)
		p.Group.strike(p)
		p.facts = f
		p.Group.enroll(p)
		gs.realign(p.Group)
	}
}

// tally counts p in or out of its group's numbers.
func (gs *Gangs) tally(p *Pod, sign int) {
	g := p.Group
	if sign > 0 {
		p.leaving = gs.isLeaving(p)
		p.onlyAsked = p.leaving && p.Object.DeletionTimestamp == nil && gs.nodes.isThere(p.Node)
		p.needed = p.needed || g.counts.Met && p.hasNode()
	}
	if p.leaving {
		g.counts.Leaving += sign
		if p.onlyAsked {
			g.onlyAsked += sign
		}
	} else {
		*g.counted(p.Stage) += sign
	}
	g.tallyNeeded(p, sign)
	gs.countPart(p, sign)
	if p.Stage == Pending && gs.isReady(p) {
		g.counts.Ready += sign
	}
	g.needs = nil
	gs.noteRecounted(g)
}

// noteRecounted notes that the needs of a group may have changed, for Changes.Gangs. Nobody takes the Changes of a
// State without nodes.
func (gs *Gangs) noteRecounted(g *Group) {
	if !g.recounted && !gs.nodes.unknown {
		g.recounted = true
		gs.recounted = append(gs.recounted, g)
	}
}

// takeRecounted returns Changes.Gangs.
func (gs *Gangs) takeRecounted() []*Group {
	groups := gs.recounted
	for _, g := range groups {
		g.recounted = false
	}
	gs.recounted = nil
	return groups
}

// isLeaving reports whether a pod that is bound or being bound must leave its node.
func (gs *Gangs) isLeaving(p *Pod) bool {
	if p.Stage != Binding && p.Stage != Bound {
		return false
	}
	if p.Object.DeletionTimestamp != nil || p.evicted {
		return true
	}
	return !gs.nodes.isThere(p.Node)
}

// isReady reports whether a cycle of this scheduler could place a Pending pod.
func (gs *Gangs) isReady(p *Pod) bool {
	return len(p.Object.Spec.SchedulingGates) == 0 && p.MayBePlaced() &&
		(gs.mine == nil || gs.mine(p.Object.Spec.SchedulerName))
}

// classChanged computes again what follows from a priority class.
func (gs *Gangs) classChanged(class string) {
	for _, g := range gs.OfClass(class) {
		g.judged = false
	}
	for _, c := range gs.CompositesOfClass(class) {
		c.unjudge()
	}
}

// reprice notes groups whose members may have come to another priority. The State counts again what they hold.
func (gs *Gangs) reprice(groups ...*Group) { gs.repriced = append(gs.repriced, groups...) }

// takeRepriced returns the groups for which reprice was called since the last call.
func (gs *Gangs) takeRepriced() []*Group {
	groups := gs.repriced
	gs.repriced = nil
	return groups
}
