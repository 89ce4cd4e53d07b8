package preemption

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/outlook"
)

// Preemption for a gang, or for the gangs that are admitted together: only if then all that is needed fits.

// maxReplacements is how often, in one cycle, all members are placed anew to see whether a target could stay after all.
// Members that are alike and take no notice of other pods need it never; for others the victims may be more than needed
// once so many targets have been tried. Where the nodes are chosen first, it is how often all members are looked at
// again where they are; if that is not enough, the plan is made as for other gangs.
const maxReplacements = 256

// preemptForGang plans for all that the attempt on g was about.
func (p *Preemption) preemptForGang(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	g *cluster.Group,
) (*fwk.PostFilterResult, *fwk.Status) {
	pl := p.newPlan(ctx, pod, g)
	if !pl.allowed() {
		result, _ := p.giveUp(state, pl)
		return result, fwk.NewStatus(fwk.Unschedulable, "its preemptionPolicy is Never")
	}
	vain, exhausted := p.vainFor(pl)
	if exhausted {
		result, _ := p.giveUp(state, pl)
		return result, fwk.NewStatus(fwk.Unschedulable, madeInVain)
	}
	// For those who have had others evicted already room is kept while more important pods are on their way out.
	if pl.priority <= p.view.State().LowestPriority() && len(pl.withdrawn(nil)) == 0 {
		return p.giveUp(state, pl)
	}
	if p.hopeless(g) {
		if invariants && p.bestPlan(ctx, pod, g, vain) != nil {
			panic("preemption: there is a plan for gang " + g.String() + ", which is said to fit never")
		}
		return p.giveUp(state, pl)
	}
	best := p.bestPlan(ctx, pod, g, vain)
	if best == nil {
		return p.giveUp(state, pl)
	}
	pl = best
	proposal := &Proposal{}
	for _, u := range pl.victims {
		proposal.Victims = append(proposal.Victims, p.turnAway(u.pods)...)
	}
	var nodes []string
	own := ""
	for _, m := range pl.placed {
		if m.pod.Object.UID == pod.UID {
			own = m.node
		} else {
			proposal.Nominations = append(proposal.Nominations, Nomination{m.pod.Object.UID, m.node})
		}
		if !slices.Contains(nodes, m.node) {
			nodes = append(nodes, m.node)
		}
	}
	proposal.Nominations = append(proposal.Nominations, pl.withdrawn(pod)...)
	for _, n := range p.yields(pl.priority, nodes...) {
		if !pl.ours[n.UID] {
			proposal.Nominations = append(proposal.Nominations, n)
		}
	}
	return propose(state, own, proposal)
}

// bestPlan returns the plan that costs least of those for each of the domains of nodes that the gang, or all that it is
// admitted together with, may go to; of equals that whose domain is filled most, and then the first; nil if there is
// none. The nodes without are left out.
func (p *Preemption) bestPlan(ctx context.Context, pod *v1.Pod, g *cluster.Group, without []string) (best *plan) {
	if p.scattered(g) {
		return nil
	}
	var domains [][]string
	limited := false
	if c := g.Composite(); c != nil {
		domains, limited = p.view.DomainsBelow(c, nil)
	} else {
		domains, limited = p.view.DomainsAnew(g, nil)
	}
	if !limited {
		domains = [][]string{nil}
	}
	for _, nodes := range domains {
		pl := p.newPlan(ctx, pod, g)
		pl.limit = p.leavingOut(nodes, without)
		if pl.make() && (best == nil || pl.compare(best) < 0) {
			best = pl
		}
	}
	return best
}

// hopeless reports whether no plan can make room for a gang that is admitted by itself: its members would not fit
// if all nodes were empty. That is counted, for all gangs of the same shape at once, so that it costs little where many
// of them come. A no says nothing.
func (p *Preemption) hopeless(g *cluster.Group) bool {
	counted := g.Gang()
	if g.Composite() != nil || len(g.Unit()) != 1 || g.NonStrict() || !counted.Known() || g.Waiting() > 0 {
		return false
	}
	members, needed := p.view.State().Placeable(g), counted.LackingAnew()
	return len(members) > 0 && needed > 0 && !p.view.TakesEmpty(members, needed)
}

// scattered reports whether the rules of the epoch know no plan for the gang: one of several that are admitted
// together, of which one is limited to a domain.
func (p *Preemption) scattered(g *cluster.Group) bool {
	if p.view.State().KnowsLevels() || len(g.Unit()) == 1 {
		return false
	}
	return slices.ContainsFunc(g.Unit(), func(each *cluster.Group) bool {
		_, limited := p.view.DomainsAnew(each, nil)
		return limited
	})
}

// compare orders plans by their victims, as candidates for single pods are ordered.
func (pl *plan) compare(o *plan) int {
	a, b := pl.costs(), o.costs()
	if len(a.victims) == 0 || len(b.victims) == 0 {
		return len(a.victims) - len(b.victims)
	}
	if c := pl.p.compare(a, b); c != 0 || !pl.p.view.State().KnowsLevels() {
		return c
	}
	return cmp.Compare(o.filled(), pl.filled())
}

// filled returns how much of the nodes that the plan is limited to would be requested if all went that may be made to
// go, in parts of a hundred: the mean of the resources that its members request.
func (pl *plan) filled() (mean int64) {
	resources := outlook.ResourcesOf(podsOf(pl.placed))
	resources = slices.DeleteFunc(resources, func(name v1.ResourceName) bool { return name == v1.ResourcePods })
	for _, name := range resources {
		var requested, all int64
		for _, node := range pl.limit {
			if info, err := pl.p.handle.SnapshotSharedLister().NodeInfos().Get(node); err == nil {
				offered, taken := cluster.AmountOn(info, name)
				all, requested = cluster.AddUpTo(all, offered), cluster.AddUpTo(requested, taken)
			}
		}
		for _, m := range pl.placed {
			requested = cluster.AddUpTo(requested, m.pod.Amount(name))
		}
		for _, u := range pl.candidates {
			for _, v := range u.pods {
				if slices.Contains(pl.limit, v.Node) {
					requested -= v.Amount(name)
				}
			}
		}
		mean += cluster.Percent(requested, all)
	}
	return mean / max(1, int64(len(resources)))
}

func (pl *plan) costs() (c candidate) {
	for _, u := range pl.victims {
		c.violations += pl.counted[u]
		c.victims = append(c.victims, u.pods...)
	}
	return c
}

// giveUp takes the nominations away that the members may have.
func (p *Preemption) giveUp(state fwk.CycleState, pl *plan) (*fwk.PostFilterResult, *fwk.Status) {
	if lost := pl.withdrawn(nil); len(lost) > 0 {
		state.Write(proposalKey, &Proposal{Nominations: lost})
	}
	return notHelpful()
}

// plan is how the members would be placed if the victims were gone.
type plan struct {
	p        *Preemption
	ctx      context.Context
	gangs    []*cluster.Group
	whole    *cluster.Composite // that the gangs are admitted together as, nil for one gang
	limit    []string           // the nodes that members may go to, nil for all; of these each gang may have its own
	ours     map[types.UID]bool
	priority int32

	candidates []*target // in the order in which they are taken: what costs least comes first
	gone       []*target // pods that are on their way out anyway, however important, and the gang's own among them
	counted    map[*target]int
	awaited    []string // the nodes where devices come free anyway, because pods that had them have ended

	nodesFirst   bool // see cluster.State.ChoosesNodesFirst
	heeding      bool // members take notice of other pods
	alike        bool // all members are the same to every plugin, and take no notice of other pods
	replacements int

	r       *framework.Rehearsal
	within  []string // the nodes that r is limited to
	placed  []member
	victims []*target
}

// member is a pod of the gang and the node that it would go to.
type member struct {
	pod    *cluster.Pod
	node   string
	within []string // the nodes that it may go to, nil for all
}

func (p *Preemption) newPlan(ctx context.Context, pod *v1.Pod, g *cluster.Group) *plan {
	pl := &plan{
		p:        p,
		ctx:      ctx,
		gangs:    g.Unit(),
		whole:    g.Composite(),
		ours:     map[types.UID]bool{},
		priority: p.view.State().PriorityOf(pod),

		nodesFirst: p.view.State().ChoosesNodesFirst(g),
	}
	for _, each := range pl.gangs {
		for _, m := range each.Members() {
			pl.ours[m.Object.UID] = true
		}
	}
	return pl
}

func (pl *plan) allowed() bool {
	return !slices.ContainsFunc(pl.gangs, func(g *cluster.Group) bool { return !g.MayPreempt() })
}

// withdrawn takes the nominations away of members that the plan has no node for, other than of pod.
func (pl *plan) withdrawn(pod *v1.Pod) (out []Nomination) {
	for _, g := range pl.gangs {
		for _, m := range g.Members() {
			uid := m.Object.UID
			if pod != nil && uid == pod.UID || pl.p.view.NominatedNode(uid) == "" {
				continue
			}
			if !slices.ContainsFunc(pl.placed, func(o member) bool { return o.pod == m }) {
				out = append(out, Nomination{UID: uid})
			}
		}
	}
	return out
}

// make looks for victims. It returns false if there are none with which the members would fit, or if they would fit
// without anybody's going.
func (pl *plan) make() bool {
	if !pl.findCandidates() {
		return false
	}
	pl.compareMembers()
	n, enough := pl.fewest()
	if !enough || n == 0 && !pl.countsOnOthers() {
		return false
	}
	if pl.shorten(n); (pl.alike || pl.nodesFirst && !pl.heeding) && !pl.fits() {
		pl.alike, pl.heeding = false, true // a plugin minds where others are, whatever the members say
		pl.shorten(n)
	}
	if pl.nodesFirst && pl.replacements > maxReplacements {
		pl.nodesFirst, pl.replacements = false, 0
		n, _ = pl.fewest()
		pl.shorten(n)
	}
	slices.SortFunc(pl.victims, moreImportant)
	return (len(pl.victims) > 0 || pl.countsOnOthers()) && pl.p.view.State().MaySearchDevices()
}

// countsOnOthers reports whether room comes free without anybody's being asked to go. Devices that come free count only
// if a member that wants some was placed on their node.
func (pl *plan) countsOnOthers() bool {
	if !pl.p.view.State().FollowsDeviceUsers() {
		return len(pl.gone)+len(pl.awaited) > 0
	}
	return len(pl.gone) > 0 || slices.ContainsFunc(pl.placed, func(m member) bool {
		return len(m.pod.Object.Spec.ResourceClaims) > 0 && slices.Contains(pl.awaited, m.node)
	})
}

// fewest returns how many of the candidates, from the first on, have to go for the members to fit; all of them where
// the nodes are chosen first, unless none has to. enough is false if they do not fit without all of them either.
func (pl *plan) fewest() (n int, enough bool) {
	if pl.tryFirst(0) {
		return 0, true
	}
	// The fewer targets are gone, the less room there is: search the shortest list of them that is enough.
	lowest, highest := 1, len(pl.candidates)
	if highest == 0 || !pl.tryFirst(highest) {
		return 0, false
	}
	for !pl.nodesFirst && lowest < highest {
		if middle := (lowest + highest) / 2; pl.tryFirst(middle) {
			highest = middle
		} else {
			lowest = middle + 1
		}
	}
	return highest, true
}

// shorten places the members without the first n candidates and takes back those that need not go.
func (pl *plan) shorten(n int) {
	pl.startRehearsal(n)
	defer pl.r.End()
	if pl.placeAll() {
		pl.takeBack()
	}
}

// fits reports whether the members fit where the plan has them, one after the other.
func (pl *plan) fits() bool {
	planned, victims := pl.placed, pl.victims
	pl.startRehearsal(0)
	defer pl.r.End()
	pl.victims = victims
	for _, u := range victims {
		pl.remove(u)
	}
	for _, m := range planned {
		if !pl.r.Fits(pl.ctx, unplaced(m.pod), m.node) {
			return false
		}
		pl.put(m)
	}
	return true
}

// findCandidates lists the targets that may be made to go.
func (pl *plan) findCandidates() bool {
	nodes, err := pl.p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return false
	}
	if pl.limit != nil {
		nodes = slices.DeleteFunc(
			slices.Clone(nodes),
			func(n fwk.NodeInfo) bool { return !slices.Contains(pl.limit, n.Node().Name) },
		)
	}
	budgets, err := pl.p.budgets()
	if err != nil {
		return false
	}
	for _, u := range pl.p.targetsOn(nodes...) {
		stay, going := u.split(
			func(m *cluster.Pod) bool { return m.Object.DeletionTimestamp != nil || pl.p.going(m.Object) },
		)
		if going != nil {
			pl.gone = append(pl.gone, going)
		}
		own := slices.ContainsFunc(u.pods, func(m *cluster.Pod) bool { return pl.ours[m.Object.UID] })
		if stay != nil && u.priority < pl.priority && !own && !pl.p.spared(stay) {
			pl.candidates = append(pl.candidates, stay)
		}
	}
	slices.SortFunc(pl.candidates, func(a, b *target) int { return -moreImportant(a, b) })
	counts := violations(pl.candidates, budgets)
	pl.counted = make(map[*target]int, len(counts))
	for i, u := range pl.candidates {
		pl.counted[u] = counts[i]
	}
	// Those that a budget protects go last.
	slices.SortStableFunc(pl.candidates, func(a, b *target) int {
		return min(pl.counted[a], 1) - min(pl.counted[b], 1)
	})
	if pl.wantsDevices() && pl.p.view.State().FreesDevices() {
		pl.awaited = pl.p.view.State().NodesAwaitingDevices()
		if pl.limit != nil && pl.p.view.State().FollowsDeviceUsers() {
			pl.awaited = slices.DeleteFunc(pl.awaited, func(n string) bool { return !slices.Contains(pl.limit, n) })
		}
	}
	return len(pl.candidates)+len(pl.gone)+len(pl.awaited) > 0
}

func (pl *plan) wantsDevices() bool {
	wants := func(m *cluster.Pod) bool { return len(m.Object.Spec.ResourceClaims) > 0 }
	return slices.ContainsFunc(pl.gangs, func(g *cluster.Group) bool { return slices.ContainsFunc(g.Members(), wants) })
}

// split returns the target's pods of which leaves is not true, and those of which it is; nil for none.
func (u *target) split(leaves func(*cluster.Pod) bool) (stay, going *target) {
	var staying, leaving []*cluster.Pod
	for _, m := range u.pods {
		if leaves(m) {
			leaving = append(leaving, m)
		} else {
			staying = append(staying, m)
		}
	}
	part := func(pods []*cluster.Pod) *target {
		if len(pods) == 0 {
			return nil
		}
		c := *u
		c.pods = pods
		return &c
	}
	return part(staying), part(leaving)
}

// compareMembers settles whether the members are alike.
func (pl *plan) compareMembers() {
	pl.alike, pl.heeding = true, false
	var first *v1.Pod
	var claims string
	for _, g := range pl.gangs {
		for _, m := range pl.p.view.State().Placeable(g) {
			own, shared := pl.p.claimsOf(m.Object)
			if first == nil {
				first, claims = m.Object, own
			}
			pl.heeding = pl.heeding || shared || sociable(m.Object)
			pl.alike = pl.alike && similar(first, m.Object) && own == claims
		}
	}
	affine, err := pl.p.handle.SnapshotSharedLister().NodeInfos().HavePodsWithAffinityList()
	pl.heeding = pl.heeding || err != nil || len(affine) > 0
	pl.alike = pl.alike && !pl.heeding
}

// sociable says whether it may matter to the pod where others are.
func sociable(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) ||
		len(pod.Spec.TopologySpreadConstraints) > 0 ||
		slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
			local := v1.VolumeSource{EmptyDir: v.EmptyDir}
			return v.VolumeSource != local
		})
}

// claimsOf returns what the pod's claims ask for; shared says that it may matter to the pod which devices others have
// on other nodes.
func (p *Preemption) claimsOf(pod *v1.Pod) (specs string, shared bool) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return "", false
	}
	if !p.view.State().FreesDevices() {
		return "", true
	}
	own, ok := p.view.State().OwnClaims(nil, pod)
	return string(own), !ok
}

// similar compares pods. What it says of sociable ones is of no account.
func similar(a, b *v1.Pod) bool {
	x, y := a.Spec, b.Spec
	x.Volumes, y.Volumes = nil, nil
	return equality.Semantic.DeepEqual(x, y)
}

// startRehearsal begins a rehearsal without the pods that leave anyway, the first n candidates, and the members that
// wait, which the attempt releases.
func (pl *plan) startRehearsal(n int) {
	pl.r = pl.p.handle.Rehearse(pl.p.view.GangPlugin(), pl.ours)
	pl.r.Limit(pl.limit)
	for _, node := range pl.awaited {
		pl.r.Renew(node)
	}
	pl.within, pl.placed = pl.limit, nil
	pl.victims = slices.Clone(pl.candidates[:n])
	for _, u := range slices.Concat(pl.gone, pl.victims) {
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
	pl.startRehearsal(n)
	defer pl.r.End()
	return pl.placeAll()
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
	return pl.placeBelow(pl.whole, pl.limit) && (len(pl.placed) > 0 || !pl.p.view.State().KnowsLevels())
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
	members := pl.p.view.State().Placeable(g)
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
	return false
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
	if !slices.Equal(pl.within, within) {
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

// takeBack puts every target back that need not go, the most important first, until none is left that could stay. Where
// the nodes are chosen first, none could that was not put back at its turn.
func (pl *plan) takeBack() {
	if pl.nodesFirst && pl.heeding {
		targets := slices.Clone(pl.victims)
		slices.Reverse(targets)
		pl.spareTogether(targets)
		return
	}
	for {
		kept := len(pl.victims)
		for _, u := range slices.Backward(slices.Clone(pl.victims)) {
			if pl.spare(u) {
				pl.victims = slices.DeleteFunc(pl.victims, func(v *target) bool { return v == u })
			}
		}
		if pl.alike || pl.nodesFirst || len(pl.victims) == kept {
			return
		}
	}
}

// spare puts the target back if the members still fit then.
func (pl *plan) spare(u *target) bool {
	if pl.alike || pl.nodesFirst {
		return pl.spareHere(u)
	}
	if pl.replacements++; pl.replacements > maxReplacements {
		return false
	}
	before := slices.Clone(pl.placed)
	pl.liftAll()
	pl.restore(u)
	if pl.placeAll() {
		return true
	}
	pl.revert(before, u)
	return false
}

func (pl *plan) liftAll() { pl.liftFrom(0) }

// liftFrom takes the placed members from the i-th on off their nodes.
func (pl *plan) liftFrom(i int) {
	for len(pl.placed) > i {
		pl.lift(len(pl.placed) - 1)
	}
}

// spareTogether puts targets back, in their order, as long as the members still fit where they are: all of them at
// once if they can stay, or else half of them and then the other half.
func (pl *plan) spareTogether(targets []*target) {
	if len(targets) == 0 || pl.replacements > maxReplacements {
		return
	}
	if pl.replacements++; pl.spareInPlace(targets) {
		pl.victims = slices.DeleteFunc(pl.victims, func(u *target) bool { return slices.Contains(targets, u) })
	} else if half := len(targets) / 2; half > 0 {
		pl.spareTogether(targets[:half])
		pl.spareTogether(targets[half:])
	}
}

// spareInPlace puts targets back if the members still fit then where they are, one after the other.
func (pl *plan) spareInPlace(targets []*target) bool {
	before := slices.Clone(pl.placed)
	pl.liftAll()
	for _, u := range targets {
		pl.restore(u)
	}
	for _, m := range before {
		if !pl.r.Fits(pl.ctx, unplaced(m.pod), m.node) {
			pl.revert(before, targets...)
			return false
		}
		pl.put(m)
	}
	return true
}

// spareHere is spare for members that are alike: only those on the target's own nodes need another place, and if
// there is none for one of them, no other order of placing would have found one. Where the nodes are chosen first, none
// has another place.
func (pl *plan) spareHere(u *target) bool {
	before := slices.Clone(pl.placed)
	var moved []member
	for i := len(pl.placed) - 1; i >= 0; i-- {
		m := pl.placed[i]
		if slices.ContainsFunc(u.pods, func(v *cluster.Pod) bool { return v.Node == m.node }) {
			moved = append(moved, m)
			pl.lift(i)
		}
	}
	pl.restore(u)
	var homeless []member
	for _, m := range slices.Backward(moved) {
		if pl.r.Fits(pl.ctx, unplaced(m.pod), m.node) {
			pl.put(m)
		} else {
			homeless = append(homeless, m)
		}
	}
	for _, m := range homeless {
		if m.node = pl.elsewhere(m); m.node == "" {
			pl.revert(before, u)
			return false
		}
		pl.put(m)
	}
	return true
}

// elsewhere returns another node for a member that must leave its own, "" for none.
func (pl *plan) elsewhere(m member) string {
	if pl.nodesFirst {
		return ""
	}
	return pl.search(m.pod, m.within)
}

// revert takes targets out again and puts the members where they were.
func (pl *plan) revert(before []member, targets ...*target) {
	pl.liftAll()
	for _, u := range targets {
		pl.remove(u)
	}
	for _, m := range before {
		pl.put(m)
	}
}
