package scheduler

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
	"github.com/rollcall-sched/rollcall/queue"
)

// applyDecision applies a recorded decision. The decision is a fact: no plugin is asked, and nothing is searched for,
// so that another version of the plugins or of a search recovers the same state.
func (m *Machine) applyDecision(seq uint64, d *eventlog.Decision) error {
	p := m.cluster.Pods().Get(d.UID)
	if p == nil {
		return fmt.Errorf("decision on pod %s/%s (%s): %w", d.Namespace, d.Name, d.UID, errUnknownPod)
	}
	if d.Cycle != m.at.cycle+1 {
		return fmt.Errorf("decision of cycle %d: the cycle before it is %d", d.Cycle, m.at.cycle)
	}
	if d.Evaluated < 0 {
		return fmt.Errorf("decision of cycle %d: %d nodes evaluated", d.Cycle, d.Evaluated)
	}
	m.at.cycle = d.Cycle
	if nodes, _ := m.cluster.Nodes().List(); len(nodes) > 0 {
		m.at.start = (m.at.start + int(d.Evaluated%int64(len(nodes)))) % len(nodes)
	}
	switch d.Outcome {
	case eventlog.Evicted:
		err := m.applyVerdicts(seq, d)
		m.entities.recheckGroup(p) // a pod that comes now is not one of theirs
		return err
	case eventlog.Reserved:
		return m.applyReserved(p, d)
	case eventlog.Asked:
		return m.applyAsked(seq, p, d)
	}
	if p.Stage == cluster.Bound {
		return m.applyResize(seq, p, d)
	}
	return m.applyCycle(seq, p, d)
}

// applyCycle applies the outcome of a pod's scheduling cycle, or of the end of its wait.
func (m *Machine) applyCycle(seq uint64, p *cluster.Pod, d *eventlog.Decision) error {
	key, waited := m.entities.keyOf(p), p.Stage == cluster.Waiting
	g := p.Group
	limited := g != nil && key.Type == fwk.PodGroupKeyType && !waited && g.HasTopology() && g.Placed() == 0
	if !waited {
		m.queue.StartAttempt(key) // a decision on a waiting pod ends its wait, and is no attempt
	}
	freed, err := m.applyRejected(key, d)
	if err != nil {
		return err
	}
	if err := m.applyVerdicts(seq, d); err != nil {
		return err
	}
	m.forgetQuestion(d.UID) // an answer is for one cycle
	if err := m.applyOutcome(seq, key, waited, p, d); err != nil {
		return err
	}
	m.nominated.apply(key, d)
	m.giveBackClaims(seq, key, p, d)
	// The queue learns of the freed room last, so that an entity that this decision refused is retried for it too.
	for _, pod := range freed {
		m.queue.Move(upstream.EventAssignedPodDelete, pod, nil)
	}
	m.activate(d)
	switch d.Plan.Result {
	case 0:
	case eventlog.PlanFound:
		m.queue.Plan(key, d.Plan.Order)
	default:
		queue.NoteSearch(m.queue, key, d.Plan.Next)
	}
	if limited {
		m.topology.judge(key, g, d)
	}
	m.retryOvertaking(key)
	return nil
}

// applyOutcome applies a decision's outcome to its own pod; waited says that the pod was waiting before.
func (m *Machine) applyOutcome(seq uint64, key queue.Key, waited bool, p *cluster.Pod, d *eventlog.Decision) error {
	switch d.Outcome {
	case eventlog.Waiting:
		return m.waits.hold(seq, key, p, d)
	case eventlog.Scheduled:
		if !waited {
			return m.bindPod(seq, key, p, d)
		}
		m.waits.allow(seq, p)
		m.waits.conclude(key)
		return nil
	case eventlog.Unschedulable, eventlog.Error:
		m.applyFailure(key, waited, d)
		return nil
	}
	return fmt.Errorf("decision of cycle %d: unknown outcome %d", d.Cycle, d.Outcome)
}

// applyFailure applies a decision that gave the pod no node, or took the node from it where it waited. If that ends the
// attempt, or another one begins with a plan, the entity is parked with the reasons. Otherwise only the member is
// refused, and the attempt continues with the next one. Example: of a gang with minimum 3 and 5 members the second
// finds no node. Four can still be placed, so the attempt continues. It ends when a third member finds none.
func (m *Machine) applyFailure(key queue.Key, waited bool, d *eventlog.Decision) {
	if waited && key.Type != fwk.PodKeyType && blamesGang(d) {
		m.queue.Retry(key) // the attempt was broken off: another one may succeed without any event
	}
	if triesAgain(d) {
		m.queue.Retry(key) // they are asked about the nodes next time
	}
	if d.Plan.Next > 0 {
		m.queue.Retry(key) // the next attempt searches elsewhere
	}
	if waited || d.Plan.Result == eventlog.PlanFound || m.waits.endsAttempt(key, d) {
		m.queue.Park(key, m.failureOf(d))
		return
	}
	m.queue.Refuse(key, m.failureOf(d))
	m.waits.conclude(key)
}

// applyRejected takes the waiting pods that the cycle rejected off their nodes. It returns the pods that an earlier
// attempt had placed, as they were on their nodes: their room came free for others (see queue.MarkPending).
func (m *Machine) applyRejected(key queue.Key, d *eventlog.Decision) (freed []*v1.Pod, err error) {
	var others []queue.Key
	for _, uid := range d.Rejected {
		other, pod, err := m.waits.release(uid)
		if err != nil {
			return nil, err
		}
		if pod != nil {
			freed = append(freed, pod)
		}
		if other != key && !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	failure := m.failureOf(d)
	failure.KeptOff = false // it is the cycle's own entity that was refused nodes
	for _, other := range others {
		m.queue.Park(other, failure)
	}
	return freed, nil
}

// applyVerdicts carries out the cycle's decisions about waiting pods and victims.
func (m *Machine) applyVerdicts(seq uint64, d *eventlog.Decision) error {
	for _, a := range d.Approvals {
		m.cluster.Approve(a.UID, a.Plugin)
	}
	for _, uid := range d.Allowed {
		p := m.cluster.Pods().Get(uid)
		if p == nil || p.Stage != cluster.Waiting {
			return fmt.Errorf("allowed pod %s is not waiting", uid)
		}
		m.waits.allow(seq, p)
	}
	m.noteVictims(seq, d)
	for _, uid := range d.Victims {
		if p := m.cluster.Pods().Get(uid); p != nil {
			m.effects.add(
				Effect{
					Kind:      Evict,
					Seq:       seq,
					Namespace: p.Object.Namespace,
					Name:      p.Object.Name,
					UID:       uid,
					Node:      p.Node,
				},
			)
			m.cluster.Evicting(p)
			m.entities.followResize(p, nil)
		}
	}
	return nil
}

func (m *Machine) bindPod(seq uint64, key queue.Key, p *cluster.Pod, d *eventlog.Decision) error {
	m.bindings.begin(p, d.Node)
	if err := m.cluster.Assume(p, d.Node, cluster.Binding, d.Volumes); err != nil {
		return err
	}
	if err := m.cluster.AssumeDevices(p, d.Devices); err != nil {
		return err
	}
	p.Since = m.at.now
	m.effects.add(
		Effect{
			Kind:      Bind,
			Seq:       seq,
			Namespace: d.Namespace,
			Name:      d.Name,
			UID:       d.UID,
			Node:      d.Node,
			Volumes:   d.Volumes,
		},
	)
	m.queue.MarkPlaced(key, d.UID)
	m.waits.conclude(key)
	return nil
}

// blamesGang reports whether the gang plugin refused the pod as a whole, not only some nodes for it.
func blamesGang(d *eventlog.Decision) bool {
	return slices.ContainsFunc(
		d.Rejections,
		func(r eventlog.Rejection) bool { return r.Plugin == coscheduling.Name && r.Nodes == 0 },
	)
}

// failureOf returns the failure for the queue after a decision that placed nothing: the plugins whose events ask for a
// retry. If some nodes were feasible and the pod was refused later (in Reserve or Permit), these are the plugins that
// refused it then, and not the plugins that filtered other nodes out. Preemption is never among them: it refused
// nothing.
func (m *Machine) failureOf(d *eventlog.Decision) queue.Failure {
	f := queue.Failure{UID: d.UID, Error: d.Outcome == eventlog.Error}
	for _, r := range d.Rejections {
		if r.Plugin == coscheduling.Name && r.Nodes > 0 && backfill.IsKeptAlone(r.Reason) {
			f.KeptOff = true
		}
		if r.Plugin == "" || r.Plugin == preemption.Name || d.Feasible > 0 && r.Nodes > 0 {
			continue
		}
		switch {
		case r.Code == "Pending" && !slices.Contains(f.PendingPlugins, r.Plugin):
			f.PendingPlugins = append(f.PendingPlugins, r.Plugin)
		case r.Code != "Pending" && !slices.Contains(f.Plugins, r.Plugin):
			f.Plugins = append(f.Plugins, r.Plugin)
		}
	}
	return f
}

// errorFailure is a failure that no event can undo: the pod is tried again after its backoff.
func errorFailure() queue.Failure { return queue.Failure{Error: true} }
