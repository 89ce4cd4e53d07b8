package scheduler

import (
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

// gangPlans searches for plans in the state of a Machine.
type gangPlans struct{ *Machine }

// planGang searches for nodes for all members of the pod's gang if its refusal ends the attempt on the gang. It writes
// the result into the decision. If there is a placement, it nominates the members to their nodes, and nobody is
// preempted.
func (c *cycle) planGang(placement framework.Placement) {
	p := c.m.cluster.Pods().Get(c.pod.UID)
	pods := gangPlans{c.m}.members(p, placement)
	if len(pods) < 2 || !gangplan.Searchable(pods, c.m.cluster.Devices().RequestsExtended) {
		return
	}
	members := gangplan.NewMembers(pods, c.m.cluster.NodeInfos())
	if !members.Unequal() {
		return
	}
	places, plan := gangPlans{c.m}.search(c.profile, p.Group, members)
	defer func() { c.d.Plan = plan }()
	if plan.Result != eventlog.PlanFound {
		return
	}
	preemption.LeaveOut(c.state)
	c.d.Nominated = ""
	planned := map[types.UID]bool{}
	for _, each := range places {
		uid := each.Pod.Object.UID
		plan.Order = append(plan.Order, uid)
		planned[uid] = true
		if uid == c.pod.UID {
			c.d.Nominated = each.Node
		} else {
			c.d.Nominations = append(c.d.Nominations, eventlog.Nomination{UID: uid, Node: each.Node})
		}
	}
	for _, m := range p.Group.Members() {
		if uid := m.Object.UID; !planned[uid] && uid != c.pod.UID && c.m.nominated.nodeOf(uid) != "" {
			c.d.Nominations = append(c.d.Nominations, eventlog.Nomination{UID: uid})
		}
	}
}

// members returns the members of the pod's gang that are to be placed, if the pod's refusal ends the attempt on
// the gang; nil otherwise. Gangs that are admitted with others are not planned, nor are gangs whose profile does not
// filter by resources.
func (m gangPlans) members(p *cluster.Pod, placement framework.Placement) []*cluster.Pod {
	g := p.Group
	if g == nil || m.entities.keyOf(p).Type != fwk.PodGroupKeyType || g.Composite() != nil || len(g.Unit()) != 1 ||
		g.NonStrict() || !g.Declared() || !m.profiles.roomChecked[p.Object.Spec.SchedulerName] {
		return nil
	}
	if placement.Statuses.Get("").Plugin() == coscheduling.Name {
		return nil
	}
	e := m.queue.Find(p.Object.UID)
	if e == nil || queue.PlannedAttempts(e) >= maxPlans {
		return nil
	}
	u := m.waits.tally(g)
	if u.OwnSuffices(gang.Free) {
		return nil
	}
	if u.OwnGang().Fail(); u.OwnSuffices(gang.Possible) {
		return nil // the attempt continues with the members that are left
	}
	return m.cluster.Gangs().Placeable(g)
}

// search searches for nodes for members of a gang, in a rehearsal in which waiting members have left their nodes.
func (m gangPlans) search(
	profile *framework.Profile,
	g *cluster.Group,
	members *gangplan.Members,
) ([]gangplan.Place, eventlog.Plan) {
	m.guard.check("a plan for a gang")
	ours := map[types.UID]bool{}
	for _, each := range g.Members() {
		ours[each.Object.UID] = true
	}
	r := profile.Handle().Rehearse(coscheduling.Name, ours)
	defer r.End()
	if g.HasTopology() {
		d, why := m.topology.domainOf(g)
		if limit := m.topology.limitTo(d, why); limit.Limited {
			r.Limit(limit.Nodes)
		}
	}
	for _, each := range g.Members() {
		if each.Stage == cluster.Waiting {
			_ = r.RemovePod(each.Info()) // on a node that is gone it holds nothing
		}
	}
	counted := g.Gang()
	s := &gangplan.Search{Rehearsal: r, Needed: min(members.Len(), max(1, counted.LackingAnew()))}
	s.Accepts = func(placed []gangplan.Place) bool {
		var pods []*cluster.Pod
		for _, each := range placed {
			pods = append(pods, each.Pod)
		}
		return !m.cluster.WantsMoreThan(g, pods)
	}
	places, result, steps := s.Find(m.ctx, members)
	return places, eventlog.Plan{Result: result, Steps: steps}
}
