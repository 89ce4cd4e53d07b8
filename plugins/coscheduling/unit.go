package coscheduling

import (
	"fmt"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// tally returns the counts of g's unit, with the counts of the current attempt that only the scheduler has.
func (c *Coscheduling) tally(g *cluster.Group) gang.Unit {
	return g.Tally(func(each *cluster.Group, n *gang.Counts) {
		n.Untried, n.Cleared = c.groups.Left(each), c.groups.Cleared(each)
	})
}

// anyWaits reports whether a member of g's unit waits on a node.
func anyWaits(g *cluster.Group) bool {
	return slices.ContainsFunc(g.Unit(), func(each *cluster.Group) bool { return each.Waiting() > 0 })
}

// allow lets the waiting members go of all gangs of g's unit that can be admitted with the members that count.
func (c *Coscheduling) allow(g *cluster.Group, u *gang.Unit, by gang.Count) {
	c.eachWaiting(g, func(i int) bool { return u.Suffices(i, by) }, func(w fwk.WaitingPod) { w.Allow(Name) })
}

// release rejects the waiting members of g, and of the other gangs of its unit that cannot be admitted now either.
func (c *Coscheduling) release(g *cluster.Group, u *gang.Unit, by gang.Count) {
	const why = "another member of the pod group cannot be placed"
	c.eachWaiting(g, func(i int) bool { return u.Broken(i, by) }, func(w fwk.WaitingPod) { w.Reject(Name, why) })
}

// eachWaiting calls do for the waiting members of those gangs of g's unit that are meant, by their index there.
func (c *Coscheduling) eachWaiting(g *cluster.Group, meant func(i int) bool, do func(fwk.WaitingPod)) {
	chosen := map[*cluster.Group]bool{}
	for i, each := range g.Unit() {
		if each.Waiting() > 0 && meant(i) {
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

// incomplete returns the reason why the gangs that g is admitted with stay out of the queue, "" for none.
func incomplete(g *cluster.Group) string {
	composite := g.Composite()
	if composite == nil {
		return ""
	}
	if why := composite.Refusal(); why != "" {
		return fmt.Sprintf("%s: refused: %s", title(composite), why)
	}
	if !composite.Declared() {
		return fmt.Sprintf("%s does not exist yet", title(composite))
	}
	unit := g.Tally(nil)
	lacking := unit.Lacking(gang.Present)
	if lacking == 0 || g.Mode() == cluster.NonStrict || g.Met() {
		return ""
	}
	of := "pod groups"
	if _, below := composite.Directly(); len(below) > 0 {
		of = "groups below it"
	}
	why := fmt.Sprintf(
		"%s: %d of the %d %s needed can be complete",
		title(composite),
		unit.Min-lacking,
		unit.Min,
		of,
	)
	first, ok := composite.FirstWithout(func(each *cluster.Group) bool { return each.HasMinimum(gang.Present) })
	if !ok {
		return why
	}
	switch other := composite.Gang(first); {
	case other == nil || !other.Declared():
		return fmt.Sprintf("%s; pod group %s does not exist yet", why, first)
	case other.Refusal() != "":
		return fmt.Sprintf("%s; pod group %s is refused: %s", why, first, other.Refusal())
	default:
		return fmt.Sprintf(
			"%s; pod group %s has %d of the %d members it needs",
			why,
			first,
			other.Count(gang.Present),
			other.Min(),
		)
	}
}

// title returns how messages name a composite.
func title(c *cluster.Composite) string {
	if c.Namespace == "" {
		return "pod groups " + c.String()
	}
	return "composite pod group " + c.String()
}
