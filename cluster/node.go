package cluster

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// node is a name of a node that pods may be on. It may be there before its Node object and after it: pod and node
// events come by different watches.
type node struct {
	info   *framework.NodeInfo
	exists bool
}

// nodeSet is a set of nodes that can be listed by name.
type nodeSet struct {
	members map[string]fwk.NodeInfo
	sorted  []fwk.NodeInfo // nil before it is asked for
}

func (s *nodeSet) put(name string, info fwk.NodeInfo, in bool) {
	if _, was := s.members[name]; was == in {
		return
	}
	if in {
		s.members[name] = info
	} else {
		delete(s.members, name)
	}
	if s.sorted == nil {
		return
	}
	at, _ := slices.BinarySearchFunc(s.sorted, name, func(n fwk.NodeInfo, name string) int {
		return strings.Compare(n.Node().Name, name)
	})
	if in {
		s.sorted = slices.Insert(s.sorted, at, info)
	} else {
		s.sorted = slices.Delete(s.sorted, at, at+1)
	}
}

// list returns the members by name, nil if there are none.
func (s *nodeSet) list() []fwk.NodeInfo {
	if len(s.members) == 0 {
		return nil
	}
	if s.sorted == nil {
		s.sorted = make([]fwk.NodeInfo, 0, len(s.members))
		// any order: sorted right below
		for _, info := range s.members {
			s.sorted = append(s.sorted, info)
		}
		slices.SortFunc(s.sorted, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	}
	return s.sorted
}

// Node returns the Node object, nil if there is no such node.
func (s *State) Node(name string) *v1.Node {
	if n, ok := s.nodes[name]; ok && n.exists {
		return n.info.Node()
	}
	return nil
}

// UpsertNode takes in a node and returns the object that was there before, nil if none did.
func (s *State) UpsertNode(obj *v1.Node) (old *v1.Node, err error) {
	if _, err := s.informers.Upsert(eventlog.Nodes, obj); err != nil {
		return nil, err
	}
	s.roomVersion++
	s.version++
	n := s.nodeAt(obj.Name)
	s.uncount(n)
	if n.exists {
		old = n.info.Node()
		s.dropImages(old)
	}
	if old == nil || !sameImages(old, obj) {
		s.beyond++
	}
	n.info.SetNode(obj)
	s.countImages(obj, n.info)
	if !n.exists {
		s.recount(obj.Name, func() { n.exists = true })
		at, _ := s.findListed(obj.Name)
		s.listed = slices.Insert(s.listed, at, fwk.NodeInfo(n.info))
		s.listVersion++
	}
	s.count(obj.Name, n)
	s.touched(obj.Name)
	return old, nil
}

// DeleteNode takes a node away and returns its object, nil if there was none. Pods that are on it keep
// their place in the books until their own entries come.
func (s *State) DeleteNode(name string) (old *v1.Node) {
	s.version++
	s.beyond++
	s.informers.Delete(eventlog.Nodes, "", name)
	n, ok := s.nodes[name]
	if !ok || !n.exists {
		return nil
	}
	s.roomVersion++ // it may have been the last to offer a resource
	old = n.info.Node()
	s.uncount(n)
	s.withAffinity.put(name, nil, false)
	s.withAntiAffinity.put(name, nil, false)
	s.withWideAntiAffinity.put(name, nil, false)
	s.dropImages(old)
	if at, found := s.findListed(name); found {
		s.listed = slices.Delete(s.listed, at, at+1)
		s.listVersion++
	}
	s.recount(name, func() { n.exists = false })
	n.info.RemoveNode()
	n.info.ImageStates = nil
	if len(n.info.Pods) == 0 {
		delete(s.nodes, name)
	}
	return old
}

// Overcommitted reports whether the node that p is booked on has, by now, less of something that p requests than
// all its pods request together: it shrank, or another one of its name took its place.
func (s *State) Overcommitted(p *Pod) bool {
	n, ok := s.nodes[p.Node]
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
			if can.ScalarResources[name] == 0 && s.StandsForDevices(name) {
				continue // the pod has devices
			}
			return true
		}
	}
	return false
}

func (s *State) findListed(name string) (at int, found bool) {
	return sort.Find(len(s.listed), func(i int) int { return strings.Compare(name, s.listed[i].Node().Name) })
}

func (s *State) nodeAt(name string) *node {
	n, ok := s.nodes[name]
	if !ok {
		n = &node{info: framework.NewNodeInfo()}
		s.nodes[name] = n
	}
	return n
}

// place books p on the node that it names.
func (s *State) place(p *Pod, nodeName string) {
	s.placements++
	n := s.nodeAt(nodeName)
	s.uncount(n)
	n.info.AddPodInfo(p.info)
	s.count(nodeName, n)
	s.touched(nodeName)
	p.Node = nodeName
	s.noteDevices(s.devices.Place(p.info.Pod))
	s.countIn(p)
	if s.Overcommitted(p) {
		s.roomVersion++ // what it takes was not free before
	}
}

// displace takes p off the node that it is booked on.
func (s *State) displace(p *Pod) error {
	s.roomVersion++
	n, ok := s.nodes[p.Node]
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
	s.touched(p.Node)
	if !n.exists && len(n.info.Pods) == 0 {
		delete(s.nodes, p.Node)
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
	s.withAffinity.put(name, n.info, len(n.info.PodsWithAffinity) > 0)
	s.withAntiAffinity.put(name, n.info, len(n.info.PodsWithRequiredAntiAffinity) > 0)
	s.withWideAntiAffinity.put(name, n.info, len(n.info.PodsWithRequiredNonHostScopedAntiAffinity) > 0)
}

// countImages and dropImages keep, for ImageLocality, how many nodes have each image, as kube-scheduler's
// cache does in addNodeImageStates and removeNodeImageStates; NumNodes is kept up at once because plugins
// read the live NodeInfo and not a copy.
func (s *State) countImages(obj *v1.Node, info *framework.NodeInfo) {
	states := make(map[string]*fwk.ImageStateSummary)
	for _, image := range obj.Status.Images {
		for _, name := range image.Names {
			state, ok := s.images[name]
			if !ok {
				state = &fwk.ImageStateSummary{Size: image.SizeBytes, Nodes: sets.New[string]()}
				s.images[name] = state
			}
			state.Nodes.Insert(obj.Name)
			state.NumNodes = state.Nodes.Len()
			states[name] = state
		}
	}
	info.ImageStates = states
}

func (s *State) dropImages(obj *v1.Node) {
	for _, image := range obj.Status.Images {
		for _, name := range image.Names {
			state, ok := s.images[name]
			if !ok {
				continue
			}
			state.Nodes.Delete(obj.Name)
			state.NumNodes = state.Nodes.Len()
			if state.NumNodes == 0 {
				delete(s.images, name)
			}
		}
	}
}

// PodsOn returns the pods on a node, whether or not it is there, by name.
func (s *State) PodsOn(node string) []*Pod {
	n := s.nodes[node]
	if n == nil {
		return nil
	}
	pods := make([]*Pod, 0, len(n.info.Pods))
	for _, info := range n.info.Pods {
		if p := s.pods[info.GetPod().UID]; p != nil {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, comparePods)
	return pods
}
