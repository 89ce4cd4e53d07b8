package answer

import (
	"k8s.io/apimachinery/pkg/types"
)

// Group is the state of a gang at one point of the log, and how it came about.
type Group struct {
	// Group is namespace/name.
	Group string `json:"group"`
	// At is the last entry that takes part in the answer.
	At Point `json:"at"`
	// KnownFrom is as Pod's; attempts before it are counted in History.Omitted.
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Stage is one of these. Undeclared: its PodGroup does not exist. Refused: it contradicts itself. Incomplete: too
	// few members. Pending. Placed: its minimum is bound. BelowMinimum: it was Placed, has fewer members on nodes now,
	// and none that could follow. Preempted: the same, with no member left, and the last ones were preempted. Evicted:
	// the same, and the rest was evicted; or all that are left were, before the first known entry. Done: as many as it
	// needs have ended well, and none is on a node any more. Gone.
	Stage string `json:"stage"`
	// WhenBelow is the treatment of the rest when it has fallen below its minimum: Keep or Evict.
	WhenBelow string `json:"whenBelow,omitempty"`
	// Evicted is the last eviction of its rest, if it has not been placed again since.
	Evicted *Eviction `json:"evicted,omitempty"`
	// Refusal is the contradiction of a Refused gang.
	Refusal string `json:"refusal,omitempty"`
	// Declared says that its PodGroup exists; Min is the number of members that are placed together.
	Declared bool `json:"declared"`
	Min      int  `json:"min"`
	// LastMin is the minimum when it was last declared, if it is not any more; 0 if it never was.
	LastMin int `json:"lastMin,omitempty"`
	// Members are its pods at that point, by name, and Counts adds them up.
	Members []GroupMember `json:"members"`
	Counts  GroupCounts   `json:"counts"`
	// Ends counts the ends of the members that Counts has as Gone.
	Ends Ends `json:"ends,omitzero"`
	// Queue is its place in the queue; nil if it has none.
	Queue *QueuePlace `json:"queue,omitempty"`
	// Undecided is as Pod's.
	Undecided string `json:"undecided,omitempty"`
	// Reason is the reason why it, or a member beyond its minimum, is pending; nil if none is.
	Reason *Reason `json:"reason,omitempty"`
	// Together are the gangs that it is admitted together with; nil for none.
	Together *Together `json:"together,omitempty"`
	// History is its history.
	History GroupHistory `json:"history"`
	// LastFailure is the decision that made its last failed attempt fail, whether or not it was placed after.
	LastFailure *Decision `json:"lastFailure,omitempty"`
	// Needs are the resources that it lacks for its minimum, with their holders; nil if it lacks none. They are of the
	// last failure. For a gang that is pending without a failure they are of the point in question, also if all nodes
	// together have too little then too.
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
	// GatingPlugin keeps a Pending member out of the queue. GatingMessage is its message.
	GatingPlugin  string `json:"gatingPlugin,omitempty"`
	GatingMessage string `json:"gatingMessage,omitempty"`
}

// GroupCounts counts the members of a gang.
type GroupCounts struct {
	// Ready are pending members that count towards the minimum: without a scheduling gate of their own, and not to go.
	// Waiting are held on nodes. Assigned are bound or being bound. Leaving still exist and are to go. Gone were
	// deleted or have finished, EndedWell of them successfully since the gang first had its minimum: these are not
	// missed. Gated are the pending ones that a plugin keeps out of the queue: ready ones too, while the gang is
	// incomplete.
	Ready    int `json:"ready"`
	Waiting  int `json:"waiting"`
	Assigned int `json:"assigned"`
	Leaving  int `json:"leaving"`
	Gated    int `json:"gated"`
	Gone     int `json:"gone"`

	EndedWell int `json:"endedWell"`
}

// Together are the gangs that a gang is admitted together with.
type Together struct {
	// Composite is the CompositePodGroup (namespace/name); "" for gangs that name each other.
	Composite string `json:"composite,omitempty"`
	// Declared says that the number of gangs that are enough is known: Min. Refusal is the contradiction between the
	// gangs.
	Declared bool   `json:"declared"`
	Min      int    `json:"min"`
	Refusal  string `json:"refusal,omitempty"`
	// Gangs are all of them, the gang itself among them, by name, at most 50. Others is the number of the rest.
	Gangs  []GangProgress `json:"gangs"`
	Others int            `json:"others,omitempty"`
}

// GangProgress is the progress of a gang.
type GangProgress struct {
	Group string `json:"group"`
	// Declared says that its minimum is known: Min. Refusal is its contradiction.
	Declared bool   `json:"declared"`
	Min      int    `json:"min"`
	Refusal  string `json:"refusal,omitempty"`
	// Present are the members that have a node or could get one. Held of them are held on nodes, and Placed are bound
	// or being bound.
	Present int `json:"present"`
	Held    int `json:"held"`
	Placed  int `json:"placed"`
}
