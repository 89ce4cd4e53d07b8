package cluster

import (
	"fmt"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/cluster/volumes"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// State is the cluster as described by the entries applied so far. Each of its parts has the data of its own entries.
// The State changes the parts, and keeps the data that spans several of them: which pods are on which nodes, and the
// free amounts. It is not safe for concurrent use.
type State struct {
	nodes     *Nodes
	pods      *Pods
	gangs     *Gangs
	volumes   *volumes.State
	devices   *devices.State
	informers *Informers

	free     Capacity
	waits    Waits
	holdings holdings
	gone     freeWithout // a memo, see freeFor

	record        *record         // what memos are kept by: no state
	deviceChanges devices.Changes // see Changes
	objects       objects
	moved         []types.UID // see Changes
	followed      bool        // TakeChanges was called
}

// New returns the state before the first entry: nothing.
func New() *State {
	s := &State{nodes: newNodes(), pods: newPods(), informers: NewInformers(), record: &record{}}
	s.gangs = newGangs(s.nodes, s.pods, s.informers, s.record)
	s.volumes = volumes.New(s.informers)
	s.devices = devices.New(seenByDevices{s}, s.informers.Factory())
	s.free.devices = s.devices
	s.objects.State = s
	return s
}

// Nodes returns the part of the state that is about nodes. Only the State changes it.
func (s *State) Nodes() *Nodes { return s.nodes }

// Pods returns the part of the state that is about pods. Only the State changes it.
func (s *State) Pods() *Pods { return s.pods }

// Gangs returns the part of the state that is about gangs. Only the State changes it.
func (s *State) Gangs() *Gangs { return s.gangs }

// SetMine says which pods, by the scheduler that they name, this scheduler places: no other member of a gang can
// be counted on. It must be called before any pod comes; without it all are.
func (s *State) SetMine(mine func(schedulerName string) bool) { s.gangs.mine = mine }

// WithoutNodes says that s will receive no nodes: every node that a pod names exists, then. It must be called before
// any pod comes.
func (s *State) WithoutNodes() { s.nodes.unknown = true }

// Volumes returns the part of the state that is about volumes and the claims of them. Only the State changes it.
func (s *State) Volumes() *volumes.State { return s.volumes }

// Informers returns the log-fed informers over the state's objects.
func (s *State) Informers() *Informers { return s.informers }

// Upsert takes in an object that is neither a pod nor a node, and returns the object before it, nil if there was none.
// See UpsertPod and UpsertNode for the others.
func (s *State) Upsert(res eventlog.Resource, obj eventlog.Object) (old eventlog.Object, err error) {
	s.record.note(ObjectChanged)
	s.beyondNodes(res)
	switch res {
	case eventlog.Pods, eventlog.Nodes:
		return nil, fmt.Errorf("upsert %s: not by Upsert", res)
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups:
		if err := s.gangs.declare(res, obj); err != nil {
			return nil, err
		}
	case eventlog.CompositePodGroups:
		c, ok := obj.(*schedulingv1alpha3.CompositePodGroup)
		if !ok {
			return nil, fmt.Errorf("upsert %s: object is a %T", res, obj)
		}
		s.gangs.compose(c)
	case eventlog.DeviceClasses:
		s.record.note(RoomFreed) // a resource may be a name for devices now
	case eventlog.PriorityClasses:
		s.gangs.classChanged(obj.GetName())
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
	s.record.note(ObjectChanged)
	s.beyondNodes(res)
	switch res {
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups:
		s.gangs.withdraw(res, types.NamespacedName{Namespace: namespace, Name: name})
	case eventlog.CompositePodGroups:
		s.gangs.decompose(types.NamespacedName{Namespace: namespace, Name: name})
	case eventlog.DeviceClasses:
		s.record.note(RoomFreed)
	case eventlog.PriorityClasses:
		s.gangs.classChanged(name)
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

// recountFor counts again what pods hold if an object has come, changed or gone that their priorities depend on, or if
// it has moved gangs from one CompositePodGroup to another.
func (s *State) recountFor(res eventlog.Resource, name types.NamespacedName) {
	switch res {
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups:
		s.recountWith(name)
	case eventlog.CompositePodGroups:
		if c := s.gangs.composites[name]; c != nil {
			s.recountAll(c.together()...)
		}
	case eventlog.PriorityClasses:
		// any order: sums of integers
		for _, g := range s.gangs.byName {
			s.recountAll(g)
		}
	}
	s.recountAll(s.gangs.takeRepriced()...)
}
