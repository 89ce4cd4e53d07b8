package answer

import (
	"github.com/rollcall-sched/rollcall/replay"
)

// Decision is a recorded decision with data that the log does not record: the nodes, the scores of every plugin, and
// the holders of the room. The cycle was run again for that, on the state of that moment.
type Decision struct {
	Point
	Cycle   uint64 `json:"cycle"`
	Pod     string `json:"pod"`
	Outcome string `json:"outcome"`
	Node    string `json:"node,omitempty"`
	Score   int64  `json:"score"`
	// Nodes is the number of all nodes; Evaluated of them were filtered, and Feasible passed.
	Nodes     int   `json:"nodes"`
	Evaluated int64 `json:"evaluated"`
	Feasible  int64 `json:"feasible"`
	// WaitUntil is the time at which a Waiting pod is released if it is not allowed before.
	WaitUntil Instant `json:"waitUntil,omitzero"`
	// Refusals are the decision's rejections: by node, and of the pod as a whole (Nodes 0).
	Refusals []Refusal `json:"refusals,omitempty"`
	// Winner is the chosen node; it has no plugins if it was the only feasible one. RunnersUp came next.
	Winner    *NodeScore  `json:"winner,omitempty"`
	RunnersUp []NodeScore `json:"runnersUp,omitempty"`
	// Allowed and Released count the waiting pods that the decision let go, and took off their nodes.
	Allowed  int `json:"allowed,omitempty"`
	Released int `json:"released,omitempty"`
	// NominatedTo is the node that was kept for the pod when the cycle began: it is tried before all others, and if it
	// takes the pod no other is. Nominated is the node that is kept for it after a cycle that failed, and Evicted
	// counts the pods that the decision asks to end.
	NominatedTo string `json:"nominatedTo,omitempty"`
	Nominated   string `json:"nominated,omitempty"`
	Evicted     int    `json:"evicted,omitempty"`
	// Domain is the topology domain that the cycle was limited to, as LABEL=VALUE; "" for none.
	Domain string `json:"domain,omitempty"`
	Planned
	// Resources are the resources that the pod requests, with their holders, if it was refused. Held members of its own
	// gang count as holders. The resource pods is there only if the nodes ran out of it.
	Resources []ResourceUse `json:"resources,omitempty"`
	// Gang is the same for all members that the pod's gang still lacked; nil if it had its minimum.
	Gang *GangNeeds `json:"gang,omitempty"`
	// Trace is all that the cycle showed, if that was asked for; Untraced says why there is nothing to show.
	Trace    *Trace `json:"trace,omitempty"`
	Untraced string `json:"untraced,omitempty"`
	// Diverged says that this program decides otherwise; what was recorded is explained.
	Diverged *replay.Divergence `json:"diverged,omitempty"`
}

// Planned is the result of the search for nodes for all members of a gang.
type Planned struct {
	// Plan is Found, None or Unknown, see eventlog.Plan; "" if nothing was searched.
	Plan string `json:"plan,omitempty"`
	// NextSearch is the number of the search that the next attempt makes, see eventlog.Plan; 0 for none.
	NextSearch int `json:"nextSearch,omitempty"`
	// PlanBlockers are the members that held the node that the plan gives to the decision's pod.
	PlanBlockers []string `json:"planBlockers,omitempty"`
}

// Refusal is one reason for which nodes, or the pod as a whole, were refused.
type Refusal struct {
	Plugin string `json:"plugin"`
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
	// Nodes is the number of nodes refused for it; 0 for a refusal of the pod as a whole.
	Nodes int64 `json:"nodes"`
	// Examples are the first of them by name, at most 3.
	Examples []string `json:"examples,omitempty"`
}

// NodeScore is a feasible node and how it was rated.
type NodeScore struct {
	Node string `json:"node"`
	// Total is the sum of the weighted scores of the plugins and the HTTP extenders.
	Total   int64         `json:"total"`
	Plugins []PluginScore `json:"plugins,omitempty"`
}

// PluginScore is one plugin's rating of a node: Raw is the plugin's own number, Normalized lies in
// [0,100], Weighted is that times Weight. For an HTTP extender, Plugin is the word Extender and its urlPrefix, and
// Normalized ten times Raw.
type PluginScore struct {
	Plugin     string `json:"plugin"`
	Raw        int64  `json:"raw"`
	Normalized int64  `json:"normalized"`
	Weight     int64  `json:"weight"`
	Weighted   int64  `json:"weighted"`
}

// MaxExamples is the number of nodes that are named for a reason.
const MaxExamples = 3
