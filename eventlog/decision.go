package eventlog

import (
	"k8s.io/apimachinery/pkg/types"
)

// Outcome is how a scheduling cycle ended.
type Outcome uint8

// The outcomes. The numbers stand on disk.
const (
	// Scheduled: the pod has its node and everything that Permit asked for; a bind follows.
	Scheduled Outcome = 1
	// Waiting: the pod is held on its node by Permit.
	Waiting Outcome = 2
	// Unschedulable: a plugin refused the pod; it is tried again when an event may have changed that.
	Unschedulable Outcome = 3
	// Error: a plugin failed; the pod is tried again after its backoff.
	Error Outcome = 4
	// Evicted: the pod had a node and is to leave it, as are the other Victims: what its gang asked for came about.
	Evicted Outcome = 5
	// Reserved: the pod, or its gang, is the first that does not fit; at WaitUntil, by what is declared of the pods
	// that run, there is room for it at Places, and until then whoever passes it leaves that free.
	Reserved Outcome = 6
	// Asked: HTTP extenders are asked about the pod, or about the members of its gang, see Questions. It waits for
	// their answers, and others are tried meanwhile.
	Asked Outcome = 7
)

// Decision is what one scheduling cycle decided. It is a fact: applying it needs no plugin to agree.
type Decision struct {
	// Cycle numbers the scheduling cycles of the log from 1.
	Cycle uint64
	// Namespace, Name and UID are the pod's.
	Namespace, Name string
	UID             types.UID
	// Group is the name of the pod's gang in the same namespace, "" for a pod of no gang.
	Group string
	// Outcome is how the cycle ended.
	Outcome Outcome
	// Node is where the pod goes (Scheduled, Waiting).
	Node string
	// Score is the node's weighted total score; 0 if only one node was feasible and none was scored.
	Score int64
	// Evaluated and Feasible count the nodes that were filtered and those that passed.
	Evaluated, Feasible int64
	// Rejections say who refused how many nodes, sorted by plugin, code, reason. A refusal of the pod as
	// a whole (PreFilter, Reserve, Permit) has Nodes 0.
	Rejections []Rejection
	// WaitUntil is when a Waiting pod is released if it is not allowed before.
	WaitUntil Time
	// WaitFor names the Permit plugins that hold a Waiting pod, sorted.
	WaitFor []string
	// Approvals are the permissions that this cycle gave to waiting pods, in the order given.
	Approvals []Approval
	// Allowed are the waiting pods that this cycle set free to be bound, in the order of their decisions.
	Allowed []types.UID
	// Rejected are the waiting pods that this cycle released from their nodes, in the order of their decisions.
	Rejected []types.UID
	// Victims are the pods that this cycle evicts.
	Victims []types.UID
	// Nominated is the node nominated for the pod from now on, "" for none: of an Unschedulable or Error outcome,
	// whether this cycle nominated it or an earlier one did. Other outcomes leave the pod's nomination alone.
	Nominated string
	// Volumes are the claims that the pod's placement settles.
	Volumes []VolumeClaim
	// Places are where a reservation (Reserved) has each pod go, in the order in which they were found.
	Places []Place
	// Nominations are those of other pods that this cycle gives or takes away: of the other members of a gang that
	// preempts, then of pods that yield to them.
	Nominations []Nomination
	// Domain is the topology domain that the cycle was limited to, as LABEL=VALUE (or LABEL,LABEL=VALUE, VALUE); "" for
	// a cycle that was limited to none.
	Domain string
	// Elsewhere says, of an Unschedulable or Error outcome with a Domain, that there is another domain to try. If this
	// cycle ends the gang's attempt and no member has a node then, the gang is tried again at once, elsewhere.
	Elsewhere bool
	// Ended says, of a Reserved outcome without Places, why the reservation of the pod's lane ends.
	Ended Ending
	// Activated are the pods that plugins want tried at once, sorted: those of Handle.Activate and, of a cycle that
	// gives its pod a node, of PodsToActivate.
	Activated []types.UID
	// Devices are the claims that the pod's placement allocates devices to, in the order in which the pod names them.
	// A claim whose allocation an earlier decision has made, and that does not have it yet, is among them.
	Devices []DeviceClaim
	// Questions are, of the outcome Asked, those that extenders are asked.
	Questions []Question
}

// hasFacts reports whether the decision has a field from Domain on.
func (d *Decision) hasFacts() bool {
	return d.Domain != "" || d.Elsewhere || d.Ended != 0 || len(d.Activated)+len(d.Devices)+len(d.Questions) > 0
}

// Ending is why a reservation ends that still has an entity.
type Ending uint8

// The endings. The numbers stand on disk.
const (
	// NotFirst: the entity is not the first of its lane any more of those that wait for room.
	NotFirst Ending = 1
	// NoTime: it is not known any more when there will be room.
	NoTime Ending = 2
	// OtherReason: there is room now, and the entity was refused for another reason than want of room.
	OtherReason Ending = 3
)

// Place is a pod's place on a node.
type Place struct {
	UID  types.UID
	Node string
}

// Rejection is one reason for which nodes, or the pod as a whole, were refused.
type Rejection struct {
	// Plugin is the name of the plugin that refused.
	Plugin string
	// Code is the framework's name of the status code: Unschedulable, UnschedulableAndUnresolvable,
	// Pending or Error.
	Code string
	// Reason is the plugin's own words; empty for Error, whose words are not deterministic.
	Reason string
	// Nodes is how many nodes were refused for it.
	Nodes int64
}

// Approval is a Permit plugin's word that a waiting pod may go on.
type Approval struct {
	UID    types.UID
	Plugin string
}

// VolumeClaim is the volume that a placement gives a claim of the pod's namespace.
type VolumeClaim struct {
	// Claim is the PersistentVolumeClaim's name.
	Claim string
	// Volume is the PersistentVolume's name; "" where one is to be provisioned for the node.
	Volume string
}

// Nomination is the node where room is kept for a pod.
type Nomination struct {
	UID types.UID
	// Node is the node's name; "" takes the pod's nomination away.
	Node string
}
