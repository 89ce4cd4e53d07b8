package preemption

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gangplan"
)

// A plan is a placement of a gang, or of the gangs that are admitted together, without some pods. plan_targets.go has
// the pods that may be evicted, plan_count.go counts how many of them must be, plan_place.go places the members, and
// plan_putback.go takes back pods that need not be evicted.

// maxReplacements bounds how often, in one cycle, all members are placed again to see whether a target could stay after
// all. Members that are alike and independent of other pods never need it. For others the victims may be more than
// needed once so many targets have been tried. If the nodes are chosen first, it bounds how often all members are
// checked again where they are. If that is not enough, the plan is made as for other gangs.
const maxReplacements = 256

func (pl *plan) costs() (c candidate) {
	for _, u := range pl.victims {
		c.violations += pl.counted[u]
		c.victims = append(c.victims, u.pods...)
	}
	return c
}

// plan is a placement of the members without the victims.
type plan struct {
	p     *Preemption
	ctx   context.Context
	gangs []*cluster.Group
	whole *cluster.Composite // that the gangs are admitted together as, nil for one gang
	limit []string           // the nodes that members may go to, nil for all; of these each gang may have its own
	ours  map[types.UID]bool
	by    framework.Preemptor

	candidates []*target // in the order in which they are taken: what costs least comes first
	gone       []*target // pods that are on their way out anyway, however important, and the gang's own among them
	counted    map[*target]int
	awaited    []string // the nodes where devices come free anyway, because pods that had them have ended

	nodesFirst   bool // see cluster.Group.ChoosesNodesFirst
	heeding      bool // members take notice of other pods
	alike        bool // all members are the same to every plugin, and take no notice of other pods
	replacements int
	searches     bool     // if the usual order of the members fails, another one is searched for
	searched     bool     // a search has placed the members; they keep these nodes
	uncounted    bool     // the plan is made without counting, to be compared
	wasCounted   bool     // how many have to go was counted
	focus        []string // the nodes on which alone a member fits, by a count, sorted; nil: it is not known

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
		p:     p,
		ctx:   ctx,
		gangs: g.Unit(),
		whole: g.Composite(),
		ours:  map[types.UID]bool{},
		by:    p.preemptor(pod),

		nodesFirst: g.ChoosesNodesFirst(),
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
	pl.p.planned.Plans++
	if !pl.findCandidates() {
		return false
	}
	pl.compareMembers()
	n, enough := 0, false
	if !pl.uncounted {
		n, enough, pl.wasCounted = pl.count()
	}
	if !pl.wasCounted {
		n, enough = pl.fewest()
	}
	if !enough || n == 0 && !pl.countsOnOthers() {
		return false
	}
	placed := pl.shorten(n)
	if (pl.alike || pl.inPlace() && !pl.heeding) && !(placed && pl.fits()) {
		pl.alike, pl.heeding, pl.focus = false, true, nil // a plugin minds where others are, whatever the members say
		placed = pl.shorten(n)
	}
	if pl.nodesFirst && pl.replacements > maxReplacements {
		pl.nodesFirst, pl.replacements = false, 0
		n, _ = pl.fewest()
		placed = pl.shorten(n)
	}
	if !placed || pl.searched && pl.replacements > maxReplacements {
		return false // more pods might be victims than have to go
	}
	slices.SortFunc(pl.victims, pl.p.moreImportant)
	return (len(pl.victims) > 0 || pl.countsOnOthers()) && BudgetOf(pl.ctx).Left() > 0 &&
		pl.p.accepts(pl.by, pl.victims)
}

// countsOnOthers reports whether room comes free without anybody's being asked to go. Devices that come free count only
// if a member that wants some was placed on their node.
func (pl *plan) countsOnOthers() bool {
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
	for !pl.nodesFirst && !pl.searched && lowest < highest {
		if middle := (lowest + highest) / 2; pl.tryFirst(middle) {
			highest = middle
		} else {
			lowest = middle + 1
		}
	}
	return highest, true
}

// shorten places the members without the first n candidates, and takes back candidates that need not go. It returns
// false if the members find no place.
func (pl *plan) shorten(n int) bool {
	pl.startRehearsal(n)
	defer pl.r.End()
	if !pl.placeAll() {
		return false
	}
	pl.takeBack()
	return true
}

// inPlace reports whether the members keep their nodes while targets are put back.
func (pl *plan) inPlace() bool { return pl.nodesFirst || pl.searched }

// fits reports whether the members fit where the plan has them, one after the other.
func (pl *plan) fits() bool {
	planned, victims, searched := pl.placed, pl.victims, pl.searched
	pl.startRehearsal(0)
	defer pl.r.End()
	pl.victims, pl.searched = victims, searched
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

// compareMembers settles whether the members are alike.
func (pl *plan) compareMembers() {
	pl.alike, pl.heeding = true, false
	var first *v1.Pod
	var claims string
	for _, g := range pl.gangs {
		for _, m := range pl.p.view.State().Gangs().Placeable(g) {
			own, shared := pl.p.claimsOf(m.Object)
			if first == nil {
				first, claims = m.Object, own
			}
			pl.heeding = pl.heeding || shared || gangplan.DependsOnOthers(m.Object)
			pl.alike = pl.alike && similar(first, m.Object) && own == claims
		}
	}
	affine, err := pl.p.handle.SnapshotSharedLister().NodeInfos().HavePodsWithAffinityList()
	pl.heeding = pl.heeding || err != nil || len(affine) > 0
	pl.alike = pl.alike && !pl.heeding
}

// claimsOf returns the requests of the pod's claims. shared means that devices used by other pods, even on other nodes,
// may decide where the pod fits.
func (p *Preemption) claimsOf(pod *v1.Pod) (specs string, shared bool) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return "", false
	}
	if !p.view.State().Devices().Freeable() {
		return "", true
	}
	own, ok := p.view.State().Devices().OwnClaims(nil, pod)
	return string(own), !ok
}

// similar compares pods. Its result has no meaning for pods that depend on others.
func similar(a, b *v1.Pod) bool {
	x, y := a.Spec, b.Spec
	x.Volumes, y.Volumes = nil, nil
	return equality.Semantic.DeepEqual(x, y)
}
