package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/gang"
)

// Composite is several gangs that are admitted together: those whose PodGroups name one CompositePodGroup, or those
// that name each other in Koordinator's annotation groups. It is there as soon as a gang names it or its object is.
type Composite struct {
	// Namespace and Name are the CompositePodGroup's. Of gangs that name each other Namespace is "" and Name is
	// namespace/name of all of them, sorted, joined by commas, which no object's name can be.
	Namespace, Name string

	state    *State
	gangs    []*Group               // that say that they belong to it, by namespace and name
	named    []types.NamespacedName // of gangs that name each other: all of them, sorted
	object   *schedulingv1alpha3.CompositePodGroup
	children int // CompositePodGroups below it
}

// Composite returns the gangs that g is admitted together with; nil if it is admitted by itself, as it also is below
// a CompositePodGroup of the basic policy.
func (g *Group) Composite() *Composite {
	if c := g.composite; c != nil && !c.Independent() {
		return c
	}
	return nil
}

// Composite returns the composite of that name, nil if there is none whose gangs are admitted together.
func (s *State) Composite(namespace, name string) *Composite {
	if c := s.composites[types.NamespacedName{Namespace: namespace, Name: name}]; c != nil && !c.Independent() {
		return c
	}
	return nil
}

// Independent reports whether the gangs have nothing to do with each other: the object has the basic policy.
func (c *Composite) Independent() bool {
	return c.object != nil && c.object.Spec.SchedulingPolicy.Gang == nil && c.fault() == ""
}

// Gangs returns the gangs that say that they belong to c, by namespace and name. The slice must not be changed.
func (c *Composite) Gangs() []*Group { return c.gangs }

// Declared reports whether it is known how many gangs are enough.
func (c *Composite) Declared() bool { return c.object != nil || c.named != nil }

// Min is how many gangs must have their minimum for any of them to be admitted, at least 1.
func (c *Composite) Min() int {
	if c.object != nil {
		if policy := c.object.Spec.SchedulingPolicy.Gang; policy != nil {
			return max(1, int(policy.MinGroupCount))
		}
	}
	return max(1, len(c.named))
}

// GangsNeeded returns how many of the gangs that g is admitted together with must have their minimum, g among them.
func (g *Group) GangsNeeded() int {
	if c := g.Composite(); c != nil {
		return c.Min()
	}
	return 1
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
	if topology := c.object.Spec.SchedulingConstraints; topology != nil && len(topology.Topology) > 0 {
		r.fail("has spec.schedulingConstraints: one topology for several pod groups is not supported")
	}
	return r.fault
}

// Refusal says why the gangs are not scheduled as long as it is so, "" for nothing.
func (c *Composite) Refusal() string {
	if fault := c.fault(); fault != "" {
		return "it " + fault
	}
	if c.object != nil && c.object.Spec.ParentCompositePodGroupName != nil {
		return fmt.Sprintf(
			"it is below composite pod group %s/%s: CompositePodGroups below each other are not supported",
			c.Namespace,
			*c.object.Spec.ParentCompositePodGroupName,
		)
	}
	if c.children > 0 {
		return "it has composite pod groups below it: CompositePodGroups below each other are not supported"
	}
	for _, name := range c.named {
		if g := c.state.groups[name]; g != nil && g.Declared() && g.composite != c {
			return fmt.Sprintf("pod group %s is not to be admitted with the others, by what it says itself", g)
		}
	}
	return c.judgeSchedulers()
}

// judgeSchedulers compares the gangs, whose own members are compared elsewhere.
func (c *Composite) judgeSchedulers() string {
	var first *Group
	var its string
	for _, g := range c.gangs {
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

// Priority is that of the object, or else the highest that one of the gangs was given; ok is false if none was.
func (c *Composite) Priority() (priority int32, ok bool) {
	if priority, ok := c.ownPriority(); ok {
		return priority, true
	}
	for _, g := range c.gangs {
		if p, own := g.Priority(); own && (!ok || p > priority) {
			priority, ok = p, true
		}
	}
	return priority, ok
}

// ownPriority is that of the object, by number or by the name of a class that is there.
func (c *Composite) ownPriority() (priority int32, ok bool) {
	if c.object == nil {
		return 0, false
	}
	if p := c.object.Spec.Priority; p != nil {
		return *p, true
	}
	object := c.state.informers.Get(eventlog.PriorityClasses, "", c.object.Spec.PriorityClassName)
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
// attempt fills in what only the scheduler knows of each; nil if it does not matter.
func (g *Group) Tally(attempt func(*Group, *gang.Counts)) gang.Unit {
	u := gang.Alone(g.Gang())
	if c := g.Composite(); c != nil {
		u = c.tally()
		u.Own = slices.Index(c.gangs, g)
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
	u.Gangs = make([]gang.Gang, 0, len(c.gangs))
	for _, g := range c.gangs {
		u.Gangs = append(u.Gangs, g.Gang())
	}
	return u
}

// Lacking returns how many gangs more need what has reports whether one has it. Of what gang.Count counts, it is
// gang.Unit.Lacking that says it.
func (c *Composite) Lacking(has func(*Group) bool) int {
	n := c.Min()
	for _, name := range c.Named() {
		if g := c.Gang(name); g != nil && has(g) {
			n--
		}
	}
	return max(0, n)
}

// FirstWithout returns the first gang by name of those for which has is false, also if it is not there yet; ok is
// false if there is none.
func (c *Composite) FirstWithout(has func(*Group) bool) (first types.NamespacedName, ok bool) {
	for _, name := range c.Named() {
		if g := c.Gang(name); g == nil || !has(g) {
			return name, true
		}
	}
	return types.NamespacedName{}, false
}

// Gang returns the gang of c of that name, nil if there is none.
func (c *Composite) Gang(name types.NamespacedName) *Group {
	if g := c.state.groups[name]; g != nil && g.composite == c {
		return g
	}
	return nil
}

// Unit returns the gangs that are admitted together with g, itself among them, by namespace and name.
func (g *Group) Unit() []*Group {
	if c := g.Composite(); c != nil {
		return c.gangs
	}
	return []*Group{g}
}

// compositeName is the name of what g says that it is admitted with; ok is false if it does not.
func (g *Group) compositeName() (name types.NamespacedName, ok bool) {
	if len(g.declarations) > 0 && g.declarations[0].parent != "" {
		return types.NamespacedName{Namespace: g.Namespace, Name: g.declarations[0].parent}, true
	}
	if together := g.asked().together; together != "" {
		return types.NamespacedName{Name: together}, true
	}
	return types.NamespacedName{}, false
}

// realign makes g one of the gangs that it says it is admitted with. It is called whenever that may have changed.
func (s *State) realign(g *Group) {
	name, ok := g.compositeName()
	if c := g.composite; c != nil {
		if ok && c.Key() == name {
			return
		}
		s.roomVersion++
		c.gangs = slices.DeleteFunc(c.gangs, func(other *Group) bool { return other == g })
		g.composite = nil
		s.dropCompositeIfEmpty(c)
		defer s.recountAll(append(slices.Clone(c.gangs), g)...)
	}
	if !ok {
		return
	}
	s.roomVersion++
	c := s.compositeAt(name)
	i, _ := slices.BinarySearchFunc(c.gangs, g, compareGroups)
	c.gangs = slices.Insert(c.gangs, i, g)
	g.composite = c
	s.recountAll(c.gangs...)
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

func (s *State) compositeAt(name types.NamespacedName) *Composite {
	c, ok := s.composites[name]
	if !ok {
		c = &Composite{Namespace: name.Namespace, Name: name.Name, state: s}
		if name.Namespace == "" {
			c.named = gangsNamed(name.Name)
			for _, each := range c.named {
				if s.namedBy[each] == nil {
					s.namedBy[each] = map[*Composite]bool{}
				}
				s.namedBy[each][c] = true
			}
		}
		s.composites[name] = c
	}
	return c
}

func (s *State) dropCompositeIfEmpty(c *Composite) {
	if len(c.gangs) > 0 || c.object != nil || c.children > 0 {
		return
	}
	delete(s.composites, c.Key())
	for _, each := range c.named {
		if delete(s.namedBy[each], c); len(s.namedBy[each]) == 0 {
			delete(s.namedBy, each)
		}
	}
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

// CompositesNaming returns the composites of gangs that name each other in which the gang is named, whether or not
// it says so itself, by name.
func (s *State) CompositesNaming(name types.NamespacedName) []*Composite {
	if len(s.namedBy[name]) == 0 {
		return nil
	}
	return slices.SortedFunc(
		maps.Keys(s.namedBy[name]),
		func(a, b *Composite) int { return strings.Compare(a.Name, b.Name) },
	)
}

// CompositesOfClass returns the composites whose objects name the priority class, by namespace and name.
func (s *State) CompositesOfClass(class string) []*Composite {
	var found []*Composite
	// any order: sorted right below
	for _, c := range s.composites {
		if c.object != nil && c.object.Spec.PriorityClassName == class {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *Composite) int { return compareNames(a.Key(), b.Key()) })
	return found
}

// GangsNaming returns the gangs that name the CompositePodGroup, whatever its policy is and whether or not it is
// there, by name.
func (s *State) GangsNaming(namespace, composite string) []*Group {
	if c := s.composites[types.NamespacedName{Namespace: namespace, Name: composite}]; c != nil {
		return slices.Clone(c.gangs)
	}
	return nil
}

// compose takes in a CompositePodGroup.
func (s *State) compose(obj *schedulingv1alpha3.CompositePodGroup) {
	s.roomVersion++
	c := s.compositeAt(types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name})
	s.hang(c.object, -1)
	c.object = obj
	s.hang(obj, +1)
	c.unjudge()
}

// unjudge has the gangs looked at anew: what they contradict themselves in may depend on the object.
func (c *Composite) unjudge() {
	for _, g := range c.gangs {
		g.judged = false
	}
}

// decompose takes it away.
func (s *State) decompose(name types.NamespacedName) {
	c, ok := s.composites[name]
	if !ok {
		return
	}
	s.roomVersion++
	old := c.object
	c.object = nil
	c.unjudge()
	s.hang(old, -1)
	s.dropCompositeIfEmpty(c)
}

// hang counts a CompositePodGroup in or out below the one that it names.
func (s *State) hang(obj *schedulingv1alpha3.CompositePodGroup, sign int) {
	if obj == nil || obj.Spec.ParentCompositePodGroupName == nil {
		return
	}
	parent := s.compositeAt(types.NamespacedName{Namespace: obj.Namespace, Name: *obj.Spec.ParentCompositePodGroupName})
	parent.children += sign
	s.dropCompositeIfEmpty(parent)
}
