package cluster

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Changes says what changed in a State, for those that derive something of their own from it. The zero value says that
// nothing did. It is no state: whoever applies an entry takes the changes before it applies the next one.
type Changes struct {
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

// TakeChanges returns what changed since it was called last.
func (s *State) TakeChanges() Changes {
	c := Changes{Gangs: s.takeRecounted(), Judged: s.takeJudged(), Pods: s.moved, Devices: s.deviceChanges}
	s.moved, s.followed, s.deviceChanges = s.moved[:0], true, devices.Changes{}
	return c
}

// What memos of plugins' answers are kept by: which nodes have changed, and what else there is that they depend on.
// None of it is state: a restored Machine begins anew.

// minJournal is how many changes of nodes are kept at the least, and at least twice as many as there are nodes. A
// ranking that was not used while more nodes changed compares all nodes.
const minJournal = 1024

// journal is the nodes that changed, by their places in List, in the order of the changes. Example: first is 100 and
// places is [7 3 7]: changes 100 and 102 were of node 7, change 101 of node 3. What was known up to change 101 needs to
// look at node 7 again.
type journal struct {
	places []int32
	first  uint64 // the number of the first in places
}

// touched notes that the node, or a pod on it, has changed.
func (s *State) touched(name string) {
	at, ok := s.findListed(name)
	if !ok {
		return
	}
	j := &s.changed
	if keep := max(minJournal, 2*len(s.listed)); len(j.places) >= 2*keep {
		j.first += uint64(len(j.places) - keep)
		j.places = append(j.places[:0], j.places[len(j.places)-keep:]...)
	}
	j.places = append(j.places, int32(at))
}

// ChangedSince returns the places in List of the nodes that changed since the answer before gave now, some of them more
// than once; ok is false if it is not known any more. Where ListVersion has changed, and so Beyond, the places mean
// nothing.
func (s *State) ChangedSince(since uint64) (places []int32, now uint64, ok bool) {
	j := &s.changed
	now = j.first + uint64(len(j.places))
	if since < j.first || since > now {
		return nil, now, false
	}
	return j.places[since-j.first:], now, true
}

// Beyond returns a number that changes with everything that plugins' answers about a node may depend on besides the
// node and the pods there, for pods that name no claims, or those that devices.State.AppendClaims says it of: nodes
// that come and go, images, and all other objects that plugins look at. Those that say what gangs are and who may be
// disrupted are not among these, nor are those of resources that a configuration declares: plugins of others read them,
// and nothing of what these answer is remembered. ResourceClaims and ResourceSlices are only if devices are scored as
// resources, see devices.State.ScoreBy.
func (s *State) Beyond() uint64 { return s.beyond }

// ListVersion returns a number that changes when a node comes or goes, by which the places of others change. It is for
// memos that rest on nodes and on the pods there, and on nothing else that Beyond counts.
func (s *State) ListVersion() uint64 { return s.listVersion }

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
			s.beyond++
		}
	}
}

// sameImages reports whether the nodes have the same images.
func sameImages(a, b *v1.Node) bool {
	return slices.EqualFunc(a.Status.Images, b.Status.Images, func(x, y v1.ContainerImage) bool {
		return x.SizeBytes == y.SizeBytes && slices.Equal(x.Names, y.Names)
	})
}
