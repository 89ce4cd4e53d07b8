package scheduler

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

// Decide runs the next scheduling cycle and returns what it decided; ok is false if there is nothing to do
// before the next input or before Wake. It changes nothing that Hash sees: asked again, it returns the same
// bytes. A non-nil trace collects how the cycle went.
func (m *Machine) Decide(trace *framework.Trace) (d eventlog.Decision, ok bool) {
	if m.queue == nil {
		return eventlog.Decision{}, false
	}
	if !invariants {
		return m.decide(trace)
	}
	return m.decideChecked(trace)
}

func (m *Machine) decide(trace *framework.Trace) (eventlog.Decision, bool) {
	if wait, why := m.brokenWait(); wait != nil {
		return m.rejectWait(wait, why), true
	}
	if wait := m.overdueWait(); wait != nil {
		return m.endWait(wait), true
	}
	if d, ok := m.evictFallen(); ok {
		return d, true
	}
	if d, ok := m.decideReservation(); ok {
		return d, true
	}
	e := m.queue.Head()
	if e == nil {
		return eventlog.Decision{}, false
	}
	next := e.Next()
	if next == nil {
		return eventlog.Decision{}, false
	}
	return m.runCycle(next, trace), true
}

// runCycle is one scheduling cycle: find a node, reserve, permit. Whatever plugins reserved is taken back
// before it returns; Apply of the decision is what settles it.
func (m *Machine) runCycle(pod *v1.Pod, trace *framework.Trace) eventlog.Decision {
	p := m.cluster.Pod(pod.UID)
	prof := m.profileOf(pod)
	pod = m.withNomination(pod)
	state := framework.NewCycleState()
	d := m.decisionOn(p)
	d.Nominated = m.NominatedNode(pod.UID)

	m.forgetVolumes(prof)
	m.waiting.BeginCycle()
	if why := m.cluster.Informers().Undecidable(pod); why != "" {
		d.Outcome = eventlog.Unschedulable
		d.Rejections = []eventlog.Rejection{{Plugin: names.DynamicResources, Code: fwk.UnschedulableAndUnresolvable.String(), Reason: why}}
		prof.Unreserve(m.ctx, state, pod, "") // its gang's held members cannot go on without it
	} else if placement := prof.Place(m.ctx, state, pod, m.start, trace); placement.Status != nil {
		m.refuse(&d, prof, state, pod, placement, trace)
	} else {
		m.admit(&d, prof, state, pod, placement, trace)
	}
	m.takeVerdicts(&d)
	m.keepTogether(&d, p)
	if d.Node != "" {
		d.Nominated = "" // which stays as it is
		// The pod keeps its place, and yet Reserve is taken back: Apply settles what was decided. What
		// Unreserve says of waiting pods on that way is not meant.
		m.waiting.BeginCycle()
		prof.TakeBack(m.ctx, state, pod, d.Node)
		m.waiting.EndCycle()
	}
	return d
}

func (m *Machine) decisionOn(p *cluster.Pod) eventlog.Decision {
	d := eventlog.Decision{Cycle: m.cycle + 1, Namespace: p.Object.Namespace, Name: p.Object.Name, UID: p.Object.UID}
	if m.keyOf(p).Type != fwk.PodKeyType {
		d.Group = p.Group.Name
	}
	return d
}

// takeVerdicts ends the cycle and writes down what plugins said of waiting pods. That a pod is allowed says
// that every plugin approved, so that only the approvals of those that still wait are written beside it.
func (m *Machine) takeVerdicts(d *eventlog.Decision) {
	v := m.waiting.EndCycle()
	d.Allowed, d.Rejected = v.Allowed, v.Rejected
	if len(v.Approvals) == len(v.Allowed) {
		return
	}
	settled := make(map[types.UID]bool, len(v.Allowed)+len(v.Rejected))
	for _, uid := range slices.Concat(v.Allowed, v.Rejected) {
		settled[uid] = true
	}
	for _, a := range v.Approvals {
		if !settled[a.UID] {
			d.Approvals = append(d.Approvals, a)
		}
	}
}

// refuse fills in the decision on a pod for which no node was found.
func (m *Machine) refuse(d *eventlog.Decision, prof *framework.Profile, state fwk.CycleState, pod *v1.Pod, placement framework.Placement, trace *framework.Trace) {
	d.Evaluated, d.Feasible = placement.Evaluated, placement.Feasible
	d.Rejections = withBlamed(placement)
	if !placement.Status.IsRejected() {
		d.Outcome = eventlog.Error
		prof.Unreserve(m.ctx, state, pod, "")
		return
	}
	d.Outcome = eventlog.Unschedulable
	result, status := prof.PostFilter(m.ctx, state, pod, placement.Statuses, trace)
	if result != nil && result.Mode() == fwk.ModeOverride {
		d.Nominated = result.NominatedNodeName
	}
	m.propose(d, prof, state, pod)
	if status.IsSuccess() { // the reasons are those of plugins that could not help
		status = fwk.NewStatus(fwk.Unschedulable, status.Reasons()...).WithPlugin(status.Plugin())
	}
	d.Rejections = addRejection(d.Rejections, status)
}

// withBlamed returns the placement's rejections with a row for every plugin that an event must change the
// mind of, also for one that only narrowed the nodes down in PreFilter.
func withBlamed(placement framework.Placement) []eventlog.Rejection {
	out := placement.Rejections
	for _, plugin := range placement.Plugins {
		if !slices.ContainsFunc(out, func(r eventlog.Rejection) bool { return r.Plugin == plugin }) {
			out = append(out, eventlog.Rejection{Plugin: plugin, Code: fwk.UnschedulableAndUnresolvable.String()})
		}
	}
	return sortRejections(out)
}

// admit takes a pod with a node through Reserve and Permit.
func (m *Machine) admit(d *eventlog.Decision, prof *framework.Profile, state fwk.CycleState, pod *v1.Pod, placement framework.Placement, trace *framework.Trace) {
	d.Evaluated, d.Feasible, d.Rejections = placement.Evaluated, placement.Feasible, placement.Rejections
	status := prof.Reserve(m.ctx, state, pod, placement.Node, trace)
	if status.IsSuccess() {
		var waits []framework.Wait
		d.Volumes = m.volumesReserved(prof)
		status, waits = prof.Permit(m.ctx, state, pod, placement.Node, trace)
		if status.IsSuccess() || status.IsWait() {
			d.Outcome, d.Node, d.Score = eventlog.Scheduled, placement.Node, placement.Score
			if status.IsWait() {
				d.Outcome = eventlog.Waiting
				d.WaitFor, d.WaitUntil = m.waitOf(waits)
			}
			return
		}
	}
	m.retractGang(m.cluster.Pod(pod.UID))
	prof.Unreserve(m.ctx, state, pod, placement.Node)
	d.Volumes = nil
	d.Outcome = eventlog.Unschedulable
	if !status.IsRejected() {
		d.Outcome = eventlog.Error
	}
	d.Rejections = addRejection(d.Rejections, status)
}

func (m *Machine) waitOf(waits []framework.Wait) (plugins []string, until eventlog.Time) {
	for _, w := range waits {
		plugins = append(plugins, w.Plugin)
		if t := m.now.Add(w.Timeout); until == 0 || t < until {
			until = t
		}
	}
	return plugins, until
}

// addRejection adds what a plugin said of the pod as a whole.
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
