package cluster

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Devices returns the part of the state that is about devices. Only the State changes it.
func (s *State) Devices() *devices.State { return s.devices }

// seenByDevices is the rest of the state, as devices see it.
type seenByDevices struct{ s *State }

// Pod implements devices.Cluster.
func (c seenByDevices) Pod(uid types.UID) (devices.Pod, bool) {
	p := c.s.pods.byUID[uid]
	if p == nil {
		return devices.Pod{}, false
	}
	return devices.Pod{Object: p.Object, Waiting: p.Stage == Waiting, Binding: p.Stage == Binding,
		Bound: p.Stage == Bound}, true
}

// Store implements devices.Cluster.
func (c seenByDevices) Store(res eventlog.Resource, obj eventlog.Object) (eventlog.Object, error) {
	return c.s.informers.Upsert(res, obj)
}

// Remove implements devices.Cluster.
func (c seenByDevices) Remove(res eventlog.Resource, namespace, name string) eventlog.Object {
	return c.s.informers.Delete(res, namespace, name)
}

// Stored implements devices.Cluster.
func (c seenByDevices) Stored(res eventlog.Resource) []eventlog.Object {
	return c.s.informers.List(res)
}

// noteDevices takes in changes of devices.
func (s *State) noteDevices(c devices.Changes) {
	for _, name := range c.Nodes {
		if n, ok := s.nodes.byName[name]; ok && n.exists {
			n.info.Generation = framework.NewNodeInfo().Generation // a number that no node has had
			s.nodes.touched(name)
		}
	}
	if c.Scored {
		s.record.note(PluginInputs)
	}
	c.Nodes, c.Scored = nil, false // done
	s.deviceChanges.Add(c)
}

// AssumeDevices allocates devices to claims of a pod that was just assumed, see devices.State.Assume.
func (s *State) AssumeDevices(p *Pod, list []eventlog.DeviceClaim) error {
	if len(list) == 0 {
		return nil
	}
	c, err := s.devices.Assume(p.Object, list)
	s.noteDevices(c)
	if err != nil {
		return err
	}
	p.Devices = list
	return nil
}

// ResolveDevices frees the devices that are allocated for a bind whose result is known, see devices.State.Resolve.
func (s *State) ResolveDevices(uid types.UID, bound bool) {
	s.noteDevices(s.devices.Resolve(uid, bound))
}

// plenty is more than pods request of anything.
const plenty = 1 << 61

// AmountOn returns a node's amount of a resource, and the amount that its pods request. If the resource is a name for a
// DeviceClass, a node without it in its allocatable has more than anybody requests: only the allocator can tell how
// many devices are free there.
func (s *State) AmountOn(info fwk.NodeInfo, name v1.ResourceName) (allocatable, requested int64) {
	allocatable, requested = AmountOn(info, name)
	if allocatable == 0 && s.devices.Stands(name) {
		return plenty, 0
	}
	return allocatable, requested
}
