package cluster

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// UpsertNode takes in a node and returns the object before it, nil if there was none.
func (s *State) UpsertNode(obj *v1.Node) (old *v1.Node, err error) {
	if _, err := s.informers.Upsert(eventlog.Nodes, obj); err != nil {
		return nil, err
	}
	s.record.note(RoomFreed)
	s.record.note(ObjectChanged)
	n := s.nodes.at(obj.Name)
	s.uncount(n)
	if n.exists {
		old = n.info.Node()
		s.nodes.dropImages(old)
	}
	if old == nil || !sameImages(old, obj) {
		s.record.note(PluginInputs)
	}
	n.info.SetNode(obj)
	s.nodes.countImages(obj, n.info)
	if !n.exists {
		s.recount(obj.Name, func() { n.exists = true })
		at, _ := s.nodes.find(obj.Name)
		s.nodes.listed = slices.Insert(s.nodes.listed, at, fwk.NodeInfo(n.info))
		s.record.note(NodeListed)
	}
	s.count(obj.Name, n)
	s.nodes.replaced(obj.Name)
	return old, nil
}

// DeleteNode takes a node away and returns its object, nil if there was none. Pods that are on it keep
// their place in the books until their own entries come.
func (s *State) DeleteNode(name string) (old *v1.Node) {
	s.record.note(ObjectChanged)
	s.record.note(PluginInputs)
	s.informers.Delete(eventlog.Nodes, "", name)
	n, ok := s.nodes.byName[name]
	if !ok || !n.exists {
		return nil
	}
	s.record.note(RoomFreed) // it may have been the last to offer a resource
	old = n.info.Node()
	s.uncount(n)
	s.nodes.withAffinity.put(name, nil, false)
	s.nodes.withAntiAffinity.put(name, nil, false)
	s.nodes.withWideAntiAffinity.put(name, nil, false)
	s.nodes.dropImages(old)
	if at, found := s.nodes.find(name); found {
		s.nodes.listed = slices.Delete(s.nodes.listed, at, at+1)
		s.record.note(NodeListed)
	}
	s.recount(name, func() { n.exists = false })
	n.info.RemoveNode()
	n.info.ImageStates = nil
	if len(n.info.Pods) == 0 {
		delete(s.nodes.byName, name)
	}
	return old
}

// Overcommitted reports whether p's node has less of some resource than all its pods request together, if p requests
// that resource. The node shrank, or another one of its name took its place.
func (s *State) Overcommitted(p *Pod) bool {
	n, ok := s.nodes.byName[p.Node]
	if !ok || !n.exists {
		return false
	}
	can, has, wants := n.info.Allocatable, n.info.Requested, p.info.CalculateResource().Resource
	over := func(wants, has, can int64) bool { return wants > 0 && has > can }
	if len(n.info.Pods) > can.AllowedPodNumber || over(wants.GetMilliCPU(), has.MilliCPU, can.MilliCPU) ||
		over(
			wants.GetMemory(),
			has.Memory,
			can.Memory,
		) || over(wants.GetEphemeralStorage(), has.EphemeralStorage, can.EphemeralStorage) {
		return true
	}
	// any order: one is enough
	for name, amount := range wants.GetScalarResources() {
		if over(amount, has.ScalarResources[name], can.ScalarResources[name]) {
			if can.ScalarResources[name] == 0 && s.devices.Stands(name) {
				continue // the pod has devices
			}
			return true
		}
	}
	return false
}

// place books p on the node that it names.
func (s *State) place(p *Pod, nodeName string) {
	s.record.note(PodPlaced)
	n := s.nodes.at(nodeName)
	s.uncount(n)
	n.info.AddPodInfo(p.info)
	s.count(nodeName, n)
	s.nodes.touched(nodeName)
	p.Node = nodeName
	s.noteDevices(s.devices.Place(p.info.Pod))
	s.countIn(p)
	if s.Overcommitted(p) {
		s.record.note(RoomFreed) // what it takes was not free before
	}
}

// displace takes p off the node that it is booked on.
func (s *State) displace(p *Pod) error {
	s.record.note(RoomFreed)
	n, ok := s.nodes.byName[p.Node]
	if !ok {
		return fmt.Errorf(
			"pod %s/%s is booked on node %q, which is not there",
			p.Object.Namespace,
			p.Object.Name,
			p.Node,
		)
	}
	s.uncount(n)
	s.countOut(p)
	s.devices.Displace(p.info.Pod)
	if err := n.info.RemovePod(discard, p.info.Pod); err != nil {
		return fmt.Errorf("take pod %s/%s off node %q: %w", p.Object.Namespace, p.Object.Name, p.Node, err)
	}
	KeepPorts(n.info, p.info.Pod)
	s.count(p.Node, n)
	s.nodes.touched(p.Node)
	if !n.exists && len(n.info.Pods) == 0 {
		delete(s.nodes.byName, p.Node)
	}
	p.Node = ""
	return nil
}

// uncount takes a node's room out of the totals before it changes; count puts it back after.
func (s *State) uncount(n *node) {
	if n.exists {
		s.free.count(n.info, -1)
	}
}

func (s *State) count(name string, n *node) {
	if !n.exists {
		return
	}
	s.free.count(n.info, +1)
	s.nodes.withAffinity.put(name, n.info, len(n.info.PodsWithAffinity) > 0)
	s.nodes.withAntiAffinity.put(name, n.info, len(n.info.PodsWithRequiredAntiAffinity) > 0)
	s.nodes.withWideAntiAffinity.put(name, n.info, len(n.info.PodsWithRequiredNonHostScopedAntiAffinity) > 0)
}

// PodsOn returns the pods on a node, whether or not it is there, by name.
func (s *State) PodsOn(node string) []*Pod {
	n := s.nodes.byName[node]
	if n == nil {
		return nil
	}
	pods := make([]*Pod, 0, len(n.info.Pods))
	for _, info := range n.info.Pods {
		if p := s.pods.byUID[info.GetPod().UID]; p != nil {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, comparePods)
	return pods
}
