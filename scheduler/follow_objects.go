package scheduler

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// followObjects follows the objects that the entry brought, changed or removed: it adds pods to the queue, takes them
// out, and retries the entities that the change may help.
func followObjects(m *Machine, c *change) {
	for i := range c.Objects {
		switch o := &c.Objects[i]; {
		case o.Resource == eventlog.Pods && o.Now == nil:
			m.followGone(o)
		case o.Resource == eventlog.Pods:
			m.followPod(o)
		case o.Resource == eventlog.Nodes:
			m.followNode(o)
		default:
			m.entities.regroup(o)
			m.tellMoved(o.Resource, actionOf(o), o.Before, o.Now)
		}
	}
}

func actionOf(o *cluster.ObjectChange) fwk.ActionType {
	switch {
	case o.Before == nil:
		return fwk.Add
	case o.Now == nil:
		return fwk.Delete
	}
	return fwk.Update
}

func (m *Machine) followNode(o *cluster.ObjectChange) {
	switch actionOf(o) {
	case fwk.Add:
		m.nominated.joinNode(o.Name.Name)
		m.queue.Move(fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, o.Now)
	case fwk.Delete:
		for _, g := range m.cluster.GangsOn(o.Name.Name) {
			m.entities.recheck(keyOfGang(g)) // its members on the node do not count from now on
		}
		m.nominated.forgetNode(o.Name.Name)
		m.queue.Move(fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, o.Before, nil)
	default:
		for _, event := range upstream.NodeSchedulingPropertiesChange(o.Now.(*v1.Node), o.Before.(*v1.Node)) {
			m.queue.Move(event, o.Before, o.Now)
		}
	}
}

// followPod follows a pod that came or changed, as kube-scheduler's event handlers do (addPod and updatePod in
// eventhandlers.go).
func (m *Machine) followPod(o *cluster.ObjectChange) {
	p, obj := o.Pod, o.Now.(*v1.Pod)
	old, _ := o.Before.(*v1.Pod)
	m.nominated.noteTerms(p)
	if obj.Spec.NodeName == "" {
		m.nominated.noteNamed(obj)
	}
	switch {
	case obj.Spec.NodeName == "" && o.Was.Stage != cluster.Pending:
		// Assumed: the change takes effect when its wait or bind ends.
		m.queue.Refresh(obj)
		m.entities.followResize(p, old)
	case obj.Spec.NodeName == "":
		m.nominated.followObject(old, obj)
		m.entities.requeue(p, old)
	case o.Was.Stage == cluster.Bound:
		m.entities.followResize(p, old)
		for _, event := range upstream.PodSchedulingPropertiesChange(obj, old, false) {
			m.queue.Move(event, old, obj)
		}
		if obj.DeletionTimestamp != nil && old.DeletionTimestamp == nil {
			m.entities.recheckGroup(p) // it does not count from now on
		}
	default:
		m.followBound(o, obj)
	}
	if p.Group != nil {
		m.entities.recheckGang(p.Group.Key(), o.Gang)
	}
}

// followBound follows a pod that the entry put on its node.
func (m *Machine) followBound(o *cluster.ObjectChange, obj *v1.Pod) {
	p := o.Pod
	m.bindings.end(p, o.Was.Node == p.Node)
	m.stopScheduling(p, o.Was.Stage, m.cluster.Devices().HoldsUnresolved(obj.UID))
	m.queue.Move(upstream.EventAssignedPodAdd, nil, obj)
	if o.Was.Stage != cluster.Pending && o.Was.Node != p.Node {
		m.queue.Move(upstream.EventAssignedPodDelete, o.Was.Placed, nil)
	}
	m.entities.recheckGroup(p)
	if o.Was.Stage != cluster.Binding {
		m.entities.retryGang(p) // it needs one member less
	}
	m.entities.followResize(p, nil)
}

// followGone follows a pod that is gone or has finished.
func (m *Machine) followGone(o *cluster.ObjectChange) {
	p, uid := o.Pod, o.Pod.Object.UID
	m.bindings.end(p, false)
	m.stopScheduling(p, o.Was.Stage, o.KeepsDevices)
	m.effects.done(uid, Evict)
	delete(m.effects.refused, uid)
	if p.Group != nil {
		m.entities.recheckGang(p.Group.Key(), o.Gang)
	}
	if o.Was.Stage != cluster.Pending {
		m.queue.Move(upstream.EventAssignedPodDelete, o.Was.Placed, nil)
	}
	m.entities.recheckGroup(p)
	if o.Was.Stage == cluster.Pending {
		m.entities.retryGang(p)
	}
}

// stopScheduling ends the work of placing a pod: the pod is bound now, or it is gone. With keepsDevices devices stay
// allocated for its bind, which stays outstanding.
func (m *Machine) stopScheduling(p *cluster.Pod, stage cluster.Stage, keepsDevices bool) {
	uid := p.Object.UID
	m.nominated.end(p)
	delete(m.nominated.named, uid)
	m.forgetQuestion(uid)
	delete(m.extenders.vain, uid)
	if stage == cluster.Binding && !keepsDevices {
		m.effects.done(uid, Bind)
	}
	m.entities.dequeue(uid)
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
	m.queue.Move(fwk.ClusterEvent{Resource: resource, ActionType: action}, old, obj)
}

// eventResourceOf returns the name under which the scheduling framework knows a resource that plugins read, as in
// foos.v1.example.com.
func eventResourceOf(own eventlog.OwnResource) fwk.EventResource {
	gvr := own.GroupVersionResource()
	return fwk.EventResource(gvr.Resource + "." + gvr.Version + "." + gvr.Group)
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
