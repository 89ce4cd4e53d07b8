package coscheduling

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
)

// A unit is what is admitted in one step: a gang, or the gangs of a composite.

// free counts, as a function for Suffices, the members that have their node for good or are held by this plugin alone,
// and one more of own.
func (c *Coscheduling) free(own *cluster.Group) func(*cluster.Group) int {
	return func(g *cluster.Group) int {
		n := g.Assigned() + c.groups.Cleared(g)
		if g == own {
			n++
		}
		return n
	}
}

// placed counts the members that have a node, held or for good, and one less of own.
func (c *Coscheduling) placed(own *cluster.Group) func(*cluster.Group) int {
	return func(g *cluster.Group) int {
		n := g.Assigned() + g.Waiting()
		if g == own {
			n--
		}
		return n
	}
}

// potential counts the members that have a node or that the attempt under way has still to try, and change more of own.
func (c *Coscheduling) potential(own *cluster.Group, change int) func(*cluster.Group) int {
	return func(g *cluster.Group) int {
		n := g.Assigned() + g.Waiting() + c.groups.Left(g)
		if g == own {
			n += change
		}
		return n
	}
}

// present counts the members that have a node or could get one.
func present(g *cluster.Group) int { return g.Ready() + g.Waiting() + g.Assigned() }

// holds says whether members of g's unit are held.
func holds(g *cluster.Group) bool {
	for _, each := range g.Unit() {
		if each.Waiting() > 0 {
			return true
		}
	}
	return false
}

// allow lets the held members go of all gangs of g's unit that can be admitted.
func (c *Coscheduling) allow(g *cluster.Group, count func(*cluster.Group) int) {
	c.eachHeld(g, func(of *cluster.Group) bool { return of.Suffices(count) }, func(w fwk.WaitingPod) { w.Allow(Name) })
}

// release rejects the held members of g, and those of the gangs of its unit that cannot be admitted now either.
func (c *Coscheduling) release(g *cluster.Group, count func(*cluster.Group) int) {
	broken := func(of *cluster.Group) bool {
		return of == g || of.Mode() != cluster.NonStrict && !of.Suffices(count)
	}
	c.eachHeld(g, broken, func(w fwk.WaitingPod) { w.Reject(Name, "another member of the pod group cannot be placed") })
}

// eachHeld calls do for the held members of those gangs of g's unit that are meant.
func (c *Coscheduling) eachHeld(g *cluster.Group, meant func(*cluster.Group) bool, do func(fwk.WaitingPod)) {
	chosen := map[*cluster.Group]bool{}
	for _, each := range g.Unit() {
		if each.Waiting() > 0 && meant(each) {
			chosen[each] = true
		}
	}
	if len(chosen) == 0 {
		return
	}
	c.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if chosen[c.groups.GroupOf(w.GetPod())] {
			do(w)
		}
	})
}

// incomplete says what keeps the gangs that g is admitted with out of the queue, "" for nothing.
func incomplete(g *cluster.Group) string {
	unit := g.Composite()
	if unit == nil {
		return ""
	}
	if why := unit.Refusal(); why != "" {
		return fmt.Sprintf("%s: refused: %s", title(unit), why)
	}
	if !unit.Declared() {
		return fmt.Sprintf("%s does not exist yet", title(unit))
	}
	lacking, first, ok := unit.Lacking(present)
	if lacking == 0 || g.Mode() == cluster.NonStrict || g.Met() {
		return ""
	}
	why := fmt.Sprintf("%s: %d of the %d pod groups needed can be complete", title(unit), unit.Min()-lacking, unit.Min())
	if !ok {
		return why
	}
	switch other := unit.Gang(first); {
	case other == nil || !other.Declared():
		return fmt.Sprintf("%s; pod group %s does not exist yet", why, first)
	case other.Refusal() != "":
		return fmt.Sprintf("%s; pod group %s is refused: %s", why, first, other.Refusal())
	default:
		return fmt.Sprintf("%s; pod group %s has %d of the %d members it needs", why, first, present(other), other.Min())
	}
}

// title is how messages name a composite.
func title(unit *cluster.Composite) string {
	if unit.Namespace == "" {
		return "pod groups " + unit.String()
	}
	return "composite pod group " + unit.String()
}
