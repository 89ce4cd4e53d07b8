package scheduler

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/cluster/devices"
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
	case *eventlog.EpochStarted, *eventlog.Tick:
		return nil
	case *eventlog.Upserted:
		return m.applyUpserted(p)
	case *eventlog.Deleted:
		return m.applyDeleted(p)
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

func (m *Machine) applyUpserted(p *eventlog.Upserted) error {
	object := cluster.BoundNumbers(p.Object)
	switch obj := object.(type) {
	case *v1.Pod:
		return m.upsertPod(obj)
	case *v1.Node:
		return m.upsertNode(obj)
	case nil:
		return fmt.Errorf("upserted %s: no object", p.Resource)
	}
	before := m.entities.groupedBefore(object.GetNamespace(), object.GetName())
	old, err := m.cluster.Upsert(p.Resource, object)
	if err != nil {
		return err
	}
	action := fwk.Update
	if old == nil {
		action = fwk.Add
	}
	m.entities.regroup(p.Resource, object.GetNamespace(), object.GetName(), before)
	if p.Resource == eventlog.ResourceClaims {
		// Decisions may have allocated devices to it.
		object = m.cluster.Informers().Get(p.Resource, object.GetNamespace(), object.GetName())
	}
	m.tellMoved(p.Resource, action, old, object)
	return nil
}

func (m *Machine) applyDeleted(p *eventlog.Deleted) error {
	switch p.Resource {
	case eventlog.Pods:
		return m.deletePod(p.UID)
	case eventlog.Nodes:
		if old := m.cluster.DeleteNode(p.Name); old != nil {
			for _, g := range m.cluster.GangsOn(p.Name) {
				m.entities.recheck(keyOfGang(g)) // its members on the node do not count from now on
			}
			m.nominated.forgetNode(p.Name)
			m.queue.Move(fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, old, nil)
		}
		return nil
	}
	before := m.entities.groupedBefore(p.Namespace, p.Name)
	if old := m.cluster.Delete(p.Resource, p.Namespace, p.Name); old != nil {
		m.entities.regroup(p.Resource, p.Namespace, p.Name, before)
		m.tellMoved(p.Resource, fwk.Delete, old, nil)
	}
	return nil
}

// tellDevices tells the queue what the entry has changed about devices besides its own object: slices that a
// DeviceTaintRule has changed, as kube-scheduler does, and claims that lost their devices. Pods that wait for devices
// which another pod took are tried again.
func (m *Machine) tellDevices(c devices.Changes) {
	for _, slice := range c.Tainted {
		m.tellMoved(eventlog.ResourceSlices, fwk.Update, slice.Before, slice.Now)
	}
	for _, claim := range c.Freed {
		m.tellMoved(eventlog.ResourceClaims, fwk.Update, claim.Before, claim.Now)
	}
	m.retryAwaiting(c.Taken)
}

// tellMoved tells the queue of a change to an object that is neither a pod nor a node.
func (m *Machine) tellMoved(res eventlog.Resource, action fwk.ActionType, old, obj eventlog.Object) {
	resource, ok := eventResources[res]
	if !ok {
		own, declared := m.cluster.Informers().Declared(res)
		if !declared {
			return
		}
		resource = eventResourceOf(own)
	}
	m.queue.Move(fwk.ClusterEvent{Resource: resource, ActionType: action}, untyped(old), untyped(obj))
}

// eventResourceOf returns the name under which the scheduling framework knows a resource that plugins read, as in
// foos.v1.example.com.
func eventResourceOf(own eventlog.OwnResource) fwk.EventResource {
	gvr := own.GroupVersionResource()
	return fwk.EventResource(gvr.Resource + "." + gvr.Version + "." + gvr.Group)
}

// untyped returns a nil Object as a nil any, because hints test for that.
func untyped(obj eventlog.Object) any {
	if obj == nil {
		return nil
	}
	return obj
}

// eventResources are the names under which the scheduling framework knows the resources whose changes can
// make a pod schedulable. Both kinds of PodGroup are one to it.
var eventResources = map[eventlog.Resource]fwk.EventResource{
	eventlog.PersistentVolumes:      fwk.PersistentVolume,
	eventlog.PersistentVolumeClaims: fwk.PersistentVolumeClaim,
	eventlog.StorageClasses:         fwk.StorageClass,
	eventlog.CSINodes:               fwk.CSINode,
	eventlog.CSIDrivers:             fwk.CSIDriver,
	eventlog.CSIStorageCapacities:   fwk.CSIStorageCapacity,
	eventlog.VolumeAttachments:      fwk.VolumeAttachment,
	eventlog.ResourceClaims:         fwk.ResourceClaim,
	eventlog.ResourceSlices:         fwk.ResourceSlice,
	eventlog.DeviceClasses:          fwk.DeviceClass,
	eventlog.PodGroups:              fwk.PodGroup,
	eventlog.XPodGroups:             fwk.PodGroup,
	eventlog.VolcanoPodGroups:       fwk.PodGroup,
	eventlog.KAIPodGroups:           fwk.PodGroup,
	eventlog.CompositePodGroups:     fwk.CompositePodGroup,
}

func (m *Machine) upsertNode(obj *v1.Node) error {
	old, err := m.cluster.UpsertNode(obj)
	if err != nil {
		return err
	}
	if old == nil {
		m.nominated.joinNode(obj.Name)
		m.queue.Move(fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, obj)
		return nil
	}
	for _, event := range upstream.NodeSchedulingPropertiesChange(obj, old) {
		m.queue.Move(event, old, obj)
	}
	return nil
}

// upsertPod follows kube-scheduler's event handlers (addPod, updatePod in eventhandlers.go).
func (m *Machine) upsertPod(obj *v1.Pod) error {
	if named := m.cluster.Pods().Named(obj.Namespace, obj.Name); named != nil && named.Object.UID != obj.UID {
		// The watch skipped the deletion of a pod that another one replaced.
		if err := m.deletePod(named.Object.UID); err != nil {
			return err
		}
	}
	if isFinished(obj) {
		if obj.Status.Phase == v1.PodSucceeded {
			m.cluster.Succeeded(obj.UID)
		}
		return m.deletePod(obj.UID)
	}
	name, ok := m.cluster.Gangs().NameOf(obj)
	if !ok {
		return m.upsertLiving(obj)
	}
	before := m.entities.factsOf(name)
	if err := m.upsertLiving(obj); err != nil {
		return err
	}
	m.entities.recheckGang(name, before)
	return nil
}

// upsertLiving takes in a pod that is not finished and has no namesake.
func (m *Machine) upsertLiving(obj *v1.Pod) error {
	stage, node := cluster.Pending, ""
	var placed *v1.Pod
	if known := m.cluster.Pods().Get(obj.UID); known != nil {
		obj = ofScheduler(obj, known.Object.Spec.SchedulerName)
		stage, node, placed = known.Stage, known.Node, known.Placed()
	}
	old, err := m.cluster.UpsertPod(obj)
	if err != nil {
		return err
	}
	p := m.cluster.Pods().Get(obj.UID)
	m.nominated.noteTerms(p)
	if obj.Spec.NodeName == "" {
		m.nominated.noteNamed(obj)
	}
	switch {
	case obj.Spec.NodeName == "" && stage != cluster.Pending:
		// Assumed: the change takes effect when its wait or bind ends.
		m.queue.Refresh(obj)
		m.entities.followResize(p, old)
	case obj.Spec.NodeName == "":
		m.nominated.followObject(old, obj)
		m.entities.requeue(p, old)
	case stage == cluster.Bound:
		m.entities.followResize(p, old)
		for _, event := range upstream.PodSchedulingPropertiesChange(obj, old, false) {
			m.queue.Move(event, old, obj)
		}
		if obj.DeletionTimestamp != nil && old.DeletionTimestamp == nil {
			m.entities.recheckGroup(p) // it does not count from now on
		}
	default:
		if stage != cluster.Binding || node != p.Node {
			p.Since = m.at.now
		}
		m.bindings.end(p, node == p.Node)
		m.stopScheduling(p, stage)
		m.queue.Move(upstream.EventAssignedPodAdd, nil, obj)
		if stage != cluster.Pending && node != p.Node {
			m.queue.Move(upstream.EventAssignedPodDelete, placed, nil)
		}
		m.entities.recheckGroup(p)
		if stage != cluster.Binding {
			m.entities.retryGang(p) // it needs one member less
		}
		m.entities.followResize(p, nil)
	}
	return nil
}

// ofScheduler returns the pod with the scheduler that it came with. The API lets nobody change it, so that only a
// log that was not of a cluster can.
func ofScheduler(pod *v1.Pod, name string) *v1.Pod {
	if pod.Spec.SchedulerName == name {
		return pod
	}
	kept := *pod
	kept.Spec.SchedulerName = name
	return &kept
}

// stopScheduling ends the work of placing a pod: the pod is bound now, or it is gone. If it is gone and still holds
// devices, its bind stays outstanding.
func (m *Machine) stopScheduling(p *cluster.Pod, stage cluster.Stage) {
	uid := p.Object.UID
	m.nominated.set(uid, "")
	delete(m.nominated.named, uid)
	m.forgetQuestion(uid)
	delete(m.extenders.vain, uid)
	if stage == cluster.Binding && !m.cluster.Devices().HoldsUnresolved(uid) {
		m.effects.done(uid, Bind)
	}
	m.entities.dequeue(uid)
}

// deletePod takes in that a pod is gone or finished.
func (m *Machine) deletePod(uid types.UID) error {
	p := m.cluster.Pods().Get(uid)
	if p == nil {
		return nil
	}
	stage, placed := p.Stage, p.Placed()
	var before gangFacts
	if p.Group != nil {
		before = m.entities.factsOf(p.Group.Key())
	}
	m.bindings.end(p, false)
	m.stopScheduling(p, stage)
	m.effects.done(uid, Evict)
	delete(m.effects.refused, uid)
	if _, err := m.cluster.DeletePod(uid); err != nil {
		return err
	}
	if p.Group != nil {
		m.entities.recheckGang(p.Group.Key(), before)
	}
	if stage != cluster.Pending {
		m.queue.Move(upstream.EventAssignedPodDelete, placed, nil)
	}
	m.entities.recheckGroup(p)
	if stage == cluster.Pending {
		m.entities.retryGang(p)
	}
	return nil
}

func isFinished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
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
		m.stopScheduling(p, cluster.Binding)
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
