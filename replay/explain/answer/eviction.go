package answer

import (
	"k8s.io/apimachinery/pkg/types"
)

// PodEviction is the last eviction of a pod up to a point of the log: for whom, with which rule, and why this pod.
type PodEviction struct {
	Pod   string    `json:"pod"`
	UID   types.UID `json:"uid"`
	Group string    `json:"group,omitempty"`
	// At is the last entry that takes part in the answer; KnownFrom is as Pod's.
	At        Point  `json:"at"`
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Kind is Preempted, EvictedWithGang (its gang had fallen below its minimum), or ByOthers: no decision of the log
	// evicted it, and somebody else did.
	Kind string `json:"kind"`
	// Decision is the decision that evicted it; it has none with ByOthers.
	Decision Point `json:"decision,omitzero"`
	// Removal says who evicted it; nil for other kinds than ByOthers.
	Removal *Removal `json:"removal,omitempty"`
	// Preemption is the preemption, with the pod as its own; nil for EvictedWithGang.
	Preemption *Preemption `json:"preemption,omitempty"`
	// Result is the latest result of the eviction, nil if none has come.
	Result *EvictResult `json:"result,omitempty"`
	// Message names the preemptor. Rule names the rule, and why this pod is a victim.
	Message string `json:"message"`
	Rule    string `json:"rule"`
	// Possible are the pods that might have been evicted, in the order in which they are taken: the least important
	// first. OtherPossible is the number of others behind the first 200. Both are known only if this program makes the
	// same decision again.
	Possible      []PossibleVictim `json:"possible,omitempty"`
	OtherPossible int              `json:"otherPossible,omitempty"`
	// Options are the sets of victims that would have made room.
	Options []VictimOption `json:"options,omitempty"`
	// Unknown says why Possible and Options are not known.
	Unknown string `json:"unknown,omitempty"`
}

// PossibleVictim is a pod that might have been evicted.
type PossibleVictim struct {
	Victim
	// Chosen says that it was evicted. Started is the start of the pod, zero for one that had not started.
	Chosen  bool    `json:"chosen"`
	Started Instant `json:"started,omitzero"`
	// Why says why it was chosen or not.
	Why string `json:"why"`
}

// VictimOption is a set of victims that would have made room.
type VictimOption struct {
	// Node is the node for a single pod, Domain the number of nodes of a gang's domain; 0 for all nodes.
	Node   string `json:"node,omitempty"`
	Domain int    `json:"domain,omitempty"`
	// Chosen says that it was chosen.
	Chosen bool `json:"chosen"`
	// Pods is the number of victims, Violations the number that a disruption budget protects, Highest the highest
	// priority among the victims, and Sum the sum of their priorities.
	Pods       int      `json:"pods"`
	Violations int      `json:"violations"`
	Highest    int32    `json:"highest"`
	Sum        int64    `json:"sum"`
	Victims    []string `json:"victims"`
}
