package preemption

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
)

// Preemption for a gang, or for the gangs that are admitted together: only if then all that is needed fits.

// maxReplacements is how often, in one cycle, all members are placed anew to see whether a target could stay after all.
// Members that are alike and take no notice of other pods need it never; for others the victims may be more than needed
// once so many targets have been tried.
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
	// For those who have had others evicted already room is kept while more important pods are on their way out.
	if pl.priority <= p.view.State().LowestPriority() && len(pl.withdrawn(nil)) == 0 {
		return p.giveUp(state, pl)
	}
	best := p.bestPlan(ctx, pod, g)
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

// bestPlan returns the plan that costs least of those for each of the domains of nodes that the gang may go to, of
// equals the first; nil if there is none. Of gangs that are admitted together none may be limited to a domain.
func (p *Preemption) bestPlan(ctx context.Context, pod *v1.Pod, g *cluster.Group) (best *plan) {
	domains, limited := p.view.DomainsAnew(g)
	if len(g.Unit()) > 1 && slices.ContainsFunc(g.Unit(), p.hasDomains) {
		return nil
	}
	if !limited {
		domains = [][]string{nil}
	}
	for _, nodes := range domains {
		pl := p.newPlan(ctx, pod, g)
		pl.limit = nodes
		if pl.make() && (best == nil || pl.compare(best) < 0) {
			best = pl
		}
	}
	return best
}

// compare orders plans by their victims, as candidates for single pods are ordered.
func (pl *plan) compare(o *plan) int {
	a, b := pl.costs(), o.costs()
	if len(a.victims) == 0 || len(b.victims) == 0 {
		return len(a.victims) - len(b.victims)
	}
	return pl.p.compare(a, b)
}

func (pl *plan) costs() (c candidate) {
	for _, u := range pl.victims {
		c.violations += pl.counted[u]
		c.victims = append(c.victims, u.pods...)
	}
	return c
}

// hasDomains reports whether the members of a gang are limited to one of some domains.
func (p *Preemption) hasDomains(g *cluster.Group) bool {
	_, limited := p.view.DomainsAnew(g)
	return limited
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
	enough   int      // how many of the gangs must have their minimum
	limit    []string // the nodes that the members may go to, nil for all
	ours     map[types.UID]bool
	priority int32

	candidates []*target // in the order in which they are taken: what costs least comes first
	gone       []*target // pods that are on their way out anyway, however important, and the gang's own among them
	counted    map[*target]int

	alike        bool // all members are the same to every plugin, and take no notice of other pods
	replacements int

	r       *framework.Rehearsal
	placed  []member
	victims []*target
}

// member is a pod of the gang and the node that it would go to.
type member struct {
	pod  *cluster.Pod
	node string
}

func (p *Preemption) newPlan(ctx context.Context, pod *v1.Pod, g *cluster.Group) *plan {
	pl := &plan{
		p:        p,
		ctx:      ctx,
		gangs:    g.Unit(),
		enough:   g.GangsNeeded(),
		ours:     map[types.UID]bool{},
		priority: p.view.State().PriorityOf(pod),
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
	n := 0
	if !pl.tryFirst(0) {
		// The fewer targets are gone, the less room there is: search the shortest list of them that is enough.
		lowest, highest := 1, len(pl.candidates)
		if highest == 0 || !pl.tryFirst(highest) {
			return false
		}
		for lowest < highest {
			if middle := (lowest + highest) / 2; pl.tryFirst(middle) {
				highest = middle
			} else {
				lowest = middle + 1
			}
		}
		n = highest
	} else if len(pl.gone) == 0 {
		return false
	}
	if pl.shorten(n); pl.alike && !pl.fits() {
		pl.alike = false // a plugin minds where others are, whatever the members say
		pl.shorten(n)
	}
	slices.SortFunc(pl.victims, moreImportant)
	return len(pl.victims)+len(pl.gone) > 0
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
		pl.put(m.pod, m.node)
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
		if stay != nil && u.priority < pl.priority && !own {
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
	return len(pl.candidates)+len(pl.gone) > 0
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
	pl.alike = true
	var first *v1.Pod
	for _, g := range pl.gangs {
		for _, m := range pl.p.view.State().Placeable(g) {
			if first == nil {
				first = m.Object
			}
			pl.alike = pl.alike && !sociable(m.Object) && similar(first, m.Object)
		}
	}
	affine, err := pl.p.handle.SnapshotSharedLister().NodeInfos().HavePodsWithAffinityList()
	pl.alike = pl.alike && err == nil && len(affine) == 0
}

// sociable says whether it may matter to the pod where others are.
func sociable(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) ||
		len(pod.Spec.TopologySpreadConstraints) > 0 ||
		len(pod.Spec.ResourceClaims) > 0 ||
		slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
			local := v1.VolumeSource{EmptyDir: v.EmptyDir}
			return v.VolumeSource != local
		})
}

// similar compares pods that are not sociable.
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
	pl.placed = nil
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

// placeAll places as many members as are needed, one after the other, and says whether they all found a node.
func (pl *plan) placeAll() bool {
	satisfied := 0
	for i, g := range pl.gangs {
		if pl.placeGang(g) {
			satisfied++
		} else if satisfied+len(pl.gangs)-i-1 < pl.enough {
			return false
		}
	}
	return satisfied >= pl.enough
}

// placeGang places what g needs for its minimum, or nothing.
func (pl *plan) placeGang(g *cluster.Group) bool {
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
		if node := pl.search(m); node != "" {
			pl.put(m, node)
			needed--
		} else if pl.alike {
			break
		}
	}
	if needed <= 0 && !pl.p.view.State().WantsMoreThan(g, podsOf(pl.placed)) {
		return true
	}
	for len(pl.placed) > before {
		pl.lift(len(pl.placed) - 1)
	}
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

// search returns the node that the member would go to, "" for none.
func (pl *plan) search(m *cluster.Pod) string {
	return pl.r.Place(pl.ctx, unplaced(m)).Node
}

func (pl *plan) put(m *cluster.Pod, node string) {
	if pl.r.AddPod(m.InfoOn(node)) == nil {
		pl.placed = append(pl.placed, member{m, node})
	}
}

// lift takes the i-th of the placed members off its node.
func (pl *plan) lift(i int) {
	m := pl.placed[i]
	_ = pl.r.RemovePod(m.pod.InfoOn(m.node))
	pl.placed = slices.Delete(pl.placed, i, i+1)
}

// takeBack puts every target back that need not go, the most important first, until none is left that could stay.
func (pl *plan) takeBack() {
	for {
		kept := len(pl.victims)
		for _, u := range slices.Backward(slices.Clone(pl.victims)) {
			if pl.spare(u) {
				pl.victims = slices.DeleteFunc(pl.victims, func(v *target) bool { return v == u })
			}
		}
		if pl.alike || len(pl.victims) == kept {
			return
		}
	}
}

// spare puts the target back if the members still fit then.
func (pl *plan) spare(u *target) bool {
	if pl.alike {
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
	pl.revert(u, before)
	return false
}

func (pl *plan) liftAll() {
	for len(pl.placed) > 0 {
		pl.lift(len(pl.placed) - 1)
	}
}

// spareHere is spare for members that are alike: only those on the target's own nodes need another place, and if
// there is none for one of them, no other order of placing would have found one.
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
	var homeless []*cluster.Pod
	for _, m := range slices.Backward(moved) {
		if pl.r.Fits(pl.ctx, unplaced(m.pod), m.node) {
			pl.put(m.pod, m.node)
		} else {
			homeless = append(homeless, m.pod)
		}
	}
	for _, m := range homeless {
		node := pl.search(m)
		if node == "" {
			pl.revert(u, before)
			return false
		}
		pl.put(m, node)
	}
	return true
}

// revert takes the target out again and puts the members where they were.
func (pl *plan) revert(u *target, before []member) {
	pl.liftAll()
	pl.remove(u)
	for _, m := range before {
		pl.put(m.pod, m.node)
	}
}
