package preemption

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gangplan"
)

// The placing of a plan's members, in a rehearsal.

// startRehearsal begins a rehearsal without the pods that leave anyway, the first n candidates, and the members that
// wait, which the attempt releases.
func (pl *plan) startRehearsal(n int) {
	pl.r = pl.p.handle.Rehearse(pl.p.view.GangPlugin(), pl.ours)
	pl.within = pl.focused(pl.limit)
	pl.r.Limit(pl.within)
	for _, node := range pl.awaited {
		pl.r.Renew(node)
	}
	pl.placed, pl.victims = nil, slices.Clone(pl.candidates[:n])
	pl.searches, pl.searched = true, false
	for _, u := range pl.gone {
		pl.removeFocused(u)
	}
	for _, u := range pl.victims {
		pl.remove(u)
	}
	for _, g := range pl.gangs {
		for _, m := range g.Members() {
			if m.Stage == cluster.Waiting && g.Mode() != cluster.NonStrict {
				_ = pl.r.RemovePod(m.Info()) // on a node that is gone it holds nothing
			}
		}
	}
}

// tryFirst says whether the members fit without the first n candidates.
func (pl *plan) tryFirst(n int) bool {
	pl.p.planned.Trials++
	pl.startRehearsal(n)
	defer pl.r.End()
	return pl.placeAll()
}

// focused returns the nodes on which a member may fit, out of the nodes that it may use, if they are known.
func (pl *plan) focused(within []string) []string {
	if pl.focus != nil {
		return pl.focus
	}
	return within
}

// removeFocused removes the target's pods from the nodes that matter.
func (pl *plan) removeFocused(u *target) {
	for _, m := range u.pods {
		if pl.focus != nil {
			if _, matters := slices.BinarySearch(pl.focus, m.Node); !matters {
				continue
			}
		}
		_ = pl.r.RemovePod(m.Info()) // on a node that is gone it holds nothing
	}
}

func (pl *plan) remove(u *target) {
	for _, m := range u.pods {
		_ = pl.r.RemovePod(m.Info()) // on a node that is gone it holds nothing
	}
}

func (pl *plan) restore(u *target) {
	for _, m := range u.pods {
		_ = pl.r.AddPod(m.Info())
	}
}

// placeAll places as many members as are needed, one after the other, and says whether they all found a node. Gangs
// that cannot be admitted for want of others are not placed. If enough gangs have their minimum already, another one
// has to come to it.
func (pl *plan) placeAll() bool {
	if pl.whole == nil {
		return pl.placeGang(pl.gangs[0], pl.limit)
	}
	if pl.placeBelow(pl.whole, pl.limit) && len(pl.placed) > 0 {
		return true
	}
	pl.liftFrom(0)
	return pl.searches && pl.limit == nil && pl.searchFor(pl.gangs[0], nil)
}

// placeBelow places what is needed of a composite within some nodes, or nothing.
func (pl *plan) placeBelow(c *cluster.Composite, within []string) bool {
	gangs, composites := c.Directly()
	have, left, before := 0, len(gangs)+len(composites), len(pl.placed)
	count := func(placed bool) {
		if left--; placed {
			have++
		}
	}
	for _, g := range gangs {
		if have+left >= c.Min() {
			domains, limited := pl.p.view.DomainsAnew(g, within)
			count(inOneOf(domains, limited, within, func(nodes []string) bool { return pl.placeGang(g, nodes) }))
		}
	}
	for _, below := range composites {
		if have+left >= c.Min() {
			domains, limited := pl.p.view.DomainsBelow(below, within)
			count(inOneOf(domains, limited, within, func(nodes []string) bool { return pl.placeBelow(below, nodes) }))
		}
	}
	if have >= c.Min() {
		return true
	}
	pl.liftFrom(before)
	return false
}

// inOneOf reports whether place is true in one of the domains, or within all nodes if it is not limited to one. It does
// not try the domains behind it.
func inOneOf(domains [][]string, limited bool, within []string, place func(nodes []string) bool) bool {
	if !limited {
		return place(within)
	}
	return slices.ContainsFunc(domains, place)
}

// placeGang places what g needs for its minimum within some nodes, or nothing.
func (pl *plan) placeGang(g *cluster.Group, within []string) bool {
	counted := g.Gang()
	if !counted.Known() {
		return false
	}
	needed, before := counted.LackingAnew(), len(pl.placed)
	members := pl.p.view.State().Gangs().Placeable(g)
	for i, m := range members {
		if needed <= 0 {
			break
		}
		if m.Stage == cluster.Waiting && counted.NonStrict {
			continue // it stays where it is
		}
		if len(members)-i < needed {
			break
		}
		if node := pl.search(m, within); node != "" {
			pl.put(member{m, node, within})
			needed--
		} else if pl.alike {
			break
		}
	}
	if needed <= 0 && !pl.p.view.State().WantsMoreThan(g, podsOf(pl.placed)) {
		return true
	}
	pl.liftFrom(before)
	return pl.searches && pl.whole == nil && pl.searchFor(g, within)
}

// searchFor places the members that the unit of g needs in another order than by name, or nothing. Units with members
// that keep their nodes are left to the usual order, and gangs that are admitted together if one must stay within a
// domain.
func (pl *plan) searchFor(g *cluster.Group, within []string) bool {
	state := pl.p.view.State()
	u := gangplan.NewUnit(state, g)
	if u.KeepsNodes() || pl.alike || !u.Searchable() ||
		pl.whole != nil && slices.ContainsFunc(g.Unit(), (*cluster.Group).HasTopology) {
		return false
	}
	members := gangplan.NewMembers(u)
	if !members.Unequal() {
		return false
	}
	if within = pl.focused(within); !slices.Equal(pl.within, within) {
		pl.r.Limit(within)
		pl.within = within
	}
	places, _, _ := (&gangplan.Search{Rehearsal: pl.r}).Find(pl.ctx, members)
	for _, each := range places {
		pl.placed = append(pl.placed, member{each.Pod, each.Node, within})
	}
	pl.searched = len(places) > 0
	return pl.searched
}

func podsOf(members []member) (pods []*cluster.Pod) {
	for _, m := range members {
		pods = append(pods, m.pod)
	}
	return pods
}

// unplaced returns the pod as one that has no node and no claim to one.
func unplaced(m *cluster.Pod) *v1.Pod {
	pod := *m.Object
	pod.Status.NominatedNodeName = ""
	return &pod
}

// search returns which of the nodes the member would go to, "" for none.
func (pl *plan) search(m *cluster.Pod, within []string) string {
	if within = pl.focused(within); !slices.Equal(pl.within, within) {
		pl.r.Limit(within)
		pl.within = within
	}
	return pl.r.Place(pl.ctx, unplaced(m)).Node
}

func (pl *plan) put(m member) {
	if pl.r.AddPod(m.pod.InfoOn(m.node)) == nil {
		pl.placed = append(pl.placed, m)
	}
}

// lift takes the i-th of the placed members off its node.
func (pl *plan) lift(i int) {
	m := pl.placed[i]
	_ = pl.r.RemovePod(m.pod.InfoOn(m.node))
	pl.placed = slices.Delete(pl.placed, i, i+1)
}
