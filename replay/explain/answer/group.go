package answer

import (
	"k8s.io/apimachinery/pkg/types"
)

// Group is where a gang stood at one point of the log, and how it came there.
type Group struct {
	// Group is namespace/name.
	Group string `json:"group"`
	// At is the last entry that takes part in the answer.
	At Point `json:"at"`
	// KnownFrom is as Pod's; attempts before it are counted in History.Omitted.
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Stage is Undeclared (its PodGroup is not there), Refused (it contradicts itself), Incomplete (too few members),
	// Pending, Placed (its minimum is on nodes for good), BelowMinimum (it was Placed, has fewer members on nodes now,
	// and none that could follow), Preempted (the same, with no member left, and the last ones had to go for others),
	// Evicted (the same, and the rest was asked to go; or all that are left were, and what came before is not known),
	// Done (as many as it needs have ended well, and none is on a node any more), or Gone.
	Stage string `json:"stage"`
	// WhenBelow is what becomes of the rest when it has fallen below its minimum: Keep or Evict.
	WhenBelow string `json:"whenBelow,omitempty"`
	// Evicted is where the rest of it was last asked to go, if it has not been placed again since.
	Evicted *Eviction `json:"evicted,omitempty"`
	// Refusal is what a Refused gang contradicts itself in.
	Refusal string `json:"refusal,omitempty"`
	// Declared says that its PodGroup is there; Min is how many members are placed together.
	Declared bool `json:"declared"`
	Min      int  `json:"min"`
	// LastMin is the minimum when it was last declared, if it is not any more; 0 if it never was.
	LastMin int `json:"lastMin,omitempty"`
	// Members are its pods at that point, by name, and Counts adds them up.
	Members []GroupMember `json:"members"`
	Counts  GroupCounts   `json:"counts"`
	// Ends are how those went that Counts has as Gone.
	Ends Ends `json:"ends,omitzero"`
	// Queue is where it stands in the queue; nil if it does not.
	Queue *QueuePlace `json:"queue,omitempty"`
	// Reason is why it, or a member beyond its minimum, is pending; nil if nothing is.
	Reason *Reason `json:"reason,omitempty"`
	// Together is what it is admitted together with; nil for nothing.
	Together *Together `json:"together,omitempty"`
	// History is what happened to it.
	History GroupHistory `json:"history"`
	// LastFailure is the decision that made its last failed attempt fail, whether or not it was placed after.
	LastFailure *Decision `json:"lastFailure,omitempty"`
	// Needs is what it lacks to have its minimum and who has it: at the last failure, or at the point in question for a
	// gang that is pending without one, or for which all nodes together have too little then too. Nil if nothing is
	// missing.
	Needs *GangNeeds `json:"needs,omitempty"`
}

// GroupMember is one pod of a gang.
type GroupMember struct {
	Pod  string    `json:"pod"`
	UID  types.UID `json:"uid"`
	Node string    `json:"node,omitempty"`
	// Stage is Pending, Waiting, Binding or Bound.
	Stage string `json:"stage"`
	// Leaving says that it is to go: it is being deleted, or asked to go, or its node is gone. One that is Pending has
	// no node any more, and gets none.
	Leaving bool `json:"leaving,omitempty"`
	// Nominated is the node that is kept for a Pending member, because pods had to go for it or its gang.
	Nominated string `json:"nominated,omitempty"`
	// GatingPlugin keeps a Pending member out of the queue, and GatingMessage is what it says.
	GatingPlugin  string `json:"gatingPlugin,omitempty"`
	GatingMessage string `json:"gatingMessage,omitempty"`
}

// GroupCounts counts the members of a gang.
type GroupCounts struct {
	// Ready are pending members that count towards the minimum: no scheduling gate of their own, not to go. Waiting are
	// held on nodes; Assigned have their node for good; Leaving are there still and are to go; Gone were deleted or
	// have finished, EndedWell of them successfully since the gang first had its minimum: these are not missed. Gated
	// are the pending ones that a plugin keeps out of the queue: ready ones too, while the gang is incomplete.
	Ready    int `json:"ready"`
	Waiting  int `json:"waiting"`
	Assigned int `json:"assigned"`
	Leaving  int `json:"leaving"`
	Gated    int `json:"gated"`
	Gone     int `json:"gone"`

	EndedWell int `json:"endedWell"`
}

// Together is what a gang is admitted together with.
type Together struct {
	// Composite is the CompositePodGroup (namespace/name); "" for gangs that name each other.
	Composite string `json:"composite,omitempty"`
	// Declared says that it is known how many gangs are enough, and Min is that number. Refusal is what the gangs
	// together contradict themselves in.
	Declared bool   `json:"declared"`
	Min      int    `json:"min"`
	Refusal  string `json:"refusal,omitempty"`
	// Gangs are all of them, the gang itself among them, by name, at most 50; Others is how many more there are.
	Gangs  []GangProgress `json:"gangs"`
	Others int            `json:"others,omitempty"`
}

// GangProgress is how far a gang has come.
type GangProgress struct {
	Group string `json:"group"`
	// Declared says that its minimum is known, Min; Refusal is what it contradicts itself in.
	Declared bool   `json:"declared"`
	Min      int    `json:"min"`
	Refusal  string `json:"refusal,omitempty"`
	// Present are the members that have a node or could get one; Held of them are held on nodes, and Placed have their
	// node for good.
	Present int `json:"present"`
	Held    int `json:"held"`
	Placed  int `json:"placed"`
}
