package answer

import (
	"k8s.io/apimachinery/pkg/types"
)

// Pod is where a pod stood at one point of the log, and why. Amounts of resources are in their
// base unit, cpu in thousandths of a core.
type Pod struct {
	// Pod and Group are namespace/name; Group is the gang that the pod names, "" for none.
	Pod   string    `json:"pod"`
	UID   types.UID `json:"uid"`
	Group string    `json:"group,omitempty"`
	// At is the last entry that takes part in the answer.
	At Point `json:"at"`
	// KnownFrom is the first entry of which the log tells, if earlier ones are not there: a place before it is
	// given as entry 0, and a decision before it is not explained. 0: the log has its first entry.
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Stage is Pending, Waiting, Binding, Bound, or Gone: deleted or finished.
	Stage string `json:"stage"`
	// Node is where the pod holds room, or held some before it was gone.
	Node string `json:"node,omitempty"`
	// SchedulerName is the pod's; Ignored says that the configuration has no profile of that name.
	SchedulerName string `json:"schedulerName,omitempty"`
	Ignored       bool   `json:"ignored,omitempty"`
	// Terminating says that the pod is being deleted.
	Terminating bool `json:"terminating,omitempty"`
	// Created is where the log first has the pod. Earlier counts the pods of the same name before it.
	Created Point `json:"created"`
	Earlier int   `json:"earlier,omitempty"`
	// Gone is where the pod was deleted or finished, and GoneHow how: Deleted, Succeeded or Failed.
	Gone    *Point `json:"gone,omitempty"`
	GoneHow string `json:"goneHow,omitempty"`
	// Resize is how far a resize of the pod has come that the kubelet has put off; nil if there is none, or if the
	// configuration has nobody preempted for one.
	Resize *Resize `json:"resize,omitempty"`
	// Queue is where the pod, or its gang, stands in the queue; nil if it does not: it is bound or gone, or
	// another scheduler's.
	Queue *QueuePlace `json:"queue,omitempty"`
	// Attempts counts the attempts to place the pod, or its gang; FirstQueued is when it first had its turn
	// to come. Both are kept when the pod leaves the queue.
	Attempts    int     `json:"attempts"`
	FirstQueued Instant `json:"firstQueued,omitzero"`
	// GatingPlugin keeps the pod itself out of the queue, and GatingMessage is what it says.
	GatingPlugin  string `json:"gatingPlugin,omitempty"`
	GatingMessage string `json:"gatingMessage,omitempty"`
	// Decision is the pod's own: of a pod that was given a node the one that gave it, of another the last
	// one; nil if there is none.
	Decision *Decision `json:"decision,omitempty"`
	// StoppedBy is the decision on another member that made the gang's last attempt fail, if that is what keeps
	// the pod from its node.
	StoppedBy *Decision `json:"stoppedBy,omitempty"`
	// Allowed is the decision that let a pod go which had waited for its gang, Released the last one
	// that took a waiting pod off its node.
	Allowed  *Point `json:"allowed,omitempty"`
	Released *Point `json:"released,omitempty"`
	// Bind is what was last heard of binding the pod.
	Bind *Bind `json:"bind,omitempty"`
	// Nominated is the node that is kept for it while it is Pending, because pods had to go for it or its gang.
	Nominated string `json:"nominated,omitempty"`
	// PreemptedBy is the last decision by which it had to give up its node for another pod or gang; nil for none.
	PreemptedBy *Preemption `json:"preemptedBy,omitempty"`
	// Evicted is the decision by which it was asked to go because its gang had fallen below its minimum; nil for none.
	Evicted *Eviction `json:"evicted,omitempty"`
	// AskedToGoBy is the entry by which it was asked to go, if that is before KnownFrom and its eviction is still
	// outstanding; 0 for none.
	AskedToGoBy uint64 `json:"askedToGoBy,omitempty"`
	// Eviction is what was last heard of its eviction for PreemptedBy or Evicted.
	Eviction *EvictResult `json:"eviction,omitempty"`
	// Preempted are the decisions by which others had to go for it, or for its gang: the last ones, in order, at most
	// 20; OmittedPreempted is how many came before them.
	Preempted        []Preemption `json:"preempted,omitempty"`
	OmittedPreempted int          `json:"omittedPreempted,omitempty"`
	// Untraced says, if a trace was asked for, why there is no decision that has one.
	Untraced string `json:"untraced,omitempty"`
	// Reason is why it is pending, or why its gang is; nil if it is not.
	Reason *Reason `json:"reason,omitempty"`

	// Gang is how far the pod's gang has come; nil for a pod of no gang.
	Gang *GangNumbers `json:"-"`
}

// Resize is the resize of a pod on its node that the kubelet has put off for want of room.
type Resize struct {
	// Message says how far it has come, as one sentence.
	Message string `json:"message"`
	// Fits says that the node had room for it when that was last looked at: the kubelet is waited for.
	Fits bool `json:"fits"`
	// Attempts counts how often room was looked for since the kubelet has put it off.
	Attempts int        `json:"attempts"`
	Queue    QueuePlace `json:"queue"`
	// Decision is the last one on it; nil if there is none yet.
	Decision *Decision `json:"decision,omitempty"`

	// Predicate is Message without its subject.
	Predicate string `json:"-"`
}

// GangNumbers are how far a gang has come.
type GangNumbers struct {
	Declared                      bool
	Min, Ready, Waiting, Assigned int
}

// Bind is what came of a bind.
type Bind struct {
	Point
	Node string `json:"node"`
	// Outcome is Bound, Conflict, Failed or Unknown.
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
}
