package scheduler

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/internal/gangplan"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
	"github.com/rollcall-sched/rollcall/queue"
)

// maxPlans is the number of attempts in a row that may begin with a plan. A plan may fail because another pod took a
// node, or because of something that a rehearsal does not know. After so many the gang waits for an event.
const maxPlans = 3

// maxSearches is the number of searches for a plan, one in each attempt, before a gang waits for an event. If the first
// one reached its limit, the others look elsewhere.
const maxSearches = 4

// gangPlans searches for plans in the state of a Machine.
type gangPlans struct{ *Machine }

// planGang searches for nodes for all members of the pod's unit if its refusal ends the attempt on it. It writes the
// result into the decision. If there is a placement, it nominates the members to their nodes, and nobody is preempted.
func (c *cycle) planGang(placement framework.Placement) {
	m, p := gangPlans{c.m}, c.m.cluster.Pods().Get(c.pod.UID)
	whole := placement.Statuses.Get("").Plugin() == coscheduling.Name
	if !m.plannable(p) || !m.endsAttempt(p.Group, whole) {
		return
	}
	u := gangplan.NewUnit(c.m.cluster, p.Group)
	if whole && len(u.Returning()) == 0 && m.lacks(p.Group) {
		return
	}
	members := m.members(u)
	if members == nil || u.NonStrict() {
		return
	}
	places, plan := m.search(c.profile, p.Group, members, gangplan.Search{
		Refused: p, Left: m.left(u), Number: queue.NextSearch(m.queue.Find(c.pod.UID)),
	})
	if plan.Result == eventlog.PlanFound {
		preemption.LeaveOut(c.state)
		c.d.Nominated = ""
		m.nominate(&c.d, p, places)
		plan.Order = orderOf(places)
	}
	if plan.Result == eventlog.PlanNone && hasDomains(p.Group) && len(p.Group.Unit()) > 1 {
		return // its Decisions have no None: nothing depends on it
	}
	c.d.Plan = plan
}

// decideBefore decides to begin the attempt on an entity with a plan for all its members, if its minimum leaves some
// out. The order of the names might place the minimum where no other member fits beside it. There is no plan if that
// order places all members, or if the search finds no place for all of them. An attempt that has a plan gets no second
// one. Gangs of the mode NonStrict keep the nodes that they find, so they get a plan for the minimum as well.
func (m gangPlans) decideBefore(e *queue.Entity, pod *cluster.Pod) (d eventlog.Decision, ok bool) {
	if e.State() == queue.InFlight || queue.Planned(m.queue, pod.Object.UID) || !m.plannable(pod) {
		return d, false
	}
	u := gangplan.NewUnit(m.cluster, pod.Group)
	if len(u.Pods) < 2 || !u.Elastic() || m.lacks(pod.Group) {
		return d, false
	}
	members := m.members(u)
	if members == nil {
		return d, false
	}
	profile := m.profiles.of(pod.Object)
	refused, few := u.Pods[0], true
	if all := m.boundsOf(pod.Group, u); len(all) > 0 {
		refused, few = m.rehearse(profile, pod.Group, u, all[0].limit)
	}
	if refused == nil {
		return d, false
	}
	places, plan := m.search(profile, pod.Group, members, gangplan.Search{All: true})
	if plan.Result != eventlog.PlanFound && few && u.NonStrict() {
		places, plan = m.search(profile, pod.Group, members, gangplan.Search{})
	}
	if plan.Result != eventlog.PlanFound {
		return d, false
	}
	d = m.decisionOn(pod)
	d.Outcome = eventlog.Unschedulable
	d.Rejections = addRejection(nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf(
		"in the order of the names pod %s finds no node; another order places %d of %d members",
		refused.Object.Name, len(places), len(u.Pods))).WithPlugin(coscheduling.Name))
	m.nominate(&d, pod, places)
	plan.Order = orderOf(places)
	d.Plan = plan
	m.topology.note(&d, pod)
	return d, true
}

// plannable reports whether attempts on the pod's unit may begin with a plan. Gangs whose profile does not filter by
// resources get none.
func (m gangPlans) plannable(p *cluster.Pod) bool {
	g := p.Group
	if g == nil || m.entities.keyOf(p).Type == fwk.PodKeyType || !g.Declared() ||
		!m.profiles.roomChecked[p.Object.Spec.SchedulerName] {
		return false
	}
	unit := g.Unit()
	if len(unit) > 1 && slices.ContainsFunc(unit, func(each *cluster.Group) bool { return !each.Declared() }) {
		return false
	}
	e := m.queue.Find(p.Object.UID)
	return e != nil && queue.PlannedAttempts(e) < maxPlans
}

// endsAttempt reports whether the refusal of the member whose cycle is running ends the attempt on its unit. whole says
// that its gang is refused as a whole.
func (m gangPlans) endsAttempt(g *cluster.Group, whole bool) bool {
	u := m.waits.tally(g)
	if u.OwnSuffices(gang.Free) {
		return false
	}
	u.OwnGang().Fail()
	return (whole || !u.OwnSuffices(gang.Possible)) && u.EndsAttempt()
}

// lacks reports whether the cluster as a whole has too little free for the minimum.
func (m gangPlans) lacks(g *cluster.Group) bool {
	if c := g.Composite(); c != nil {
		_, lacks := m.cluster.LacksTogether(c)
		return lacks
	}
	_, lacks := m.cluster.Lacks(g)
	return lacks
}

// members returns the members of a unit by kind, nil if a search would find nothing that the usual order does not.
func (m gangPlans) members(u *gangplan.Unit) *gangplan.Members {
	if len(u.Pods) < 2 || !u.Searchable() {
		return nil
	}
	members := gangplan.NewMembers(u)
	// A domain is chosen for the minimum. Another one may have room for all members, also if they are equal.
	if g := u.Pods[0].Group; !members.Unequal() && !hasDomains(g) && !(u.Elastic() && g.HasTopology()) {
		return nil
	}
	return members
}

// limits returns the lists of nodes to which a search for a place for all members may be limited, nil for all nodes.
// The first is the domain that the usual order would try. Members that keep their nodes leave no choice.
func (m gangPlans) limits(g *cluster.Group, u *gangplan.Unit) (limits [][]string) {
	if !g.HasTopology() {
		return [][]string{nil}
	}
	first := ""
	if d, why := m.topology.domainOf(g); why == "" {
		limits = append(limits, m.topology.limitTo(d, why).Nodes)
		if d != nil {
			first = d.key()
		}
	}
	required, preferred := g.Topology()
	if u.KeepsNodes() && len(required) > 0 {
		return limits
	}
	labels := [][]string{required}
	if len(required) == 0 {
		labels = nil
		for i := range preferred {
			labels = append(labels, preferred[i:i+1])
		}
	}
	for _, each := range labels {
		for _, d := range m.topology.domainsBy(each) {
			if d.key() != first && !u.KeepsNodes() {
				limits = append(limits, d.names)
			}
		}
	}
	if len(required) == 0 && first != "" {
		limits = append(limits, nil)
	}
	return limits
}

// begin begins a rehearsal in which the members of a unit that give their nodes back have done so.
func (m gangPlans) begin(profile *framework.Profile, g *cluster.Group, u *gangplan.Unit) *framework.Rehearsal {
	m.guard.check("a plan for a gang")
	ours := map[types.UID]bool{}
	for _, each := range g.Unit() {
		for _, p := range each.Members() {
			ours[p.Object.UID] = true
		}
	}
	r := profile.Handle().Rehearse(coscheduling.Name, ours)
	for _, p := range u.Returning() {
		_ = r.RemovePod(p.Info()) // on a node that is gone it holds nothing
	}
	return r
}

// left returns the nodes that the members of a unit leave, or to which their nominations end.
func (m gangPlans) left(u *gangplan.Unit) (nodes []string) {
	for _, p := range u.Pods {
		if node := m.nominated.nodeOf(p.Object.UID); node != "" {
			nodes = append(nodes, node)
		}
		if p.Stage == cluster.Waiting {
			nodes = append(nodes, p.Node)
		}
	}
	return nodes
}

// search searches for nodes for members of a unit, in one domain after the other. It finds None only if no domain has a
// placement.
func (m gangPlans) search(
	profile *framework.Profile,
	g *cluster.Group,
	members *gangplan.Members,
	s gangplan.Search,
) (places []gangplan.Place, plan eventlog.Plan) {
	u := members.Unit()
	all := m.boundsOf(g, u)
	r := m.begin(profile, g, u)
	defer r.End()
	ctx, spent := preemption.WithBudget(m.ctx), int64(0)
	for _, b := range all {
		r.Limit(b.limit)
		each := s
		each.Rehearsal, each.Domains, each.Spent = r, b.domains, spent
		if b.limit != nil || hasDomains(g) {
			each.Refused = nil // it may have been refused in another domain
		}
		places, result, steps := each.Find(ctx, members)
		plan.Steps, spent = plan.Steps+steps, each.Spent
		if each.Limited() && s.Number+1 < maxSearches {
			plan.Next = s.Number + 1
		}
		switch {
		case result == eventlog.PlanFound:
			plan.Result, plan.Next = result, 0
			return places, plan
		case result == eventlog.PlanUnknown || plan.Result == 0:
			plan.Result = result
		}
	}
	return nil, plan
}

// nominate nominates the members of a plan to their nodes, and takes the nominations of the others.
func (m gangPlans) nominate(d *eventlog.Decision, pod *cluster.Pod, places []gangplan.Place) {
	own := pod.Object.UID
	planned := map[types.UID]bool{}
	for _, each := range places {
		uid := each.Pod.Object.UID
		planned[uid] = true
		if uid == own {
			d.Nominated = each.Node
		} else {
			d.Nominations = append(d.Nominations, eventlog.Nomination{UID: uid, Node: each.Node})
		}
	}
	for _, g := range pod.Group.Unit() {
		for _, p := range g.Members() {
			if uid := p.Object.UID; !planned[uid] && uid != own && m.nominated.nodeOf(uid) != "" {
				d.Nominations = append(d.Nominations, eventlog.Nomination{UID: uid})
			}
		}
	}
}

func orderOf(places []gangplan.Place) (order []types.UID) {
	for _, each := range places {
		order = append(order, each.Pod.Object.UID)
	}
	return order
}
