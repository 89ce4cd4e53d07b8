package answer

import (
	"k8s.io/apimachinery/pkg/types"
)

// Choice is the bind of a pod by somebody else, with how good the node was by the plugins of a configuration. The
// configuration is the log's, or one that was given. The state is the one just before the entry with the bind. The
// scheduler that bound the pod may have decided on an earlier state.
type Choice struct {
	// Point is the entry with which the log first has the pod on its node.
	Point
	Pod  string    `json:"pod"`
	UID  types.UID `json:"uid"`
	Node string    `json:"node"`
	// Scheduler is the pod's schedulerName. By is the user or the field manager that bound the pod; "" if the log does
	// not say.
	Scheduler string `json:"scheduler"`
	By        string `json:"by,omitempty"`
	// Verdict compares the node with Rollcall's choice.
	Verdict Verdict `json:"verdict"`
	// Unrated says why the node was not rated; "" if it was.
	Unrated string `json:"unrated,omitempty"`
	// Together says that the log never had the pod without a node: it was made and bound between two reads.
	Together bool `json:"together,omitempty"`
	// AfterGap says that the bind was made while nothing was recorded: between two runs of a recorder. The state is the
	// one that the next list found, as far as it had been taken in.
	AfterGap bool `json:"afterGap,omitempty"`
	// Nodes is the number of nodes, and Feasible the number that passed all filters.
	Nodes    int `json:"nodes"`
	Feasible int `json:"feasible"`
	// Rank is 1 more than the number of feasible nodes with more points; 0 for a node that is not feasible. Tied is the
	// number of other nodes with the same points.
	Rank int `json:"rank"`
	Tied int `json:"tied"`
	// MaxPoints is the most that a node can get; 0 if none was scored, because only one was feasible.
	MaxPoints int64 `json:"maxPoints"`
	// Chosen is the node with its points, nil if it is not feasible. Ours is the node that Rollcall would have chosen,
	// nil if no node is feasible. Between equal nodes it is the one with the smaller name.
	Chosen *NodeScore `json:"chosen,omitempty"`
	Ours   *NodeScore `json:"ours,omitempty"`
	// Refusals say which plugins refuse the node, or the pod as a whole (Nodes 0), if it is not feasible.
	Refusals []Refusal `json:"refusals,omitempty"`
	// NodeChanged is the last change of the node, or of the pods on it, before the entry; nil if it is not known. It is
	// there for a node that is not feasible.
	NodeChanged *ChangeBefore `json:"nodeChanged,omitempty"`
	ChoiceLimits
	// Message says all of it in words.
	Message string `json:"message,omitempty"`
	// Gang is the pod's gang; nil if it has none, or if the configuration places pods one by one.
	Gang *ChoiceGang `json:"gang,omitempty"`
}

// ChoiceLimits names the differences between a Choice and the view of the other scheduler.
type ChoiceLimits struct {
	// Configuration names the configuration that was given for the answer; "" for the log's own.
	Configuration string `json:"configuration,omitempty"`
	// Nominated is the node that was kept for the pod, "" for none: both schedulers try it first.
	Nominated string `json:"nominated,omitempty"`
	// Claims says that the pod has volumes or devices. Their claims may have been bound for the node before the pod.
	Claims bool `json:"claims,omitempty"`
	// Extenders says that HTTP extenders have a say in it, which were not asked.
	Extenders bool `json:"extenders,omitempty"`
	// Sample is the number of feasible nodes after which kube-scheduler's default stops searching, if that is less than
	// Feasible; 0 otherwise.
	Sample int `json:"sample,omitempty"`
}

// Verdict says how a node compares with Rollcall's choice.
type Verdict string

// The verdicts.
const (
	// Same: it is the same node.
	Same Verdict = "Same"
	// Other: it is another node that is feasible.
	Other Verdict = "Other"
	// Infeasible: a plugin refuses the node.
	Infeasible Verdict = "Infeasible"
	// Unrated: it could not be rated.
	Unrated Verdict = "Unrated"
)

// ChangeBefore is a change of a node.
type ChangeBefore struct {
	Point
	What string `json:"what"`
}

// ChoiceGang says what Rollcall would have done with the pod's gang.
type ChoiceGang struct {
	// Group is the gang's namespace/name. Min is its minimum, OnNodes the number of members with a node before the
	// entry, and Members the number of members that there were.
	Group   string `json:"group"`
	Min     int    `json:"min"`
	OnNodes int    `json:"onNodes"`
	Members int    `json:"members"`
	// Waits says why Rollcall would not have bound the pod then; "" if it would have.
	Waits string `json:"waits,omitempty"`
	// Fits says whether the whole minimum would have found nodes; nil if that was not tried.
	Fits *bool `json:"fits,omitempty"`
}
