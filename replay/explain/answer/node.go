package answer

import (
	"k8s.io/apimachinery/pkg/types"
)

// Node is the state of a node at one point of the log, how it came about, and the fate of its pods.
type Node struct {
	Node string `json:"node"`
	// At is the last entry that takes part in the answer. KnownFrom is as Pod's.
	At        Point  `json:"at"`
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Status has Gone; or Ready, NotReady or Unreachable, and then Tainted and Cordoned. Since is the entry since which
	// it is so; nil if that is before KnownFrom.
	Status []string `json:"status"`
	Since  *Point   `json:"since,omitempty"`
	// Message says all of that in one sentence.
	Message string   `json:"message"`
	Taints  []string `json:"taints,omitempty"`
	// Pods are the pods on it at the point in question.
	Pods []NodePod `json:"pods"`
	// Changes are the changes of its status, in order: the last 100. Omitted is the number of earlier ones.
	Changes []NodeChange `json:"changes"`
	Omitted int          `json:"omitted,omitempty"`
	// Episodes are the times for which it was not Ready alone: the last ones, at most 3. OmittedEpisodes is the number
	// of earlier ones.
	Episodes        []NodeEpisode `json:"episodes"`
	OmittedEpisodes int           `json:"omittedEpisodes,omitempty"`
}

// NodeChange is a change of the status of a node.
type NodeChange struct {
	Point
	// The change: joined, deleted, or the new status, such as "Unreachable" or "Ready, Cordoned".
	What string `json:"what"`
}

// NodeEpisode is a time for which a node was not Ready alone, from its first change to the one that ended it.
type NodeEpisode struct {
	From NodeChange `json:"from"`
	// Worst is the worst status in it: Gone, Unreachable, NotReady, Tainted or Cordoned.
	Worst string `json:"worst"`
	// Until is the change that made it Ready again; nil if none did up to the point in question.
	Until *NodeChange `json:"until,omitempty"`
	// Pods are the pods that were on the node when the episode began, and their fates up to the point in
	// question. Pods that came to it later are not among them.
	Pods []NodePod `json:"pods"`
}

// NodePod is a pod that was on a node.
type NodePod struct {
	// Pod and Group are namespace/name; Group is "" for a pod of no gang.
	Pod   string    `json:"pod"`
	UID   types.UID `json:"uid"`
	Group string    `json:"group,omitempty"`
	Stage string    `json:"stage"`
	// Since is the time at which it got the node.
	Since Instant `json:"since,omitzero"`
	// Fate is the fate of the pod: Stays, Leaving, LostWithNode, Preempted, EvictedWithGang, Drained, Evicted,
	// Succeeded, Failed, Released or Deleted. FateAt is the first entry that says so; nil for Stays. Gone is the entry
	// that took it away; nil if it is still there.
	Fate   string `json:"fate"`
	FateAt *Point `json:"fateAt,omitempty"`
	Gone   *Point `json:"gone,omitempty"`
	// Next is the pod that came in its place: the next one of its name, or else a new member of its gang. The members
	// that the gang lost, on all nodes, and the new ones are paired in their order. nil if none came.
	Next *NextPod `json:"next,omitempty"`
}

// NextPod is a pod that came in the place of another one.
type NextPod struct {
	Pod string    `json:"pod"`
	UID types.UID `json:"uid"`
	// Came is its first entry. Node is the node that it was given first, and Placed the decision that did; nil if none
	// did up to the point in question.
	Came   Point  `json:"came"`
	Node   string `json:"node,omitempty"`
	Placed *Point `json:"placed,omitempty"`
}
