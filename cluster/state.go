package cluster

import (
	"fmt"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/cluster/volumes"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// State is the cluster as the entries applied so far have described it. It is not safe for concurrent use.
type State struct {
	informers *Informers

	nodes         map[string]*node
	listed        []fwk.NodeInfo // the nodes that exist, sorted by name
	images        map[string]*fwk.ImageStateSummary
	free          Capacity
	waits         Waits
	holdings      holdings
	gone          freeWithout            // a memo, see freeFor
	places        map[string]*nodePlaces // a memo, see placesFor
	placesCounted int                    // see PlacesCounted
	placesAsked   uint64                 // how often placesFor was asked
	volumes       *volumes.State
	devices       *devices.State
	deviceChanges devices.Changes // see Changes

	// Versions of memos, not state. Each grows when an answer that is remembered by it may have changed: a memo holds
	// while its version is the same. A restored State counts from zero.
	roomVersion   uint64      // see RoomVersion
	placements    uint64      // see Placements
	reprioritised uint64      // see Reprioritised
	allowed       uint64      // see Allowed
	version       uint64      // see Version
	beyond        uint64      // see Beyond
	listVersion   uint64      // see ListVersion
	moved         []types.UID // see Changes
	followed      bool        // TakeChanges was called
	changed       journal     // see ChangedSince

	withAffinity         nodeSet
	withAntiAffinity     nodeSet
	withWideAntiAffinity nodeSet

	pods   map[types.UID]*Pod
	byName map[types.NamespacedName]types.UID
	groups map[types.NamespacedName]*Group

	fallen    map[*Group]bool // had their minimum, lost it, and want the rest evicted
	restoring bool            // Restore is under way

	composites map[types.NamespacedName]*Composite
	namedBy    map[types.NamespacedName]map[*Composite]bool // by gang; the composites of gangs that name each other

	withoutNodes bool
	mine         func(schedulerName string) bool // nil: every pod is

	plain plainPods // a memo of newPodInfo

	// recounted are the groups whose members or terms may have changed, see Changes; no state, as judged.
	recounted []*Group
	judged    map[*Group]bool // whether they were refused, see Changes
}

// New returns the state before the first entry: nothing.
func New() *State {
	informers := NewInformers()
	s := &State{
		informers:            informers,
		nodes:                map[string]*node{},
		images:               map[string]*fwk.ImageStateSummary{},
		withAffinity:         nodeSet{members: map[string]fwk.NodeInfo{}},
		withAntiAffinity:     nodeSet{members: map[string]fwk.NodeInfo{}},
		withWideAntiAffinity: nodeSet{members: map[string]fwk.NodeInfo{}},
		pods:                 map[types.UID]*Pod{},
		byName:               map[types.NamespacedName]types.UID{},
		groups:               map[types.NamespacedName]*Group{},
		fallen:               map[*Group]bool{},
		judged:               map[*Group]bool{},
		composites:           map[types.NamespacedName]*Composite{},
		namedBy:              map[types.NamespacedName]map[*Composite]bool{},
	}
	s.volumes = volumes.New(informers)
	s.devices = devices.New(seenByDevices{s}, informers.Factory())
	s.free.devices = s.devices
	return s
}

// SetMine says which pods, by the scheduler that they name, this scheduler places: no other member of a gang can
// be counted on. It must be called before any pod comes; without it all are.
func (s *State) SetMine(mine func(schedulerName string) bool) { s.mine = mine }

// WithoutNodes says that s is told of no nodes: a pod that has one has it, then. It must be called before any pod
// comes.
func (s *State) WithoutNodes() { s.withoutNodes = true }

// Volumes returns the part of the state that is about volumes and the claims of them. Only the State changes it.
func (s *State) Volumes() *volumes.State { return s.volumes }

// Informers returns the log-fed informers over the state's objects.
func (s *State) Informers() *Informers { return s.informers }

// Version returns a number that changes with every object that comes, goes or changes, pods left out. It is
// a memo's version, not state.
func (s *State) Version() uint64 { return s.version }

// Upsert takes in an object that is neither a pod nor a node, and returns what was there before, nil if
// nothing did. Pods and nodes have lives of their own: see UpsertPod and UpsertNode.
func (s *State) Upsert(res eventlog.Resource, obj eventlog.Object) (old eventlog.Object, err error) {
	s.version++
	s.beyondNodes(res)
	switch res {
	case eventlog.Pods, eventlog.Nodes:
		return nil, fmt.Errorf("upsert %s: not by Upsert", res)
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups:
		if err := s.declareGroup(res, obj); err != nil {
			return nil, err
		}
	case eventlog.CompositePodGroups:
		c, ok := obj.(*schedulingv1alpha3.CompositePodGroup)
		if !ok {
			return nil, fmt.Errorf("upsert %s: object is a %T", res, obj)
		}
		s.compose(c)
	case eventlog.DeviceClasses:
		s.roomVersion++ // a resource may stand for devices now
	case eventlog.PriorityClasses:
		s.classChanged(obj.GetName())
	}
	if devices.Keeps(res) {
		var c devices.Changes
		old, c, err = s.devices.Upsert(res, obj)
		s.noteDevices(c)
		return old, err
	}
	if volumes.Keeps(res) {
		return s.volumes.Upsert(res, obj)
	}
	old, err = s.informers.Upsert(res, obj)
	s.recountFor(res, types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()})
	return old, err
}

// Delete takes an object that is neither a pod nor a node away and returns it, nil if it was not there.
func (s *State) Delete(res eventlog.Resource, namespace, name string) (old eventlog.Object) {
	s.version++
	s.beyondNodes(res)
	switch res {
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups:
		s.withdrawGroup(res, types.NamespacedName{Namespace: namespace, Name: name})
	case eventlog.CompositePodGroups:
		s.decompose(types.NamespacedName{Namespace: namespace, Name: name})
	case eventlog.DeviceClasses:
		s.roomVersion++
	case eventlog.PriorityClasses:
		s.classChanged(name)
	}
	if devices.Keeps(res) {
		old, c := s.devices.Delete(res, namespace, name)
		s.noteDevices(c)
		return old
	}
	if volumes.Keeps(res) {
		return s.volumes.Delete(res, namespace, name)
	}
	old = s.informers.Delete(res, namespace, name)
	s.recountFor(res, types.NamespacedName{Namespace: namespace, Name: name})
	return old
}

// recountFor counts again what pods hold if an object has come, changed or gone that their priorities depend on.
func (s *State) recountFor(res eventlog.Resource, name types.NamespacedName) {
	switch res {
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups:
		s.recountWith(name)
	case eventlog.CompositePodGroups:
		if c := s.composites[name]; c != nil {
			s.recountAll(c.together()...)
		}
	case eventlog.PriorityClasses:
		// any order: sums of integers
		for _, g := range s.groups {
			s.recountAll(g)
		}
	}
}
