package scheduler

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
)

// cycle is one scheduling cycle: find a node, reserve, permit. It takes back all reservations of plugins before it
// ends. Only Apply of its Decision changes the state, and reserves again for the binding cycle (bindingCycles).
type cycle struct {
	m       *Machine
	profile *framework.Profile
	state   *framework.CycleState
	pod     *v1.Pod // as plugins see it
	trace   *framework.Trace
	d       eventlog.Decision
}

func newCycle(m *Machine, pod *v1.Pod, trace *framework.Trace) *cycle {
	c := &cycle{m: m, profile: m.profiles.of(pod), state: framework.NewCycleState(), trace: trace}
	c.d = m.decisionOn(m.cluster.Pods().Get(pod.UID))
	c.d.Nominated = m.nominated.nodeOf(pod.UID)
	c.pod = m.asNominated(pod)
	return c
}

func (c *cycle) run() eventlog.Decision {
	m, pod, waiting := c.m, c.pod, c.m.waits.pods
	if m.cluster.Pods().Get(pod.UID).Stage == cluster.Bound {
		return c.runResize()
	}
	m.profiles.forgetVolumes(c.profile)
	waiting.StartCycle()
	m.wanted.begin()
	m.recorded.hold()
	defer func() { m.recorded.release(c.d.Outcome == eventlog.Asked) }() // the cycle that follows records it again
	if placement := c.profile.Place(m.ctx, c.state, pod, m.at.start, c.trace); placement.Status != nil {
		c.refuse(placement)
	} else {
		c.admit(placement)
	}
	if c.d.Outcome == eventlog.Asked {
		waiting.EndCycle() // plugins repeat their calls in the cycle that follows
		m.wanted.end()
		return c.d
	}
	m.waits.takeVerdicts(&c.d)
	c.noteActivated()
	m.topology.note(&c.d, m.cluster.Pods().Get(pod.UID))
	if c.d.Node != "" {
		c.d.Nominated = "" // the decision does not change the nomination
		// Plugins take their reservations back, because only Apply changes the state. The gang plugin's Unreserve
		// rejects waiting pods: StartCycle and EndCycle drop that, because the pod keeps its node.
		waiting.StartCycle()
		m.recorded.muting(func() { c.profile.TakeBack(m.ctx, c.state, c.placed(c.d.Node), c.d.Node) })
		waiting.EndCycle()
		m.bindings.decided = c.d.Cycle
	}
	return c.d
}

// refuse fills in the decision on a pod for which no node was found.
func (c *cycle) refuse(placement framework.Placement) {
	c.d.Evaluated, c.d.Feasible = placement.Evaluated, placement.Feasible
	c.d.Rejections = withBlamed(placement)
	if !placement.Status.IsRejected() {
		c.d.Outcome = eventlog.Error
		c.giveUp()
		return
	}
	c.d.Outcome = eventlog.Unschedulable
	c.planGang(placement)
	result, status := c.postFilter(placement)
	consulted := preemption.Consulted(c.state)
	if consulted != nil && len(consulted.Ask) > 0 {
		c.ask(consulted.Ask)
		return
	}
	if result != nil && result.Mode() == fwk.ModeOverride {
		c.d.Nominated = result.NominatedNodeName
	}
	if consulted != nil && consulted.Refusal != nil {
		c.d.Rejections = addRejection(c.d.Rejections, consulted.Refusal)
	}
	proposed := c.propose()
	if proposed {
		c.d.Plan.Next = 0 // the gang waits for its victims
	}
	if proposed || c.d.Plan.Result == eventlog.PlanFound {
		c.giveUp()
	}
	c.d.Rejections = addRejection(c.d.Rejections, status)
}

// postFilter runs the PostFilter plugins. The status has the reasons of the plugins that could not help.
func (c *cycle) postFilter(placement framework.Placement) (*fwk.PostFilterResult, *fwk.Status) {
	framework.KeepTrace(c.state, c.trace)
	result, status := c.profile.PostFilter(c.m.ctx, c.state, c.pod, placement.Statuses, c.trace)
	if status.IsSuccess() {
		status = fwk.NewStatus(fwk.Unschedulable, status.Reasons()...).WithPlugin(status.Plugin())
	}
	return result, status
}

// giveUp tells the gang plugin that the pod was refused before Reserve.
func (c *cycle) giveUp() { c.profile.Refused(c.m.ctx, c.state, c.pod, "") }

// admit takes a pod with a node through Reserve and Permit.
func (c *cycle) admit(placement framework.Placement) {
	pod := c.placed(placement.Node)
	c.d.Evaluated, c.d.Feasible, c.d.Rejections = placement.Evaluated, placement.Feasible, placement.Rejections
	status := c.profile.Reserve(c.m.ctx, c.state, pod, placement.Node, c.trace)
	if status.IsSuccess() {
		status = c.noteDevices(pod)
	}
	if status.IsSuccess() {
		var waits []framework.Wait
		c.d.Volumes = c.m.profiles.volumesReserved(c.profile)
		status, waits = c.profile.Permit(c.m.ctx, c.state, pod, placement.Node, c.trace)
		if status.IsSuccess() || status.IsWait() {
			c.d.Outcome, c.d.Node, c.d.Score = eventlog.Scheduled, placement.Node, placement.Score
			if status.IsWait() {
				c.d.Outcome = eventlog.Waiting
				c.d.WaitFor, c.d.WaitUntil = c.waitOf(waits)
			}
			return
		}
	}
	c.profile.Unreserve(c.m.ctx, c.state, pod, placement.Node)
	c.d.Volumes, c.d.Devices = nil, nil
	c.d.Outcome = eventlog.Unschedulable
	if !status.IsRejected() {
		c.d.Outcome = eventlog.Error
	}
	c.d.Rejections = addRejection(c.d.Rejections, status)
}

// noteDevices writes into the decision which devices DynamicResources has reserved for the pod.
func (c *cycle) noteDevices(pod *v1.Pod) *fwk.Status {
	all := c.m.cluster.Devices()
	if len(pod.Spec.ResourceClaims) == 0 && !all.RequestsExtended(pod) {
		return nil
	}
	reserved, err := all.Reserved(pod, c.d.Cycle)
	why := all.FullClaim(pod)
	if err != nil {
		why = err.Error()
	}
	if why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why).WithPlugin(names.DynamicResources)
	}
	c.d.Devices = reserved
	return nil
}

func (c *cycle) waitOf(waits []framework.Wait) (plugins []string, until eventlog.Time) {
	for _, w := range waits {
		plugins = append(plugins, w.Plugin)
		if t := c.m.at.now.Add(w.Timeout); until == 0 || t < until {
			until = t
		}
	}
	return plugins, until
}

// propose writes into the decision what a PostFilter plugin proposed: the victims that are not leaving already, and the
// nominations of other pods. It reports whether one did: then the gang's waiting members are to be released, because
// its attempt ends.
func (c *cycle) propose() bool {
	proposal := preemption.Proposed(c.state)
	if proposal == nil {
		return false
	}
	for _, uid := range proposal.Victims {
		p := c.m.cluster.Pods().Get(uid)
		if p != nil && p.Object.DeletionTimestamp == nil && !c.m.effects.has(uid, Evict) {
			c.d.Victims = append(c.d.Victims, uid)
		}
	}
	for _, n := range proposal.Nominations {
		c.d.Nominations = append(c.d.Nominations, eventlog.Nomination(n))
	}
	return true
}

// placed returns the pod as plugins see it from Reserve on.
func (c *cycle) placed(node string) *v1.Pod {
	if c.m.bindings.of(c.pod) == nil {
		return c.pod
	}
	return onNode(c.pod, node)
}

// asNominated returns the pod as plugins see it: with the nomination of the state instead of the object's. If the
// nominated node is outside the domain of the pod's gang, plugins see no nomination.
func (m *Machine) asNominated(pod *v1.Pod) *v1.Pod {
	node := m.nominated.nodeOf(pod.UID)
	if g := m.cluster.Gangs().OfPod(pod); node != "" && g != nil && g.HasTopology() {
		if d, why := m.topology.domainOf(g); why != "" || d != nil && !d.nodes[node] {
			node = ""
		}
	}
	if pod.Status.NominatedNodeName == node {
		return pod
	}
	as := *pod
	as.Status.NominatedNodeName = node
	return &as
}

// withBlamed returns the placement's rejections with a row for each plugin whose events ask for a retry, also for one
// that refused no node but left nodes out in PreFilter.
func withBlamed(placement framework.Placement) []eventlog.Rejection {
	out := placement.Rejections
	for _, plugin := range placement.Plugins {
		if !slices.ContainsFunc(out, func(r eventlog.Rejection) bool { return r.Plugin == plugin }) {
			out = append(out, eventlog.Rejection{Plugin: plugin, Code: fwk.UnschedulableAndUnresolvable.String()})
		}
	}
	return sortRejections(out)
}

// addRejection adds a plugin's status about the pod as a whole.
func addRejection(rejections []eventlog.Rejection, status *fwk.Status) []eventlog.Rejection {
	if status.IsRejected() && status.Message() == "" {
		return rejections
	}
	return sortRejections(slices.Concat(rejections, framework.Rejections(status)))
}

// sortRejections sorts by plugin, code, reason.
func sortRejections(rejections []eventlog.Rejection) []eventlog.Rejection {
	slices.SortFunc(rejections, func(a, b eventlog.Rejection) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason))
	})
	return rejections
}
