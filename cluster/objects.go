package cluster

import (
	"iter"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/rollcall-sched/rollcall/cluster/volumes"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Objects returns every present object as its last entry has it. First come the resources of plugins, then the others,
// each by resource, namespace and name. Assumptions of decisions about volumes and claims are not in them. A pod that a
// decision has given a node has it only once the bind is known. Finished pods are gone. The objects must not be
// changed.
func (s *State) Objects() iter.Seq2[eventlog.Resource, eventlog.Object] {
	return func(yield func(eventlog.Resource, eventlog.Object) bool) {
		for _, own := range s.informers.own {
			if !s.objectsOf(own.Resource, func(obj eventlog.Object) bool { return yield(own.Resource, obj) }) {
				return
			}
		}
		for _, res := range s.informers.names {
			if !s.objectsOf(res, func(obj eventlog.Object) bool { return yield(res, obj) }) {
				return
			}
		}
	}
}

// ObjectsOf yields the objects of one resource, in the order of Objects.
func (s *State) ObjectsOf(res eventlog.Resource) iter.Seq[eventlog.Object] {
	return func(yield func(eventlog.Object) bool) { s.objectsOf(res, yield) }
}

// objectsOf calls yield with every object of a resource, until one call returns false.
func (s *State) objectsOf(res eventlog.Resource, yield func(eventlog.Object) bool) bool {
	switch res {
	case eventlog.Pods:
		for _, p := range s.pods.All() {
			if !yield(p.Object) {
				return false
			}
		}
		return true
	case eventlog.Nodes:
		for _, info := range s.nodes.listed {
			if !yield(info.Node()) {
				return false
			}
		}
		return true
	}
	for _, obj := range s.informers.List(res) {
		if volumes.Keeps(res) {
			obj = s.volumes.Logged(res, obj)
		} else if claim, ok := obj.(*resourcev1.ResourceClaim); ok {
			obj = s.devices.Logged(claim)
		}
		if !yield(obj) {
			return false
		}
	}
	return true
}
