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
		Objects: s.objects,
		Gangs:   s.gangs.takeRecounted(),
		Judged:  s.gangs.takeJudged(),
		Pods:    s.moved,
		Devices: s.deviceChanges,
	}
	s.objects, s.moved, s.followed, s.deviceChanges = s.objects[:0], s.moved[:0], true, devices.Changes{}
	return c
}

// The versions of memos of plugins' answers: which nodes have changed, and what else the answers depend on. None of it
// is state. A restored Machine begins again.

// kind is a kind of change. A memo that depends on some kinds holds until one of them happens.
type kind uint8

const (
	// roomFreed: capacity was freed or added, a resource is no longer offered, or a gang's members or minimum changed.
	// An answer of Lacks may have turned from true to false.
	roomFreed kind = iota
	// podPlaced: a pod was put on a node.
	podPlaced
	// podAllowed: a pod may go from its wait to the bind. From then on it is known when it ends.
	podAllowed
	// reprioritised: a pod that stays on its node came to count with another priority.
	reprioritised
	// objectChanged: an object other than a pod came, changed or went.
	objectChanged
	// pluginInputs: something changed that plugins' answers about a node may depend on, besides the node and its pods.
	// See State.Beyond.
	pluginInputs
	// nodeListed: a node came or went, and so the places of others in List changed.
	nodeListed

	kinds
)

// record counts the changes of each kind. It is no state: a restored State begins a new one.
type record [kinds]uint64

// note counts a change.
func (r *record) note(k kind) { r[k]++ }

// version returns a number that differs after every change of the kind.
func (r *record) version(k kind) uint64 { return r[k] }

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

// Beyond returns a number that changes with everything that plugins' answers about a node may depend on besides the
// node and its pods. It holds for pods without claims, and for the pods that devices.State.AppendClaims accepts. It
// counts nodes that come and go, images, and all other objects that plugins look at.
//
// It does not count objects that describe gangs and disruptions. It does not count resources that a configuration
// declares either: only added plugins read them, whose answers are not remembered. It counts ResourceClaims and
// ResourceSlices only if devices are scored as resources, see devices.State.ScoreBy.
func (s *State) Beyond() uint64 { return s.record.version(pluginInputs) }

// ListVersion returns a number that changes when a node comes or goes, and so the places of others change. It is for
// memos that depend on nodes and on their pods, and on nothing else that Beyond counts.
func (s *State) ListVersion() uint64 { return s.record.version(nodeListed) }

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
			s.record.note(pluginInputs)
		}
	}
}

// sameImages reports whether the nodes have the same images.
func sameImages(a, b *v1.Node) bool {
	return slices.EqualFunc(a.Status.Images, b.Status.Images, func(x, y v1.ContainerImage) bool {
		return x.SizeBytes == y.SizeBytes && slices.Equal(x.Names, y.Names)
	})
}
