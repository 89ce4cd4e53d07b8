package answer

import (
	"k8s.io/apimachinery/pkg/types"
)

// Pod is the state of a pod at one point of the log, and its reasons. Amounts of resources are in their base unit, cpu
// in thousandths of a core.
type Pod struct {
	// Pod and Group are namespace/name; Group is the gang that the pod names, "" for none.
	Pod   string    `json:"pod"`
	UID   types.UID `json:"uid"`
	Group string    `json:"group,omitempty"`
	// At is the last entry that takes part in the answer.
	At Point `json:"at"`
	// KnownFrom is the first known entry, if earlier ones are missing; 0 if the log has its first entry. A place before
	// it is given as entry 0. A decision before it is not explained.
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Stage is Pending, Waiting, Binding, Bound, or Gone: deleted or finished.
	Stage string `json:"stage"`
	// Node is the node on which the pod holds room, or held some before it was gone.
	Node string `json:"node,omitempty"`
	// SchedulerName is the pod's; Ignored says that the configuration has no profile of that name.
	SchedulerName string `json:"schedulerName,omitempty"`
	Ignored       bool   `json:"ignored,omitempty"`
	// Terminating says that the pod is being deleted.
	Terminating bool `json:"terminating,omitempty"`
	// Created is the point where the log first has the pod. Earlier counts the pods of the same name before it.
	Created Point `json:"created"`
	Earlier int   `json:"earlier,omitempty"`
	// Gone is the point where the pod was deleted or finished. GoneHow is Deleted, Succeeded or Failed.
	Gone    *Point `json:"gone,omitempty"`
	GoneHow string `json:"goneHow,omitempty"`
	// Resize is the progress of a resize of the pod that the kubelet has deferred. It is nil if there is none, or if
	// the configuration does not preempt for resizes.
	Resize *Resize `json:"resize,omitempty"`
	// Queue is the place of the pod, or of its gang, in the queue. It is nil if it has none: it is bound or gone, or
	// another scheduler's.
	Queue *QueuePlace `json:"queue,omitempty"`
	// Attempts counts the attempts to place the pod, or its gang. FirstQueued is the time when it was first active.
	// Both are kept when the pod leaves the queue.
	Attempts    int     `json:"attempts"`
	FirstQueued Instant `json:"firstQueued,omitzero"`
	// GatingPlugin keeps the pod itself out of the queue. GatingMessage is its message.
	GatingPlugin  string `json:"gatingPlugin,omitempty"`
	GatingMessage string `json:"gatingMessage,omitempty"`
	// Decision is the pod's own: of a pod that was given a node the one that gave it, of another the last
	// one; nil if there is none.
	Decision *Decision `json:"decision,omitempty"`
	// StoppedBy is the decision on another member that made the gang's last attempt fail, if that is the reason why the
	// pod has no node.
	StoppedBy *Decision `json:"stoppedBy,omitempty"`
	// Allowed is the decision that let a pod go which had waited for its gang, Released the last one
	// that took a waiting pod off its node.
	Allowed  *Point `json:"allowed,omitempty"`
	Released *Point `json:"released,omitempty"`
	// Bind is the latest result of binding the pod.
	Bind *Bind `json:"bind,omitempty"`
	// Nominated is the node that is kept for it while it is Pending, because pods had to go for it or its gang.
	Nominated string `json:"nominated,omitempty"`
	PodLosses
	PodLimits
	// Reason is the reason why it is pending, or why its gang is; nil if it is not.
	Reason *Reason `json:"reason,omitempty"`

	// Gang is the progress of the pod's gang; nil for a pod of no gang.
	Gang *GangNumbers `json:"-"`
}

// PodLimits says what an answer about a pod lacks, and why.
type PodLimits struct {
	// Untraced says, if a trace was asked for, why there is no decision that has one.
	Untraced string `json:"untraced,omitempty"`
	// Undecided says what a log without decisions does not know; "" for a log with decisions. Placing says how the pod
	// came to its node, as far as such a log tells.
	Undecided string   `json:"undecided,omitempty"`
	Placing   *Placing `json:"placing,omitempty"`
	// Removal says who made the pod go, and FailedFor why it has failed, as far as such a log tells.
	Removal   *Removal `json:"removal,omitempty"`
	FailedFor string   `json:"failedFor,omitempty"`
	// Choice is the bind of the pod by somebody else, and how good its node was then. Unrated says why there is none,
	// for a pod with a node; "" if there is one, or if the log has a decision on it.
	Choice *Choice `json:"choice,omitempty"`
	// Managed says who else queues the pod: Kueue, Volcano, KAI or YuniKorn. Disruption is the reason of the pod's
	// condition DisruptionTarget: why others evict it.
	Managed    []Managed `json:"managed,omitempty"`
	Disruption string    `json:"disruption,omitempty"`
	Unrated    string    `json:"unrated,omitempty"`
}

// Placing says how a pod came to its node, where somebody else has decided.
type Placing struct {
	// Since is the time; zero if it is not known.
	Since Instant `json:"since,omitzero"`
	// By is the user or the field manager that bound the pod; "" if it is not known.
	By string `json:"by,omitempty"`
}

// PodLosses says why a pod lost its node, and which pods lost theirs for it.
type PodLosses struct {
	// PreemptedBy is the last decision that preempted it for another pod or gang; nil for none.
	PreemptedBy *Preemption `json:"preemptedBy,omitempty"`
	// Evicted is the decision that evicted it because its gang had fallen below its minimum; nil for none.
	Evicted *Eviction `json:"evicted,omitempty"`
	// AskedToGoBy is the entry that evicted it, if that is before KnownFrom and its eviction is still outstanding; 0
	// for none.
	AskedToGoBy uint64 `json:"askedToGoBy,omitempty"`
	// Eviction is the latest result of its eviction for PreemptedBy or Evicted.
	Eviction *EvictResult `json:"eviction,omitempty"`
	// Preempted are the decisions that preempted others for it, or for its gang: the last ones, in order, at most 20.
	// OmittedPreempted is the number of earlier ones.
	Preempted        []Preemption `json:"preempted,omitempty"`
	OmittedPreempted int          `json:"omittedPreempted,omitempty"`
	// NodeLost is the loss of the node on which the pod was. EarlierNodeLost is the last loss of a node on which an
	// earlier pod of the name was. Both are nil for none.
	NodeLost        *NodeLoss `json:"nodeLost,omitempty"`
	EarlierNodeLost *NodeLoss `json:"earlierNodeLost,omitempty"`
	// GroupNodeLosses are, for a pod that is pending with its gang, the losses of nodes on which members were, as
	// GroupHistory.NodeLosses has them.
	GroupNodeLosses []NodeLoss `json:"groupNodeLosses,omitempty"`
}

// Resize is the resize of a pod on its node that the kubelet has put off for want of room.
type Resize struct {
	// Message says how far it has come, as one sentence.
	Message string `json:"message"`
	// Fits says that the node had room for it at the last check: it waits for the kubelet.
	Fits bool `json:"fits"`
	// Attempts counts the searches for room since the kubelet has deferred it.
	Attempts int        `json:"attempts"`
	Queue    QueuePlace `json:"queue"`
	// Decision is the last one on it; nil if there is none yet.
	Decision *Decision `json:"decision,omitempty"`

	// Predicate is Message without its subject.
	Predicate string `json:"-"`
}

// GangNumbers is the progress of a gang.
type GangNumbers struct {
	Declared                      bool
	Min, Ready, Waiting, Assigned int
}

// Bind is the result of a bind.
type Bind struct {
	Point
	Node string `json:"node"`
	// Outcome is Bound, Conflict, Failed or Unknown.
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
}
