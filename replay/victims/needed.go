package victims

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// maxExchanges is the number of exchanges of a victim for a less important pod that are tried for one preemption.
const maxExchanges = 2000

// checkNeeded checks that no victim could stay, and that no less important pod could go in its place. The pod, or the
// members of the gang, go to the nodes that the Decision keeps for them.
func (c *check) checkNeeded(p *Preemption, again again) {
	needless := false
	for _, u := range c.units {
		if c.fits(without(c.victims, u.pods)) {
			needless = true
			p.find(Violation, Needless, u.name(), "without the other victims there is room for the pod or gang on the "+
				"nodes that the Decision keeps for it: this one could stay")
		}
	}
	if needless {
		return
	}
	others, tried := c.others(), 0
	for _, u := range c.units {
		for _, o := range others {
			if c.compare(u, o) >= 0 {
				continue // it is no less important
			}
			if tried++; tried > maxExchanges {
				p.Unproven = fmt.Sprintf("only %d exchanges of a victim for a less important pod were tried",
					maxExchanges)
				return
			}
			exchanged := append(without(c.victims, u.pods), o.pods...)
			if !c.fits(exchanged) || c.breaksMore(exchanged) {
				continue
			}
			verdict := Violation
			if again.same || !again.rules {
				verdict = Allowed
			}
			p.find(verdict, LessImportant, u.name(), fmt.Sprintf("%s of priority %d is less important, and it would "+
				"have been enough that it goes", o.name(), o.Priority))
			break
		}
	}
}

// others returns the units that could have been victims and were not, on nodes that the Decision keeps: no others
// give room there.
func (c *check) others() (out []*unit) {
	by := c.preemptor()
	for _, p := range c.m.Cluster().Pods().All() {
		kept := slices.ContainsFunc(c.placed, func(at place) bool { return at.node == p.Node })
		if p.Node == "" || !kept || slices.Contains(c.victims, p) || p.Ending() {
			continue
		}
		u := c.unitOf(p)
		ends := slices.ContainsFunc(u.pods, (*cluster.Pod).Ending)
		if ends || c.isOwn(u) || c.spares(u) || !c.policy.MayPreempt(by, &u.Victim) ||
			slices.ContainsFunc(out, func(o *unit) bool { return o.key == u.key }) ||
			slices.ContainsFunc(c.units, func(o *unit) bool { return o.key == u.key }) {
			continue
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b *unit) int { return -c.compare(a, b) })
	return out
}

// spares reports whether preemption leaves a unit alone: an eviction of it was refused, its gang says so, or a gang
// would fall below its minimum for a member beyond another gang's.
func (c *check) spares(u *unit) bool {
	beyond := c.pod.Group != nil && !c.gang
	return slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool {
		_, spared := c.m.SparedUntil(p.Object.UID)
		if p.Group == nil {
			return spared
		}
		_, guarded := p.Group.CanLose()
		return spared || p.Group.Stays() || beyond && guarded
	})
}

// compare orders units as preemption does: negative if a is more important.
func (c *check) compare(a, b *unit) int {
	if n := c.policy.Compare(&a.Victim, &b.Victim); n != 0 {
		return n
	}
	return strings.Compare(a.name(), b.name())
}

// breaksMore reports whether other victims break a budget that these victims do not break.
func (c *check) breaksMore(victims []*cluster.Pod) bool {
	broken := c.broken(c.victims)
	return slices.ContainsFunc(c.broken(victims), func(b brokenBudget) bool {
		asMuch := func(o brokenBudget) bool { return o.budget == b.budget && o.pods >= b.pods }
		return !slices.ContainsFunc(broken, asMuch)
	})
}

// without returns the pods that are not in not.
func without(pods, not []*cluster.Pod) (out []*cluster.Pod) {
	for _, p := range pods {
		if !slices.Contains(not, p) {
			out = append(out, p)
		}
	}
	return out
}

// fits reports whether the pod, or the members of the gang, fit the nodes that the Decision keeps for them, in some
// order, if some pods are gone. A gang counts on pods that are on their way out.
func (c *check) fits(gone []*cluster.Pod) bool {
	ours := map[types.UID]bool{c.pod.Object.UID: true}
	if c.gang {
		for _, g := range c.pod.Group.Unit() {
			for _, m := range g.Members() {
				ours[m.Object.UID] = true
			}
		}
	}
	ctx, r := scheduler.Rehearse(c.m, c.pod.Object.Spec.SchedulerName, ours)
	defer r.End()
	for _, p := range c.m.Cluster().Pods().All() {
		own := c.gang && p.Stage == cluster.Waiting && ours[p.Object.UID] && p.Group.Mode() != cluster.NonStrict
		if p.Node != "" && (own || c.gang && p.Ending() || slices.Contains(gone, p)) {
			_ = r.RemovePod(p.Info()) // on a node that is gone it holds nothing
		}
	}
	for _, at := range c.placed {
		r.Renew(at.node)
	}
	left := slices.Clone(c.placed)
	for len(left) > 0 {
		before := len(left)
		left = slices.DeleteFunc(left, func(at place) bool {
			pod := *at.pod.Object
			pod.Status.NominatedNodeName = ""
			return r.Fits(ctx, &pod, at.node) && r.AddPod(at.pod.InfoOn(at.node)) == nil
		})
		if len(left) == before {
			return false
		}
	}
	return true
}
