package scheduler

import (
	"errors"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
)

// Apply takes in the next entry: the only way in which the Machine changes. After an error the Machine is
// of no more use; the error names the entry and what is wrong with it.
func (m *Machine) Apply(e eventlog.Entry) error {
	m.keepGates()
	m.guard.applying = true
	defer func() { m.guard.applying = false }()
	if err := m.apply(e); err != nil {
		return fmt.Errorf("apply entry %d: %w", e.Seq, err)
	}
	return nil
}

func (m *Machine) apply(e eventlog.Entry) error {
	if e.Seq != m.at.seq+1 {
		return fmt.Errorf("the entry before it is %d", m.at.seq)
	}
	if e.Time < m.at.now {
		return fmt.Errorf("its time %s is before %s, that of the entry before it", e.Time, m.at.now)
	}
	epoch, isEpoch := e.Payload.(*eventlog.EpochStarted)
	if m.queue == nil && !isEpoch {
		return ErrNoEpoch
	}
	if wanted := m.at.epoch + btou(isEpoch); e.Epoch != wanted {
		return fmt.Errorf("its epoch is %d, expected %d", e.Epoch, wanted)
	}
	m.unpick()
	m.at.seq, m.at.now, m.at.epoch = e.Seq, e.Time, e.Epoch
	m.recorded.at(e.Seq)
	if isEpoch {
		if err := m.startEpoch(epoch); err != nil {
			return err
		}
	}
	was := m.backfill.Versions()
	m.queue.SetTime(e.Time)
	m.endSparing()
	if err := m.cluster.Apply(e); err != nil {
		return err
	}
	if err := m.applyPayload(e); err != nil {
		return err
	}
	m.follow(change{Entry: e, Changes: m.cluster.TakeChanges(), roomBefore: was})
	return nil
}

func btou(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (m *Machine) applyPayload(e eventlog.Entry) error {
	switch p := e.Payload.(type) {
	case *eventlog.EpochStarted, *eventlog.Tick, *eventlog.Watched:
		return nil
	case *eventlog.Upserted, *eventlog.Deleted:
		return nil // see followObjects
	case *eventlog.Decision:
		return m.applyDecision(e.Seq, p)
	case *eventlog.BindResult:
		return m.applyBindResult(p)
	case *eventlog.EvictResult:
		return m.applyEvictResult(p)
	case *eventlog.ExtenderResult:
		m.applyExtenderResult(p)
		return nil
	default:
		return fmt.Errorf("unknown payload %T", p)
	}
}

// applyBindResult takes in the result of a bind. A late result changes nothing: the pod is not being bound now, or it
// is being bound to another node or by a later decision. The result for a pod that is gone frees its devices, also if a
// pod with its UID has come back since.
func (m *Machine) applyBindResult(r *eventlog.BindResult) error {
	p := m.cluster.Pods().Get(r.UID)
	if p == nil || p.Stage != cluster.Binding {
		m.resolveGone(r)
		return nil
	}
	if r.Node != p.Node {
		return nil
	}
	if r.Decision != 0 && r.Decision != m.effects.decisionOf(r.UID, Bind) {
		return nil
	}
	switch r.Outcome {
	case eventlog.BindUnknown:
		return nil // its capacity stays reserved until that is resolved
	case eventlog.BindBound:
		m.bindings.end(p, true)
		if err := m.cluster.Confirm(p); err != nil {
			return err
		}
		m.stopScheduling(p, cluster.Binding, m.cluster.Devices().HoldsUnresolved(r.UID))
		m.queue.Move(upstream.EventAssignedPodAdd, nil, p.Object)
		m.entities.followResize(p, nil)
		return nil
	case eventlog.BindConflict, eventlog.BindFailed:
		m.effects.done(r.UID, Bind)
		m.bindings.end(p, false)
		placed := p.Placed()
		if err := m.cluster.Release(p); err != nil {
			return err
		}
		m.queue.Move(upstream.EventAssignedPodDelete, placed, nil)
		key := m.entities.keyOf(p)
		m.entities.markPending(key, p)
		m.queue.Park(key, m.failureOfBind(r))
		return nil
	}
	return fmt.Errorf("bind result of pod %s/%s: unknown outcome %d", p.Object.Namespace, p.Object.Name, r.Outcome)
}

// resolveGone takes in the result of a bind whose pod was deleted meanwhile, with devices allocated for it. The devices
// are free now. If the bind has written a claim, the log has the claim with its devices. The pod may be back: the API
// server's list was stale, and the next list has the pod again.
func (m *Machine) resolveGone(r *eventlog.BindResult) {
	by := m.effects.decisionOf(r.UID, Bind)
	if by == 0 || r.Decision != 0 && r.Decision != by || r.Outcome == eventlog.BindUnknown {
		return
	}
	m.effects.done(r.UID, Bind)
	m.cluster.ResolveDevices(r.UID, r.Outcome == eventlog.BindBound)
}

// noteReturned has a cluster that was restored know which pods have come back while their binds are under way.
func (m *Machine) noteReturned() {
	for i := range m.effects.slots {
		if x := &m.effects.slots[i]; x.Kind == Bind {
			m.cluster.Devices().NoteReturned(x.UID)
		}
	}
}

// failureOfBind returns the failure for the queue after a bind that failed: an error, or the plugin of the binding
// cycle that refused the pod.
func (m *Machine) failureOfBind(r *eventlog.BindResult) queue.Failure {
	if r.Plugin == "" || r.Code == fwk.Error.String() {
		return errorFailure()
	}
	return queue.Failure{UID: r.UID, Plugins: []string{r.Plugin}}
}

// errUnknownPod means that a decision names a pod that does not exist: the log is not this scheduler's.
var errUnknownPod = errors.New("no entry has brought such a pod")
