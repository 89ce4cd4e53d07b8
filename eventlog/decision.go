package eventlog

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Outcome says how a scheduling cycle ended.
type Outcome uint8

// The outcomes. The log stores the numbers.
const (
	// Scheduled: the pod has its node and everything that Permit asked for; a bind follows.
	Scheduled Outcome = 1
	// Waiting: Permit holds the pod on its node.
	Waiting Outcome = 2
	// Unschedulable: a plugin refused the pod. It is retried when an event may have changed that.
	Unschedulable Outcome = 3
	// Error: a plugin failed. The pod is retried after its backoff.
	Error Outcome = 4
	// Evicted: the pod has a node and must leave it, as must the other Victims, because its gang's condition for that
	// holds.
	Evicted Outcome = 5
	// Reserved: the pod, or its gang, is the first that does not fit. By the durations that running pods declare, there
	// is room for it at Places from WaitUntil on. Until then, entities that pass it leave that room free.
	Reserved Outcome = 6
	// Asked: HTTP extenders are asked about the pod, or about the members of its gang, see Questions. It waits for
	// their answers, and other pods are scheduled meanwhile.
	Asked Outcome = 7
)

// Decision is the result of one scheduling cycle. It is a fact: applying it needs no plugin's agreement.
type Decision struct {
	// Cycle numbers the scheduling cycles of the log from 1.
	Cycle uint64
	// Namespace, Name and UID are the pod's.
	Namespace, Name string
	UID             types.UID
	// Group is the name of the pod's gang in the same namespace, "" for a pod of no gang.
	Group string
	// Outcome says how the cycle ended.
	Outcome Outcome
	// Node is the node of the pod (Scheduled, Waiting).
	Node string
	// Score is the node's weighted total score; 0 if only one node was feasible and none was scored.
	Score int64
	// Evaluated and Feasible count the nodes that were filtered and the nodes that passed.
	Evaluated, Feasible int64
	// Rejections say who refused how many nodes, sorted by plugin, code, reason. A refusal of the pod as
	// a whole (PreFilter, Reserve, Permit) has Nodes 0.
	Rejections []Rejection
	// WaitUntil is the time at which a Waiting pod is released unless it is allowed before.
	WaitUntil Time
	// WaitFor names the Permit plugins that hold a Waiting pod, sorted.
	WaitFor []string
	// Approvals are the permissions that this cycle gave to waiting pods, in the order in which it gave them.
	Approvals []Approval
	// Allowed are the waiting pods that this cycle allowed to be bound, in the order of their decisions.
	Allowed []types.UID
	// Rejected are the waiting pods that this cycle released from their nodes, in the order of their decisions.
	Rejected []types.UID
	// Victims are the pods that this cycle evicts.
	Victims []types.UID
	// Nominated is the node for which the pod is nominated after an Unschedulable or Error outcome, "" for none. This
	// cycle or an earlier one nominated it. Other outcomes do not change the pod's nomination.
	Nominated string
	// Volumes are the claims that the pod's placement settles.
	Volumes []VolumeClaim
	// Places are the nodes that a reservation (Reserved) keeps for each pod, in the order in which they were found.
	Places []Place
	// Nominations are the nominations that this cycle gives to other pods or takes from them. The other members of a
	// gang that preempts or has a plan come first, then the pods that yield to them.
	Nominations []Nomination
	DomainLimit
	// Ended says, for a Reserved outcome without Places, why the reservation of the pod's lane ends.
	Ended Ending
	// Activated are the pods that plugins ask to try at once, sorted: the pods of Handle.Activate and, if the cycle
	// gives its pod a node, of PodsToActivate.
	Activated []types.UID
	// Devices are the claims to which the pod's placement allocates devices, in the order in which the pod names them.
	// They include a claim for which an earlier decision made the allocation, while the claim does not have it yet.
	Devices []DeviceClaim
	// Questions are, for the outcome Asked, the questions to the extenders.
	Questions []Question
	// Plan is, for a Decision that ends the attempt on a gang, the result of the search for nodes for its members. Its
	// Result is 0 without a search.
	Plan Plan
}

// Plan is the result of the search for nodes for the members of a gang whom the usual order gave too few.
type Plan struct {
	// Result says whether there is a placement.
	Result PlanResult
	// Steps counts the Filter calls of one kind of members on one node that the search took.
	Steps int64
	// Next is, for PlanUnknown, the number of the search that the next attempt makes, from 1 on: it searches elsewhere.
	// The gang is tried again after its backoff, without an event. 0 says that no further search follows.
	Next int
	// Order are the members that have a place, in the order in which the next attempt places them. The Decision
	// nominates each to its node. It is empty unless the result is PlanFound.
	Order []types.UID
}

// PlanResult is the result of the search for nodes for a gang.
type PlanResult uint8

// The results. The log stores the numbers.
const (
	// PlanFound: there is a placement, and the gang is tried again at once.
	PlanFound PlanResult = 1
	// PlanNone: no placement exists on these nodes. Every order was tried.
	PlanNone PlanResult = 2
	// PlanUnknown: no placement was found within the limit of steps.
	PlanUnknown PlanResult = 3
)

// String returns the name of the result in the JSON form.
func (r PlanResult) String() string {
	switch r {
	case PlanFound:
		return "Found"
	case PlanNone:
		return "None"
	case PlanUnknown:
		return "Unknown"
	}
	return ""
}

func checkPlanResult(r PlanResult) error {
	if r < PlanFound || r > PlanUnknown {
		return fmt.Errorf("unknown result %d", r)
	}
	return nil
}

// maxNextSearch is the highest number of a search that a Plan may have.
const maxNextSearch = 255

func checkNextSearch(p Plan) error {
	if p.Next < 0 || p.Next > maxNextSearch {
		return fmt.Errorf("search %d: want 0 to %d", p.Next, maxNextSearch)
	}
	if p.Next > 0 && p.Result != PlanUnknown {
		return fmt.Errorf("search %d follows the result %s: want 0", p.Next, p.Result)
	}
	return nil
}

// DomainLimit is the limit of a cycle to a topology domain.
type DomainLimit struct {
	// Domain is the topology domain, as LABEL=VALUE (or LABEL,LABEL=VALUE, VALUE). It is "" for a cycle without a
	// limit.
	Domain string
	// Elsewhere says, for an Unschedulable or Error outcome with a Domain, that another domain is left to try. If this
	// cycle ends the gang's attempt and no member has a node then, the gang is tried there at once.
	Elsewhere bool
}

// hasFacts reports whether the decision has a field from Domain on.
func (d *Decision) hasFacts() bool {
	return d.Domain != "" || d.Elsewhere || d.Ended != 0 || len(d.Activated)+len(d.Devices)+len(d.Questions) > 0 ||
		d.Plan.Result != 0
}

// Ending says why a reservation ends whose entity still exists.
type Ending uint8

// The endings. The log stores the numbers.
const (
	// NotFirst: the entity is no longer the first of its lane that waits for room.
	NotFirst Ending = 1
	// NoTime: the time at which there will be room is no longer known.
	NoTime Ending = 2
	// OtherReason: there is room now, and the entity was refused for another reason.
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
	// Reason is the plugin's own text; empty for Error, whose text is not deterministic.
	Reason string
	// Nodes is the number of nodes that were refused for it.
	Nodes int64
}

// Approval is a Permit plugin's permission for a waiting pod.
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
	// Node is the node's name; "" removes the pod's nomination.
	Node string
}
