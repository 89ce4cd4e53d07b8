package cluster

import (
	"maps"
	"slices"
	"strings"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/types"
)

// Composite returns the composite of that name. It is nil if there is none, or if its gangs are admitted with others as
// a larger unit.
func (gs *Gangs) Composite(namespace, name string) *Composite {
	if c := gs.composites[types.NamespacedName{Namespace: namespace, Name: name}]; c != nil && c.Unit() == c {
		return c
	}
	return nil
}

// CompositePodGroup returns the CompositePodGroup of that name with the gangs that name it, also if these are
// independent of each other. It is nil if neither the object nor such a gang exists.
func (gs *Gangs) CompositePodGroup(namespace, name string) *Composite {
	return gs.composites[types.NamespacedName{Namespace: namespace, Name: name}]
}

// CompositesNaming returns the composites of gangs that name each other in which the gang is named, whether or not
// it says so itself, by name.
func (gs *Gangs) CompositesNaming(name types.NamespacedName) []*Composite {
	if len(gs.namedBy[name]) == 0 {
		return nil
	}
	return slices.SortedFunc(
		maps.Keys(gs.namedBy[name]),
		func(a, b *Composite) int { return strings.Compare(a.Name, b.Name) },
	)
}

// CompositesOfClass returns the composites whose objects name the priority class, by namespace and name.
func (gs *Gangs) CompositesOfClass(class string) []*Composite {
	var found []*Composite
	// any order: sorted right below
	for _, c := range gs.composites {
		if c.object != nil && c.object.Spec.PriorityClassName == class {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *Composite) int { return compareNames(a.Key(), b.Key()) })
	return found
}

// UnitOf returns the composite that gangs directly below the CompositePodGroup are admitted together with. It is nil if
// no object or gang names the CompositePodGroup, or if each gang is admitted by itself.
func (gs *Gangs) UnitOf(namespace, composite string) *Composite {
	if c := gs.composites[types.NamespacedName{Namespace: namespace, Name: composite}]; c != nil {
		return c.Unit()
	}
	return nil
}

// Below returns the gangs that name the CompositePodGroup, or one below it, whatever its policy is and whether or
// not it is there, in a fixed order.
func (gs *Gangs) Below(namespace, composite string) []*Group {
	if c := gs.composites[types.NamespacedName{Namespace: namespace, Name: composite}]; c != nil {
		return slices.Clone(c.Gangs())
	}
	return nil
}

// realign makes g one of the gangs that it says it is admitted with. It is called whenever that may have changed.
func (gs *Gangs) realign(g *Group) {
	name, ok := g.compositeName()
	if c := g.composite; c != nil {
		if ok && c.Key() == name {
			return
		}
		gs.record.note(RoomFreed)
		c.gangs = slices.DeleteFunc(c.gangs, func(other *Group) bool { return other == g })
		c.forgetBelow()
		g.composite = nil
		defer gs.reprice(append(slices.Clone(c.together()), g)...)
		gs.dropCompositeIfEmpty(c)
	}
	if !ok {
		return
	}
	gs.record.note(RoomFreed)
	c := gs.compositeAt(name)
	i, _ := slices.BinarySearchFunc(c.gangs, g, compareGroups)
	c.gangs = slices.Insert(c.gangs, i, g)
	c.forgetBelow()
	g.composite = c
	gs.reprice(c.together()...)
}

func (gs *Gangs) compositeAt(name types.NamespacedName) *Composite {
	c, ok := gs.composites[name]
	if !ok {
		c = &Composite{Namespace: name.Namespace, Name: name.Name, all: gs}
		if name.Namespace == "" {
			c.named = gangsNamed(name.Name)
			for _, each := range c.named {
				if gs.namedBy[each] == nil {
					gs.namedBy[each] = map[*Composite]bool{}
				}
				gs.namedBy[each][c] = true
			}
		}
		gs.composites[name] = c
	}
	return c
}

func (gs *Gangs) dropCompositeIfEmpty(c *Composite) {
	if len(c.gangs) > 0 || c.object != nil || len(c.composites) > 0 {
		return
	}
	delete(gs.composites, c.Key())
	for _, each := range c.named {
		if delete(gs.namedBy[each], c); len(gs.namedBy[each]) == 0 {
			delete(gs.namedBy, each)
		}
	}
}

// compose takes in a CompositePodGroup.
func (gs *Gangs) compose(obj *schedulingv1alpha3.CompositePodGroup) {
	gs.record.note(RoomFreed)
	c := gs.compositeAt(types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name})
	before := slices.Clone(c.together())
	c.object = obj
	c.link()
	c.unjudge()
	gs.reprice(before...)
}

// decompose takes it away.
func (gs *Gangs) decompose(name types.NamespacedName) {
	c, ok := gs.composites[name]
	if !ok {
		return
	}
	gs.record.note(RoomFreed)
	before := slices.Clone(c.together())
	c.object = nil
	c.link()
	c.unjudge()
	gs.reprice(before...)
	gs.dropCompositeIfEmpty(c)
}
