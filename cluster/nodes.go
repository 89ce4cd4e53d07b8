package cluster

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Nodes are the nodes of the cluster with the pods that are booked on them. Plugins see them as the snapshot of a
// cycle: nothing changes them while a cycle runs.
type Nodes struct {
	byName map[string]*node
	listed []fwk.NodeInfo // the nodes that exist, sorted by name
	images map[string]*fwk.ImageStateSummary

	withAffinity         nodeSet
	withAntiAffinity     nodeSet
	withWideAntiAffinity nodeSet

	changed journal // see ChangedSince
	objects journal // see ObjectsChangedSince
	unknown bool    // see State.WithoutNodes
}

func newNodes() *Nodes {
	return &Nodes{
		byName:               map[string]*node{},
		images:               map[string]*fwk.ImageStateSummary{},
		withAffinity:         nodeSet{members: map[string]fwk.NodeInfo{}},
		withAntiAffinity:     nodeSet{members: map[string]fwk.NodeInfo{}},
		withWideAntiAffinity: nodeSet{members: map[string]fwk.NodeInfo{}},
	}
}

var (
	_ fwk.NodeInfoLister    = (*Nodes)(nil)
	_ fwk.StorageInfoLister = (*Nodes)(nil)
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

// Object returns the Object object, nil if there is no such node.
func (ns *Nodes) Object(name string) *v1.Node {
	if n, ok := ns.byName[name]; ok && n.exists {
		return n.info.Node()
	}
	return nil
}

// List implements fwk.NodeInfoLister: every node that exists, sorted by name. The slice must not be changed.
func (ns *Nodes) List() ([]fwk.NodeInfo, error) { return ns.listed, nil }

// Get implements fwk.NodeInfoLister. The error for a name that no node has says so.
func (ns *Nodes) Get(name string) (fwk.NodeInfo, error) {
	if n, ok := ns.byName[name]; ok && n.exists {
		return n.info, nil
	}
	return nil, fmt.Errorf("node %q not found", name)
}

// HavePodsWithAffinityList implements fwk.NodeInfoLister, sorted by name.
func (ns *Nodes) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return ns.withAffinity.list(), nil
}

// HavePodsWithRequiredAntiAffinityList implements fwk.NodeInfoLister, sorted by name.
func (ns *Nodes) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return ns.withAntiAffinity.list(), nil
}

// HavePodsWithRequiredNonHostScopedAntiAffinityList implements fwk.NodeInfoLister, sorted by name. Pods are such only
// under the feature gate InterPodAffinityHostnameFastPath. The list is not nil, also if it is empty.
func (ns *Nodes) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	if nodes := ns.withWideAntiAffinity.list(); nodes != nil {
		return nodes, nil
	}
	return []fwk.NodeInfo{}, nil
}

// IsPVCUsedByPods implements fwk.StorageInfoLister; key is namespace/name.
func (ns *Nodes) IsPVCUsedByPods(key string) bool {
	for _, info := range ns.listed {
		if info.GetPVCRefCounts()[key] > 0 {
			return true
		}
	}
	return false
}

// isThere reports whether the node is there; each is if the state is one without nodes.
func (ns *Nodes) isThere(node string) bool {
	n := ns.byName[node]
	return ns.unknown || n != nil && n.exists
}

func (ns *Nodes) find(name string) (at int, found bool) {
	return sort.Find(len(ns.listed), func(i int) int { return strings.Compare(name, ns.listed[i].Node().Name) })
}

func (ns *Nodes) at(name string) *node {
	n, ok := ns.byName[name]
	if !ok {
		n = &node{info: framework.NewNodeInfo()}
		ns.byName[name] = n
	}
	return n
}

// countImages and dropImages count, for ImageLocality, how many nodes have each image, as kube-scheduler's cache does
// in addNodeImageStates and removeNodeImageStates. NumNodes is updated at once, because plugins read the live NodeInfo
// and not a copy.
func (ns *Nodes) countImages(obj *v1.Node, info *framework.NodeInfo) {
	states := make(map[string]*fwk.ImageStateSummary)
	for _, image := range obj.Status.Images {
		for _, name := range image.Names {
			state, ok := ns.images[name]
			if !ok {
				state = &fwk.ImageStateSummary{Size: image.SizeBytes, Nodes: sets.New[string]()}
				ns.images[name] = state
			}
			state.Nodes.Insert(obj.Name)
			state.NumNodes = state.Nodes.Len()
			states[name] = state
		}
	}
	info.ImageStates = states
}

func (ns *Nodes) dropImages(obj *v1.Node) {
	for _, image := range obj.Status.Images {
		for _, name := range image.Names {
			state, ok := ns.images[name]
			if !ok {
				continue
			}
			state.Nodes.Delete(obj.Name)
			state.NumNodes = state.Nodes.Len()
			if state.NumNodes == 0 {
				delete(ns.images, name)
			}
		}
	}
}

// touched notes that the node, or a pod on it, has changed.
func (ns *Nodes) touched(name string) { ns.note(&ns.changed, name) }

// replaced notes that the node's object has changed.
func (ns *Nodes) replaced(name string) {
	ns.note(&ns.changed, name)
	ns.note(&ns.objects, name)
}

// note writes a node into a journal.
func (ns *Nodes) note(j *journal, name string) {
	at, ok := ns.find(name)
	if !ok {
		return
	}
	if keep := max(minJournal, 2*len(ns.listed)); len(j.places) >= 2*keep {
		j.first += uint64(len(j.places) - keep)
		j.places = append(j.places[:0], j.places[len(j.places)-keep:]...)
	}
	j.places = append(j.places, int32(at))
}

// ChangedSince returns the places in List of the nodes that changed, or whose pods did, since the call that returned
// since as now. A place may be there more than once. ok is false if the journal does not reach back so far. After a
// change of the kind NodeListed, the places mean nothing.
func (ns *Nodes) ChangedSince(since uint64) (places []int32, now uint64, ok bool) {
	return ns.changed.since(since)
}

// ObjectsChangedSince is ChangedSince for the nodes' objects alone.
func (ns *Nodes) ObjectsChangedSince(since uint64) (places []int32, now uint64, ok bool) {
	return ns.objects.since(since)
}

// since returns the places of the changes behind number since, and the number of the last one.
func (j *journal) since(since uint64) (places []int32, now uint64, ok bool) {
	now = j.first + uint64(len(j.places))
	if since < j.first || since > now {
		return nil, now, false
	}
	return j.places[since-j.first:], now, true
}
