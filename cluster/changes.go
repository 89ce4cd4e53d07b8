package cluster

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Changes are the changes of a State since the last entry, for code that derives data from it. The zero value has none.
// They are no state: the caller that applies an entry takes the changes before it applies the next one.
type Changes struct {
	// Objects are the objects that Apply took in: most often one. There are two if a pod came under the name of
	// another one, whose deletion nobody saw. The slice is valid until the State changes again.
	Objects []ObjectChange
	// Gangs are the gangs whose needs may have changed.
	Gangs []*Group
	// Judged are the gangs that are refused now and were not, or the other way round, because of where their members
	// are; by namespace and name.
	Judged []*Group
	// Pods are the pods that came, changed, went, or came to another stage, some of them more than once. The slice is
	// valid until the State changes again. It is empty at the first call of TakeChanges: who follows a State looks at
	// all pods then.
	Pods []types.UID
	// Devices says what changed about devices, without the changes that the State has dealt with itself.
	Devices devices.Changes
}

// TakeChanges returns the changes since the last call.
func (s *State) TakeChanges() Changes {
	c := Changes{
		Objects: s.objects.changes,
		Gangs:   s.gangs.takeRecounted(),
		Judged:  s.gangs.takeJudged(),
		Pods:    s.moved,
		Devices: s.deviceChanges,
	}
	s.objects.changes, s.moved, s.followed = s.objects.changes[:0], s.moved[:0], true
	s.deviceChanges = devices.Changes{}
	return c
}

// The versions of memos of plugins' answers: which nodes have changed, and what else the answers depend on. None of it
// is state. A restored Machine begins again.

// Kind is a kind of change. A memo that depends on some kinds holds until one of them happens.
type Kind uint8

const (
	// RoomFreed: capacity was freed or added, a resource is no longer offered, or a gang's members or minimum changed.
	// An answer of Lacks may have turned from true to false.
	RoomFreed Kind = iota
	// PodPlaced: a pod was put on a node.
	PodPlaced
	// PodAllowed: a pod may go from its wait to the bind. From then on it is known when it ends.
	PodAllowed
	// Reprioritised: a pod that stays on its node came to count with another priority.
	Reprioritised
	// ObjectChanged: an object other than a pod came, changed or went.
	ObjectChanged
	// PluginInputs: something changed that plugins' answers about a node may depend on, besides the node and its pods.
	// Nodes that come and go count, images, and all other objects that plugins read. This holds for pods without
	// claims, and for the pods that devices.State.AppendClaims accepts.
	//
	// Objects that describe gangs and disruptions do not count. Resources that a configuration declares do not count
	// either: only added plugins read them, whose answers are not remembered. ResourceClaims and ResourceSlices count
	// only if devices are scored as resources, see devices.State.ScoreBy.
	PluginInputs
	// NodeListed: a node came or went, and so the places of others in List changed. It is for memos that depend on
	// nodes and on their pods, and on nothing else that PluginInputs counts.
	NodeListed

	kinds
)

// record counts the changes of each kind. It is no state: a restored State begins a new one.
type record [kinds]uint64

// note counts a change.
func (r *record) note(k Kind) { r[k]++ }

// minJournal is the minimum number of changes of nodes that are kept. At least twice as many are kept as there are
// nodes. A ranking that was not used while more nodes changed compares all nodes.
const minJournal = 1024

// journal has the nodes that changed, by their places in List, in the order of the changes. Example: first is 100 and
// places is [7 3 7]: changes 100 and 102 were of node 7, change 101 of node 3. A memo that is up to date with change
// 101 needs to look at node 7 again.
type journal struct {
	places []int32
	first  uint64 // the number of the first in places
}

// Changed returns a number that differs after every change of the kind. It is a memo's version, not state.
func (s *State) Changed(k Kind) uint64 { return s.record[k] }

// beyondNodes counts a change of an object that is neither a node nor a pod.
func (s *State) beyondNodes(res eventlog.Resource) {
	switch res {
	case eventlog.PodGroups,
		eventlog.XPodGroups,
		eventlog.VolcanoPodGroups,
		eventlog.KAIPodGroups,
		eventlog.CompositePodGroups,
		eventlog.PriorityClasses,
		eventlog.PodDisruptionBudgets,
		eventlog.ResourceClaims,
		eventlog.ResourceSlices: // see devices.Changes for the last two
	default:
		if !eventlog.IsOwn(res) {
			s.record.note(PluginInputs)
		}
	}
}

// sameImages reports whether the nodes have the same images.
func sameImages(a, b *v1.Node) bool {
	return slices.EqualFunc(a.Status.Images, b.Status.Images, func(x, y v1.ContainerImage) bool {
		return x.SizeBytes == y.SizeBytes && slices.Equal(x.Names, y.Names)
	})
}
