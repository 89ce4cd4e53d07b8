package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// declaration is the definition of a group in one API's object.
type declaration struct {
	resource eventlog.Resource
	uid      types.UID // of the object
	terms    terms
	own      own
	fault    string // what is wrong with it, "" for nothing
	priority *int32
	class    string      // a PriorityClass, used if there is no priority
	room     []minimumOf // minResources, by resource
	parent   string      // the CompositePodGroup that it is below, "" for none
	parts    parts
	stays    bool // its pods are not to be preempted
}

// minimumOf is an amount of a resource in its base unit; cpu in thousandths of a core.
type minimumOf struct {
	resource v1.ResourceName
	amount   int64
}

// declarationOf reads a PodGroup of any API.
func declarationOf(res eventlog.Resource, obj eventlog.Object) (declaration, error) {
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	d := declaration{resource: res, uid: obj.GetUID(), own: ownOf(obj.GetAnnotations())}
	r := annotations{values: obj.GetAnnotations()}
	switch o := obj.(type) {
	case *schedulingv1beta1.PodGroup:
		if policy := o.Spec.SchedulingPolicy; policy.Gang != nil {
			d.terms.min = int(policy.Gang.MinCount)
			r.atLeastOne("spec.schedulingPolicy.gang.minCount", policy.Gang.MinCount)
			r.onePolicy(true, policy.Basic != nil)
		} else {
			r.onePolicy(false, policy.Basic != nil)
		}
		d.own.requireAlso(o.Spec.SchedulingConstraints)
		d.priority, d.class = o.Spec.Priority, o.Spec.PriorityClassName
		if parent := o.Spec.ParentCompositePodGroupName; parent != nil {
			d.parent = *parent
		}
	case *xscheduling.PodGroup:
		d.terms.min = int(o.Spec.MinMember)
		if n := o.Spec.MinMember; n < 0 { // 0 is as good as none, which the API allows
			r.fail("has spec.minMember %d: want 1 or more", n)
		}
		if seconds := o.Spec.ScheduleTimeoutSeconds; seconds != nil {
			d.terms.timeout = time.Duration(*seconds) * time.Second
		}
		d.room = roomOf(o.Spec.MinResources)
	case *volcano.PodGroup:
		r.volcano(&d, &o.Spec)
	case *kai.PodGroup:
		r.kai(&d, &o.Spec)
	default:
		return d, fmt.Errorf("upsert %s: object is a %T", res, obj)
	}
	if res == eventlog.PodGroups || res == eventlog.XPodGroups {
		r.koordinator(&d.terms, name)
	}
	d.fault = cmp.Or(r.fault, d.own.fault)
	return d, nil
}

// atLeastOne faults a minimum that the API's own validation does not let pass either.
func (r *annotations) atLeastOne(field string, n int32) {
	if n < 1 {
		r.fail("has %s %d: want 1 or more", field, n)
	}
}

// onePolicy faults a scheduling policy that is not one of the two.
func (r *annotations) onePolicy(gang, basic bool) {
	switch {
	case gang && basic:
		r.fail("has both basic and gang in spec.schedulingPolicy: want one of them")
	case !gang && !basic:
		r.fail("has neither basic nor gang in spec.schedulingPolicy: want one of them")
	}
}

func roomOf(list v1.ResourceList) []minimumOf {
	var room []minimumOf
	// any order: sorted right below
	for name, quantity := range list {
		amount := quantity.Value()
		if name == v1.ResourceCPU {
			amount = quantity.MilliValue()
		}
		room = append(room, minimumOf{name, amount})
	}
	slices.SortFunc(room, func(a, b minimumOf) int { return strings.Compare(string(a.resource), string(b.resource)) })
	return room
}

// Lacks reports whether the cluster as a whole has too little free for the members that g still needs to reach its
// minimum, and the shortfall. Before the first of them has a node, it also compares with the group's minResources. True
// is certain. False is not, because free capacity is summed over all nodes, however scattered.
func (s *State) Lacks(g *Group) (Shortfall, bool) {
	k := g.Lacking(gang.OnNodes)
	if k <= 0 {
		return Shortfall{}, false
	}
	return s.lacksOf(&s.free, g, k)
}

func (s *State) lacksOf(free *Capacity, g *Group, k int) (Shortfall, bool) {
	if short, lacks := free.lacks(s.needsOf(g), k); lacks {
		return short, true
	}
	return s.lacksRoom(free, g)
}

// LacksTogether reports whether the cluster as a whole has too little free for the gangs of c, all of which are needed,
// and the shortfall. It promises as little as Lacks.
func (s *State) LacksTogether(c *Composite) (Shortfall, bool) {
	if !c.NeedsAll() {
		return Shortfall{}, false // which of them will be placed is not known
	}
	amounts := map[v1.ResourceName]int64{}
	var names []v1.ResourceName
	for _, g := range c.Gangs() {
		k := g.Lacking(gang.OnNodes)
		if k <= 0 {
			continue
		}
		needs := s.needsOf(g)
		for i := range needs {
			name := needs[i].Resource
			if _, seen := amounts[name]; !seen {
				names = append(names, name)
			}
			amounts[name] = AddUpTo(amounts[name], needs[i].Smallest(k))
		}
	}
	slices.Sort(names)
	var worst Shortfall
	lacking := false
	for _, name := range names {
		free, offered := s.free.of(name)
		if short := (Shortfall{Resource: name, Needed: amounts[name], Free: free}); offered && free < amounts[name] &&
			(!lacking || short.worseThan(worst)) {
			worst, lacking = short, true
		}
	}
	return worst, lacking
}

// needsOf returns the requests of g's ready members.
func (s *State) needsOf(g *Group) []Requests {
	if g.needs == nil {
		var ready []*Pod
		// any order: needsOf sorts the requests
		for _, p := range g.members {
			if p.Stage == Pending && s.gangs.isReady(p) {
				ready = append(ready, p)
			}
		}
		g.needs = needsOf(ready)
		g.longest = 0
		for _, p := range ready {
			if p.life == 0 {
				g.longest = 0
				break
			}
			g.longest = max(g.longest, p.life)
		}
	}
	return g.needs
}

// Needs tells each resource of which the members that g lacks to have its minimum request some, and how much at the
// least, as Lacks counts it. longest is the longest that a ready member declares to hold its resources, 0 if one of
// them declares nothing.
func (s *State) Needs(g *Group, each func(resource v1.ResourceName, amount int64)) (longest time.Duration) {
	k := g.Lacking(gang.OnNodes)
	needs := s.needsOf(g)
	for i := range needs {
		if amount := needs[i].Smallest(max(1, k)); amount > 0 {
			each(needs[i].Resource, amount)
		}
	}
	return g.longest
}

// lacksRoom compares what is free with the group's minResources, until one of its members has a node.
func (s *State) lacksRoom(all *Capacity, g *Group) (worst Shortfall, lacking bool) {
	if len(g.declarations) == 0 || !g.Untouched() {
		return Shortfall{}, false
	}
	for _, m := range g.declarations[0].room {
		if s.devices.Stands(m.resource) {
			continue
		}
		free, _ := all.of(m.resource)
		if s := (Shortfall{Resource: m.resource, Needed: m.amount, Free: free, Asked: true}); free < m.amount &&
			(!lacking || s.worseThan(worst)) {
			worst, lacking = s, true
		}
	}
	return worst, lacking
}

// declare takes in a PodGroup of any API.
func (gs *Gangs) declare(res eventlog.Resource, obj eventlog.Object) error {
	d, err := declarationOf(res, obj)
	if err != nil {
		return err
	}
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	gs.record.note(RoomFreed)
	g := gs.at(name)
	g.judged = false
	gs.ended.take(name)
	another := func(old declaration) bool { return old.resource == res && old.uid != d.uid }
	if slices.ContainsFunc(g.declarations, another) {
		g.counts.Succeeded = 0 // they were members of another gang of that name
	}
	g.declarations = slices.DeleteFunc(g.declarations, func(d declaration) bool { return d.resource == res })
	g.declarations = append(g.declarations, d)
	order := GroupResources()
	slices.SortFunc(g.declarations, func(a, b declaration) int {
		return cmp.Compare(slices.Index(order, a.resource), slices.Index(order, b.resource))
	})
	gs.countParts(g)
	gs.realign(g)
	gs.observe(g)
	return nil
}

func (gs *Gangs) withdraw(res eventlog.Resource, name types.NamespacedName) {
	g, ok := gs.byName[name]
	if !ok {
		return
	}
	gs.record.note(RoomFreed)
	g.judged = false
	g.declarations = slices.DeleteFunc(g.declarations, func(d declaration) bool { return d.resource == res })
	gs.countParts(g)
	gs.realign(g)
	gs.observe(g)
	gs.dropIfEmpty(g)
}
