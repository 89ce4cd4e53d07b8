package cluster

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// CompositePodGroups below each other. A unit is a CompositePodGroup with all gangs and composites below it that are
// admitted together. It is one entity of the queue.

// MaxLevels is the number of levels of CompositePodGroups that may be above a gang: as many as a Workload's templates
// may have.
const MaxLevels = 4

// lineage returns c and the composites above it, the topmost first.
func (c *Composite) lineage() []*Composite {
	line, _ := c.climb()
	return line
}

// climb is lineage. If composites are below each other in a ring, the first by name counts as the topmost.
func (c *Composite) climb() (line []*Composite, ring bool) {
	line, turn := c.upward()
	slices.Reverse(line)
	if turn < 0 {
		return line, false
	}
	return line[firstByName(line[:len(line)-turn]):], true
}

// upward returns c and the composites above it, the topmost last. If they come to one of them again, they end before
// that, and turn is its index; else it is -1.
func (c *Composite) upward() (up []*Composite, turn int) {
	const long = 4 * MaxLevels
	// index is the index of each in up, once up is long: objects may make chains of any length, which are refused but
	// must not cost the square of it.
	var index map[*Composite]int
	up = []*Composite{c}
	for at := c.parent; at != nil; at = at.parent {
		if index == nil {
			if i := slices.Index(up, at); i >= 0 {
				return up, i
			}
		} else if i, there := index[at]; there {
			return up, i
		}
		up = append(up, at)
		switch {
		case index != nil:
			index[at] = len(up) - 1
		case len(up) > long:
			index = make(map[*Composite]int, 2*long)
			for i, each := range up {
				index[each] = i
			}
		}
	}
	return up, -1
}

func firstByName(all []*Composite) (first int) {
	for i, c := range all {
		if c.Name < all[first].Name {
			first = i
		}
	}
	return first
}

// Unit returns the composite that gangs directly below c are admitted together with, nil if each of them is admitted by
// itself. It is the topmost composite above them that is not independent, or is in a ring. Example: a basic composite
// has two gang composites below it. Each of the two is a unit.
func (c *Composite) Unit() *Composite {
	if c.parent == nil {
		if c.Independent() {
			return nil
		}
		return c
	}
	line, ring := c.climb()
	for _, each := range line {
		if ring || !each.Independent() {
			return each
		}
	}
	return nil
}

// Above returns the CompositePodGroups above g, the topmost first.
func (g *Group) Above() []*Composite {
	if g.composite == nil {
		return nil
	}
	return g.composite.lineage()
}

// HasTopologyAbove reports whether a CompositePodGroup above g asks for a topology.
func (g *Group) HasTopologyAbove() bool {
	return g.composite != nil && slices.ContainsFunc(g.Above(), (*Composite).HasTopology)
}

// together returns the gangs of c's unit, or those below c if they are not admitted together.
func (c *Composite) together() []*Group {
	if unit := c.Unit(); unit != nil {
		return unit.Gangs()
	}
	return c.Gangs()
}

// levels returns c and all composites below it, each behind the one that it is below, in a fixed order. The slice must
// not be changed.
func (c *Composite) levels() []*Composite {
	if c.lower == nil {
		c.lower = []*Composite{c}
		for i := 0; i < len(c.lower); i++ {
			for _, below := range c.lower[i].composites {
				if below != c { // a ring
					c.lower = append(c.lower, below)
				}
			}
		}
	}
	return c.lower
}

// Gangs returns all gangs below c: first the gangs directly below, by namespace and name, and then the gangs of the
// composites below it. The slice must not be changed.
func (c *Composite) Gangs() []*Group {
	if len(c.composites) == 0 {
		return c.gangs
	}
	if c.below == nil {
		c.below = []*Group{}
		for _, level := range c.levels() {
			c.below = append(c.below, level.gangs...)
		}
	}
	return c.below
}

// forgetBelow clears the memos of c and of all composites above it about the gangs below them.
func (c *Composite) forgetBelow() {
	up, _ := c.upward()
	for _, each := range up {
		each.lower, each.below = nil, nil
	}
}

// isBelow reports whether g is below c, directly or not.
func (g *Group) isBelow(c *Composite) bool {
	return g.composite != nil && (g.composite == c || slices.Contains(c.levels(), g.composite))
}

// Above returns the composite that c is directly below, nil for none.
func (c *Composite) Above() *Composite { return c.parent }

// Below returns all composites below c, each behind the one that it is below. The slice must not be changed.
func (c *Composite) Below() []*Composite { return c.levels()[1:] }

// Directly returns the gangs and the composites directly below c, each by name. The slices must not be changed.
func (c *Composite) Directly() (gangs []*Group, composites []*Composite) {
	return c.gangs, c.composites
}

// link puts c below the composite that its object names, and takes it away from the one that it was below.
func (c *Composite) link() {
	var parent *Composite
	if c.object != nil && c.object.Spec.ParentCompositePodGroupName != nil {
		parent = c.all.compositeAt(
			types.NamespacedName{Namespace: c.Namespace, Name: *c.object.Spec.ParentCompositePodGroupName},
		)
	}
	old := c.parent
	if old == parent {
		return
	}
	c.forgetBelow()
	if old != nil {
		old.composites = slices.DeleteFunc(old.composites, func(other *Composite) bool { return other == c })
	}
	if c.parent = parent; parent != nil {
		i, _ := slices.BinarySearchFunc(parent.composites, c, func(a, b *Composite) int {
			return strings.Compare(a.Name, b.Name)
		})
		parent.composites = slices.Insert(parent.composites, i, c)
	}
	c.forgetBelow()
	if old != nil {
		c.all.dropCompositeIfEmpty(old)
	}
}

// judgeLevels says what is wrong with the object of c, or of one below it, and with how they are below each other.
func (c *Composite) judgeLevels() string {
	if fault := c.fault(); fault != "" {
		return "it " + fault
	}
	if c.parent == c {
		return "it is below itself"
	}
	depth := map[*Composite]int{c: 1}
	for _, level := range c.levels()[1:] {
		if level == c.parent {
			return fmt.Sprintf("it is below composite pod group %s, which is below it", c.parent)
		}
		if fault := level.fault(); fault != "" {
			return fmt.Sprintf("composite pod group %s %s", level, fault)
		}
		if depth[level] = depth[level.parent] + 1; depth[level] > MaxLevels {
			return fmt.Sprintf(
				"composite pod group %s is on level %d below it: want %d levels or fewer",
				level, depth[level], MaxLevels,
			)
		}
	}
	return ""
}

// count counts, level by level, for how many of the gangs and composites directly below has is true. For a composite it
// is true if it is true for as many of its parts as it needs.
func (c *Composite) count(has func(*Group) bool) (levels []*Composite, have []int) {
	levels = c.levels()
	have = make([]int, len(levels))
	at := make(map[*Composite]int, len(levels))
	for i, level := range levels {
		at[level] = i
	}
	for i := len(levels) - 1; i >= 0; i-- {
		for _, g := range levels[i].gangs {
			if has(g) {
				have[i]++
			}
		}
		if i > 0 && have[i] >= levels[i].Min() {
			have[at[levels[i].parent]]++
		}
	}
	return levels, have
}

// Lacking returns how many more gangs and composites directly below c are needed for its minimum. A gang counts if has
// returns true for it. A composite counts if enough of its own children count. For the counts of gang.Count, use
// gang.Unit.Lacking.
func (c *Composite) Lacking(has func(*Group) bool) int { return max(0, c.Min()-c.Having(has)) }

// Having counts the gangs directly below that have it, and the composites of which as many as they need have it.
func (c *Composite) Having(has func(*Group) bool) int {
	_, have := c.count(has)
	return have[0]
}

// LackingAbove returns the topmost of the composites above g that lacks some of its parts, if the gangs for which has
// is true have their minimum. The search starts at the composite that g is admitted together with. nil means that none
// lacks any, so that the others allow g to be admitted.
func (g *Group) LackingAbove(has func(*Group) bool) (lacking *Composite) {
	unit := g.Composite()
	if unit == nil {
		return nil
	}
	levels, have := unit.count(has)
	for c := g.composite; ; c = c.parent {
		if have[slices.Index(levels, c)] < c.Min() {
			lacking = c
		}
		if c == unit {
			return lacking
		}
	}
}

// NeedsAll reports whether all of the gangs must have their minimum for any of them to be admitted.
func (c *Composite) NeedsAll() bool {
	return !slices.ContainsFunc(c.levels(), func(level *Composite) bool {
		gangs, composites := level.Directly()
		return level.Min() < len(gangs)+len(composites)
	})
}

// FirstWithout returns the first gang for which has is false, in the order of Named, also if it does not exist yet. ok
// is false if there is none. It skips gangs of a composite below that has its minimum.
func (c *Composite) FirstWithout(has func(*Group) bool) (first types.NamespacedName, ok bool) {
	for _, name := range c.named {
		if g := c.Gang(name); g == nil || !has(g) {
			return name, true
		}
	}
	levels, have := c.count(has)
	for i, level := range levels {
		if i > 0 && have[i] >= level.Min() {
			continue
		}
		for _, g := range level.gangs {
			if !has(g) {
				return g.Key(), true
			}
		}
	}
	return types.NamespacedName{}, false
}

// Gang returns the gang of that name that is below c, nil if there is none.
func (c *Composite) Gang(name types.NamespacedName) *Group {
	if g := c.all.byName[name]; g != nil && g.isBelow(c) {
		return g
	}
	return nil
}
