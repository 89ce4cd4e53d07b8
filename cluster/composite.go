package cluster

import (
	"fmt"
	"slices"
	"strings"

	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// Composite is several gangs that are admitted together. Their PodGroups name one CompositePodGroup, or one below it,
// or they name each other in Koordinator's annotation groups. It exists as soon as a gang or another CompositePodGroup
// names it, or its object exists.
type Composite struct {
	// Namespace and Name are the CompositePodGroup's. For gangs that name each other, Namespace is "" and Name is
	// namespace/name of all of them, sorted, joined by commas, which no object's name can be.
	Namespace, Name string

	all        *Gangs
	gangs      []*Group               // directly below: that say that they belong to it, by namespace and name
	named      []types.NamespacedName // of gangs that name each other: all of them, sorted
	object     *schedulingv1alpha3.CompositePodGroup
	parent     *Composite   // that the object names, nil for none
	composites []*Composite // directly below: whose objects name it, by name

	lower []*Composite // a memo of levels, nil for not known
	below []*Group     // a memo of Gangs, nil for not known; of use with composites below only
}

// Composite returns the gangs that g is admitted together with, nil if it is admitted by itself. It is the topmost of
// the CompositePodGroups that g is below. CompositePodGroups at the top whose gangs and composites are independent of
// each other do not count.
func (g *Group) Composite() *Composite {
	if g.composite == nil {
		return nil
	}
	return g.composite.Unit()
}

// Parent returns the CompositePodGroup that g names, nil for none. For gangs that name each other it is all of them.
func (g *Group) Parent() *Composite { return g.composite }

// Independent reports whether what is directly below has nothing to do with each other: the object has the basic
// policy, and asks for no topology.
func (c *Composite) Independent() bool {
	return c.object != nil && c.object.Spec.SchedulingPolicy.Gang == nil && c.fault() == "" && !c.HasTopology()
}

// Declared reports whether it is known how many gangs are enough.
func (c *Composite) Declared() bool { return c.object != nil || c.named != nil }

// Min is the number of gangs and composites directly below that must have their minimum so that any of them is
// admitted, at least 1. For a CompositePodGroup of the basic policy it is 1.
func (c *Composite) Min() int {
	if c.object != nil {
		if policy := c.object.Spec.SchedulingPolicy.Gang; policy != nil {
			return max(1, int(policy.MinGroupCount))
		}
	}
	return max(1, len(c.named))
}

// fault says what is wrong with the object, "" for nothing.
func (c *Composite) fault() string {
	if c.object == nil {
		return ""
	}
	r, policy := annotations{}, c.object.Spec.SchedulingPolicy
	r.onePolicy(policy.Gang != nil, policy.Basic != nil)
	if policy.Gang != nil {
		r.atLeastOne("spec.schedulingPolicy.gang.minGroupCount", policy.Gang.MinGroupCount)
	}
	for i, key := range c.Topology() {
		if errs := validation.IsQualifiedName(key); len(errs) > 0 {
			r.fail("has spec.schedulingConstraints.topology[%d].key %s: want a label key such as "+
				"topology.kubernetes.io/zone", i, quoted(key))
		}
	}
	return r.fault
}

// Topology returns the labels of nodes of each of which the nodes of all members below c must have one value; nil for
// none.
func (c *Composite) Topology() (required []string) {
	if !c.HasTopology() {
		return nil
	}
	for _, constraint := range c.object.Spec.SchedulingConstraints.Topology {
		required = append(required, constraint.Key)
	}
	return required
}

// HasTopology reports whether the object asks for a topology.
func (c *Composite) HasTopology() bool {
	return c.object != nil && c.object.Spec.SchedulingConstraints != nil &&
		len(c.object.Spec.SchedulingConstraints.Topology) > 0
}

// Refusal says why the gangs are not scheduled as long as it is so, "" for nothing.
func (c *Composite) Refusal() string {
	if why := c.judgeLevels(); why != "" {
		return why
	}
	for _, name := range c.named {
		if g := c.all.byName[name]; g != nil && g.Declared() && g.composite != c {
			return fmt.Sprintf("pod group %s is not to be admitted with the others, by what it says itself", g)
		}
	}
	return c.judgeSchedulers()
}

// judgeSchedulers compares the gangs, whose own members are compared elsewhere.
func (c *Composite) judgeSchedulers() string {
	var first *Group
	var its string
	for _, g := range c.Gangs() {
		if len(g.schedulers.count) != 1 {
			continue
		}
		// any order: there is one
		for name := range g.schedulers.count {
			switch {
			case first == nil:
				first, its = g, name
			case name != its:
				return fmt.Sprintf(
					"its pod groups are for different schedulers: %s for %s, %s for %s",
					first,
					quoted(its),
					g,
					quoted(name),
				)
			}
		}
	}
	return ""
}

// Priority returns the priority of the topmost object that has one, among those above c and c itself. If none has one,
// it is the highest priority of a composite or gang below. ok is false if no object has a priority.
func (c *Composite) Priority() (priority int32, ok bool) {
	for _, above := range c.lineage() {
		if priority, ok := above.ownPriority(); ok {
			return priority, true
		}
	}
	take := func(p int32, own bool) {
		if own && (!ok || p > priority) {
			priority, ok = p, true
		}
	}
	for _, level := range c.levels()[1:] {
		take(level.ownPriority())
	}
	for _, g := range c.Gangs() {
		take(g.declaredPriority())
	}
	return priority, ok
}

// ownPriority is the object's priority, by number or by the name of an existing class.
func (c *Composite) ownPriority() (priority int32, ok bool) {
	if c.object == nil {
		return 0, false
	}
	if p := c.object.Spec.Priority; p != nil {
		return *p, true
	}
	object := c.all.informers.Get(eventlog.PriorityClasses, "", c.object.Spec.PriorityClassName)
	if class, known := object.(*schedulingv1.PriorityClass); known {
		return class.Value, true
	}
	return 0, false
}

// String is namespace/name, or the names of the gangs.
func (c *Composite) String() string {
	if c.named != nil {
		return strings.ReplaceAll(c.Name, ",", ", ")
	}
	return c.Namespace + "/" + c.Name
}

// Tally returns g and the gangs that it is admitted together with as package gang counts them, in the order of Unit.
// attempt adds the counts that only the scheduler has; nil if these do not matter.
func (g *Group) Tally(attempt func(*Group, *gang.Counts)) gang.Unit {
	u := gang.Alone(g.Gang())
	if c := g.Composite(); c != nil {
		u = c.tally()
		u.Own = slices.Index(c.Gangs(), g)
	}
	if attempt != nil {
		for i, each := range g.Unit() {
			attempt(each, &u.Gangs[i].Counts)
		}
	}
	return u
}

func (c *Composite) tally() gang.Unit {
	u := gang.Unit{Together: true, Declared: c.Declared(), Refused: c.Refusal() != "", Min: c.Min()}
	all := c.Gangs()
	u.Gangs = make([]gang.Gang, 0, len(all))
	for _, g := range all {
		u.Gangs = append(u.Gangs, g.Gang())
	}
	levels := c.levels()
	if len(levels) == 1 {
		return u
	}
	at := make(map[*Composite]int, len(levels))
	for i, level := range levels {
		at[level] = i - 1 // the first is the unit's
		if i > 0 {
			u.Composites = append(u.Composites, gang.Composite{Under: at[level.parent], Min: level.Min()})
		}
	}
	u.Under = make([]int, 0, len(all))
	for _, g := range all {
		u.Under = append(u.Under, at[g.composite])
	}
	return u
}

// Unit returns the gangs that are admitted together with g, itself among them, in a fixed order.
func (g *Group) Unit() []*Group {
	if c := g.Composite(); c != nil {
		return c.Gangs()
	}
	return []*Group{g}
}

// compositeName is the name of the composite that g names. ok is false if it names none.
func (g *Group) compositeName() (name types.NamespacedName, ok bool) {
	if len(g.declarations) > 0 && g.declarations[0].parent != "" {
		return types.NamespacedName{Namespace: g.Namespace, Name: g.declarations[0].parent}, true
	}
	if together := g.asked().together; together != "" {
		return types.NamespacedName{Name: together}, true
	}
	return types.NamespacedName{}, false
}

func compareGroups(a, b *Group) int { return compareNames(a.Key(), b.Key()) }

func compareNames(a, b types.NamespacedName) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// Key is Namespace and Name.
func (c *Composite) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// gangsNamed reads what terms.together is written as.
func gangsNamed(together string) []types.NamespacedName {
	var gangs []types.NamespacedName
	for name := range strings.SplitSeq(together, ",") {
		namespace, rest, _ := strings.Cut(name, "/")
		gangs = append(gangs, types.NamespacedName{Namespace: namespace, Name: rest})
	}
	slices.SortFunc(gangs, compareNames)
	return gangs
}

// unjudge makes the gangs be checked again: their contradictions may depend on the object.
func (c *Composite) unjudge() {
	for _, g := range c.Gangs() {
		g.judged = false
	}
}
