package answer

import (
	"k8s.io/apimachinery/pkg/types"
)

// Preemption is a decision that preempts pods for a pod, or a gang, of higher priority.
type Preemption struct {
	// Point is the point of the decision. All fields beside it are of that point.
	Point
	By Preemptor `json:"by"`
	// Pods counts the victims: Victims are the first of them in the decision's order, at most 50.
	Pods    int      `json:"pods"`
	Victims []Victim `json:"victims"`
	// OwnPods counts the explained pods: the pod itself, or members of the gang. Own are the first of them, at most 50.
	// It is 0 if the preemptor is explained.
	OwnPods int      `json:"ownPods,omitempty"`
	Own     []Victim `json:"own,omitempty"`
	// Remaining counts the victims that still hold a node at the point in question, and not when it was decided.
	Remaining int `json:"remaining,omitempty"`
	// Refused are the latest results of victims whose eviction was refused, given up or withdrawn: the last 50 of them,
	// in the order of the log.
	Refused []EvictResult `json:"refused,omitempty"`

	// UIDs are the UIDs of all victims.
	UIDs []types.UID `json:"-"`
}

// Preemptor is the pod or gang that other pods are preempted for.
type Preemptor struct {
	// Pod (namespace/name) is the pod in whose cycle it was decided. Group is its gang if room was made for all
	// members that the gang lacked; "" if it was made for the pod alone.
	Pod   string `json:"pod"`
	Group string `json:"group,omitempty"`
	// Composite is the CompositePodGroup (namespace/name) that Group is below, if room was made for all that it lacked;
	// "" otherwise.
	Composite string `json:"composite,omitempty"`
	// Priority is the priority that counts for it: the gang's for a gang's member, if the gang has one.
	Priority int32 `json:"priority"`
	// Resize says that the pod was on its node, and room was made there for a resize that the kubelet had put off.
	Resize bool `json:"resize,omitempty"`
	// Nominated is the node that is kept for the pod.
	Nominated string `json:"nominated,omitempty"`
}

// Victim is a pod that has to give up its node.
type Victim struct {
	// Pod and Group are namespace/name; Group is the pod's gang, "" for none.
	Pod      string    `json:"pod"`
	UID      types.UID `json:"uid"`
	Group    string    `json:"group,omitempty"`
	Node     string    `json:"node,omitempty"`
	Priority int32     `json:"priority"`
	// Held says that the pod was held on its node by Permit: it was released and goes back to the queue. Another one
	// is asked to end.
	Held bool `json:"held,omitempty"`
}

// EvictResult is the result of an eviction.
type EvictResult struct {
	Point
	// Pod is namespace/name; "" for one that is not known any more.
	Pod string    `json:"pod,omitempty"`
	UID types.UID `json:"uid"`
	// Outcome is Done, Gone, Refused, GivenUp or Withdrawn; Message has the words of the API server.
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
	// RetryAt is the time at which a refused eviction is tried again.
	RetryAt Instant `json:"retryAt,omitzero"`
	// SparedUntil is until when the pod is no victim, if its eviction was given up and that time is not over.
	SparedUntil Instant `json:"sparedUntil,omitzero"`
	// Decision is the entry that asked for the eviction.
	Decision uint64 `json:"decision"`
}

// Ends counts the pods of a gang that are gone, by how they went. One that was preempted or evicted and has ended
// since counts as that, however it ended.
type Ends struct {
	Succeeded int `json:"succeeded,omitempty"`
	Failed    int `json:"failed,omitempty"`
	// Preempted had to go for pods of higher priority; Evicted went because their gang fell below its minimum.
	Preempted int `json:"preempted,omitempty"`
	Evicted   int `json:"evicted,omitempty"`
	// AskedToGo had been asked to go, for pods or with their gang, before the first entry that is known.
	AskedToGo int `json:"askedToGo,omitempty"`
	// Deleted were deleted by somebody else.
	Deleted int `json:"deleted,omitempty"`
}
