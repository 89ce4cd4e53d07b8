package preemption

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/room"
)

// Preemption for a gang, or for the gangs that are admitted together: only if then all that is needed fits.

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
	// A gang that has evicted pods keeps its room while more important pods are on their way out.
	if !p.hasVictims(pl.by) && len(pl.withdrawn(nil)) == 0 {
		return p.giveUp(state, pl)
	}
	if p.hopeless(g, pl.by) {
		if invariants {
			check, end := p.checking(ctx)
			if p.bestPlan(check, pod, g, vain, nil) != nil {
				panic("preemption: there is a plan for gang " + g.String() + ", which is said to have none")
			}
			end()
		}
		return p.giveUp(state, pl)
	}
	best := p.bestPlan(ctx, pod, g, vain, framework.TraceOf(state))
	if best == nil {
		p.learnHopeless(g, pl.by)
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
	for _, n := range p.yields(pl.by, nodes...) {
		if !pl.ours[n.UID] {
			proposal.Nominations = append(proposal.Nominations, n)
		}
	}
	return propose(state, own, proposal)
}

// bestPlan returns the cheapest plan, nil if there is none. There is one for each domain that the gang, or its unit,
// may use. Ties go to the plan whose domain is filled most, and then to the first. The nodes of without are left out.
// trace records the plans; nil records nothing.
func (p *Preemption) bestPlan(ctx context.Context, pod *v1.Pod, g *cluster.Group, without []string,
	trace *framework.Trace) (best *plan) {
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
		made := pl.make()
		if invariants && pl.wasCounted {
			p.checkCounted(ctx, pod, g, pl, made)
		}
		if made && trace != nil {
			tracePlan(trace, pl)
		}
		if made && (best == nil || pl.compare(best) < 0) {
			best = pl
		}
	}
	return best
}

// checkCounted panics if a plan that was made by counting is not what it would be without. It is for invariants.
func (p *Preemption) checkCounted(ctx context.Context, pod *v1.Pod, g *cluster.Group, counted *plan, made bool) {
	ctx, end := p.checking(ctx)
	defer end()
	pl := p.newPlan(ctx, pod, g)
	pl.limit, pl.uncounted = counted.limit, true
	if again := pl.make(); again != made || made && pl.String() != counted.String() {
		panic(fmt.Sprintf("preemption: gang %s, counted: %v %s, and tried: %v %s", g, made, counted, again, pl))
	}
}

// checking begins a check for invariants. The check has a SearchBudget of its own, and the plans that it makes until
// end do not count.
func (p *Preemption) checking(ctx context.Context) (check context.Context, end func()) {
	planned := p.planned
	return withBudget(ctx, BudgetOf(ctx).Left()), func() { p.planned = planned }
}

// String says who goes, and who is placed where.
func (pl *plan) String() string {
	var b strings.Builder
	for _, u := range pl.victims {
		for _, v := range u.pods {
			fmt.Fprintf(&b, "-%s ", v.Object.UID)
		}
	}
	for _, m := range pl.placed {
		fmt.Fprintf(&b, "+%s@%s ", m.pod.Object.UID, m.node)
	}
	return b.String()
}

// hopeless reports whether no plan can make room for a gang that is admitted by itself. Its members would not fit on
// empty nodes, or would not fit if all pods of lower priority had gone. One count serves all gangs of the same shape
// and priority, so it costs little if many of them come. False means that it is not known.
func (p *Preemption) hopeless(g *cluster.Group, by framework.Preemptor) bool {
	members, needed := p.countedAlone(g)
	below, known := p.policy().Below(by)
	return needed > 0 &&
		(!p.view.TakesEmpty(members, needed) || known && !p.view.TakesCleared(members, needed, below, false))
}

// learnHopeless has it counted what room there is for gangs like g, for which no plan was found, so that the next one
// may be hopeless. It is counted only then: where gangs find victims, it would be of no use.
func (p *Preemption) learnHopeless(g *cluster.Group, by framework.Preemptor) {
	below, known := p.policy().Below(by)
	if members, needed := p.countedAlone(g); known && needed > 0 {
		p.view.TakesCleared(members, needed, below, true)
	}
}

// countedAlone returns the members of a gang that may be placed, and how many of them have to be, if all that matters
// is whether the nodes take so many of them. If it is not, needed is 0.
func (p *Preemption) countedAlone(g *cluster.Group) (members []*cluster.Pod, needed int) {
	counted := g.Gang()
	if g.Composite() != nil || len(g.Unit()) != 1 || g.NonStrict() || !counted.Known() || g.Waiting() > 0 {
		return nil, 0
	}
	if members = p.view.State().Gangs().Placeable(g); len(members) == 0 {
		return nil, 0
	}
	return members, max(0, counted.LackingAnew())
}

// compare orders plans by their victims, as candidates for single pods are ordered.
func (pl *plan) compare(o *plan) int {
	a, b := pl.costs(), o.costs()
	if len(a.victims) == 0 || len(b.victims) == 0 {
		return len(a.victims) - len(b.victims)
	}
	if c := pl.p.compare(a, b); c != 0 {
		return c
	}
	return cmp.Compare(o.filled(), pl.filled())
}

// filled returns how much of the plan's nodes would be requested if all candidates went, as a percentage: the mean of
// the resources that its members request.
func (pl *plan) filled() (mean int64) {
	resources := room.ResourcesOf(podsOf(pl.placed))
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

// giveUp takes the nominations away that the members may have.
func (p *Preemption) giveUp(state fwk.CycleState, pl *plan) (*fwk.PostFilterResult, *fwk.Status) {
	if lost := pl.withdrawn(nil); len(lost) > 0 {
		state.Write(proposalKey, &Proposal{Nominations: lost})
	}
	return notHelpful()
}
