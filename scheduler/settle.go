package scheduler

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/gang"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
	"github.com/rollcall-sched/rollcall/queue"
)

// applyDecision makes a recorded decision the state. It asks no plugin whether it agrees.
func (m *Machine) applyDecision(seq uint64, d *eventlog.Decision) (err error) {
	p := m.cluster.Pod(d.UID)
	if p == nil {
		return fmt.Errorf("decision on pod %s/%s (%s): %w", d.Namespace, d.Name, d.UID, errUnknownPod)
	}
	if d.Cycle != m.cycle+1 {
		return fmt.Errorf("decision of cycle %d: the cycle before it is %d", d.Cycle, m.cycle)
	}
	if d.Evaluated < 0 {
		return fmt.Errorf("decision of cycle %d: %d nodes evaluated", d.Cycle, d.Evaluated)
	}
	m.cycle = d.Cycle
	if nodes, _ := m.cluster.List(); len(nodes) > 0 {
		m.start = (m.start + int(d.Evaluated%int64(len(nodes)))) % len(nodes)
	}
	switch d.Outcome {
	case eventlog.Evicted:
		err := m.applyVerdicts(seq, d)
		m.recheckGroup(p) // who comes now is not one of theirs
		return err
	case eventlog.Reserved:
		return m.applyReserved(p, d)
	}
	key, waited := m.keyOf(p), p.Stage == cluster.Waiting
	if g := p.Group; g != nil && key.Type == fwk.PodGroupKeyType && !waited && g.HasTopology() && g.Placed() == 0 {
		tried, _ := m.topology.domainOf(g, false)
		defer func() {
			switch e := m.queue.Get(key); {
			case g.Placed() > 0:
				g.AvoidNothing()
			case err == nil && e != nil && e.State() != queue.InFlight && e.Failed() && g.Count(gang.OnNodes) == 0:
				m.avoidDomain(key, g, tried)
			}
		}()
	}
	if !waited {
		m.queue.Begin(key) // the end of a wait is not another attempt
	}
	freed, err := m.applyRejected(key, d)
	if err != nil {
		return err
	}
	if err := m.applyVerdicts(seq, d); err != nil {
		return err
	}
	switch d.Outcome {
	case eventlog.Waiting:
		err = m.holdPod(seq, key, p, d)
	case eventlog.Scheduled:
		if waited {
			m.endHold(seq, p)
			m.conclude(key)
			break
		}
		err = m.bindPod(seq, key, p, d)
	case eventlog.Unschedulable, eventlog.Error:
		if waited && key.Type != fwk.PodKeyType && blamesGang(d) {
			m.queue.Retry(key) // it was broken off: no event need come for another attempt to end otherwise
		}
		if waited || m.endsAttempt(key, d) {
			m.queue.Park(key, failureOf(d))
			break
		}
		m.queue.Refuse(key, failureOf(d))
		m.conclude(key)
	default:
		err = fmt.Errorf("decision of cycle %d: unknown outcome %d", d.Cycle, d.Outcome)
	}
	m.applyNominations(key, d)
	// Told at last: what was refused just now must learn of it too.
	for _, pod := range freed {
		m.queue.Move(upstream.EventAssignedPodDelete, pod, nil)
	}
	return err
}

// applyRejected takes the pods that the cycle rejected off their nodes. It returns those, as they stood there,
// whose going others have to learn of.
func (m *Machine) applyRejected(key queue.Key, d *eventlog.Decision) (freed []*v1.Pod, err error) {
	var others []queue.Key
	for _, uid := range d.Rejected {
		other, pod, err := m.releasePod(uid)
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
	for _, other := range others {
		m.queue.Park(other, failureOf(d))
	}
	return freed, nil
}

// applyVerdicts carries out what the cycle decided on pods that go on, and on victims.
func (m *Machine) applyVerdicts(seq uint64, d *eventlog.Decision) error {
	for _, a := range d.Approvals {
		m.waiting.Approve(a.UID, a.Plugin)
	}
	for _, uid := range d.Allowed {
		p := m.cluster.Pod(uid)
		if p == nil || p.Stage != cluster.Waiting {
			return fmt.Errorf("allowed pod %s is not waiting", uid)
		}
		m.endHold(seq, p)
	}
	for _, uid := range d.Victims {
		if p := m.cluster.Pod(uid); p != nil {
			m.effects.add(Effect{Kind: Evict, Seq: seq, Namespace: p.Object.Namespace, Name: p.Object.Name, UID: uid, Node: p.Node})
			m.cluster.Evicting(p)
		}
	}
	return nil
}

// endHold has a waiting pod bound where it is held.
func (m *Machine) endHold(seq uint64, p *cluster.Pod) {
	o := p.Object
	m.effects.add(Effect{Kind: Bind, Seq: seq, Namespace: o.Namespace, Name: o.Name, UID: o.UID, Node: p.Node, Volumes: p.Volumes})
	m.waiting.Release(o.UID)
	m.cluster.Allow(p)
	p.Since = m.now
}

// releasePod takes a waiting pod off its node and returns whose member it is. Others have to learn of the room,
// and the pod as it stood there is returned, only if they can have missed it: while a gang's cycles run back
// to back no other pod's cycle comes between.
func (m *Machine) releasePod(uid types.UID) (key queue.Key, freed *v1.Pod, err error) {
	p := m.cluster.Pod(uid)
	if p == nil || p.Stage != cluster.Waiting {
		return queue.Key{}, nil, fmt.Errorf("rejected pod %s is not waiting", uid)
	}
	key = m.keyOf(p)
	if !m.queue.HeldByAttempt(uid) {
		freed = p.Placed()
	}
	m.waiting.Release(uid)
	if err := m.cluster.Release(p); err != nil {
		return queue.Key{}, nil, err
	}
	m.unhold(key, p)
	return key, freed, nil
}

// unhold makes a pod that lost its place wait for another one, unless it is being deleted.
func (m *Machine) unhold(key queue.Key, p *cluster.Pod) {
	if p.Object.DeletionTimestamp != nil {
		m.queue.Delete(key, p.Object.UID)
		m.recheckGroup(p)
		return
	}
	m.queue.Unhold(key, p.Object.UID)
}

func (m *Machine) holdPod(seq uint64, key queue.Key, p *cluster.Pod, d *eventlog.Decision) error {
	if err := m.cluster.Assume(p, d.Node, cluster.Waiting, d.Volumes); err != nil {
		return err
	}
	p.Since = m.now
	m.waiting.Hold(framework.WaitingPod{Pod: p.Object, Node: d.Node, Plugins: d.WaitFor, Until: d.WaitUntil, Seq: seq})
	m.queue.Hold(key, d.UID)
	m.conclude(key)
	return nil
}

func (m *Machine) bindPod(seq uint64, key queue.Key, p *cluster.Pod, d *eventlog.Decision) error {
	if err := m.cluster.Assume(p, d.Node, cluster.Binding, d.Volumes); err != nil {
		return err
	}
	p.Since = m.now
	m.effects.add(Effect{Kind: Bind, Seq: seq, Namespace: d.Namespace, Name: d.Name, UID: d.UID, Node: d.Node, Volumes: d.Volumes})
	m.queue.Hold(key, d.UID)
	m.conclude(key)
	return nil
}

// blamesGang says whether the gang plugin had a part in a refusal.
func blamesGang(d *eventlog.Decision) bool {
	return slices.ContainsFunc(d.Rejections, func(r eventlog.Rejection) bool { return r.Plugin == coscheduling.Name && r.Nodes == 0 })
}

// conclude ends the attempt of an entity in flight if it has no member left to try, or not enough of them,
// unless held members still wait for others that do not come: then the next decision releases them.
func (m *Machine) conclude(key queue.Key) {
	e := m.queue.Get(key)
	if e == nil || e.State() != queue.InFlight || e.NumUntried() > 0 && m.goesOn(e) {
		return
	}
	for _, uid := range e.Held() {
		if g := m.cluster.Pod(uid).Group; m.waitsForGang(uid) && (g == nil || !g.Suffices(gang.OnNodes) && !g.NonStrict()) {
			return
		}
	}
	m.queue.Finish(key)
}

// waitsForGang says whether the gang plugin holds the pod.
func (m *Machine) waitsForGang(uid types.UID) bool {
	w, ok := m.waiting.Get(uid)
	return ok && slices.Contains(w.Plugins, coscheduling.Name)
}

// failureOf is what the queue has to know of a decision that placed nothing. If a node was found and the pod was
// turned away later, only who did that is to blame, and not who refused other nodes. Preemption is not to blame: it only
// did not help.
func failureOf(d *eventlog.Decision) queue.Failure {
	f := queue.Failure{UID: d.UID, Error: d.Outcome == eventlog.Error}
	for _, r := range d.Rejections {
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
