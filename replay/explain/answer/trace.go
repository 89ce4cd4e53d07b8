package answer

import "slices"

// Trace has all data of one scheduling cycle, as kube-scheduler writes into its own log at verbosity 10. The cycle was
// run again for it, on the state just before the decision. Every node is in it: in Refused, Scored, Unscored, NotTried
// or Failed. The numbers of Refused by plugin, code and words match the decision's refusals.
type Trace struct {
	// PreFilter has the answers of the PreFilter plugins, in the order in which they ran.
	PreFilter []PreFilterAnswer `json:"preFilter,omitempty"`
	// Filters are the Filter plugins that were asked, in their order. SkippedFilters were not asked, because their
	// PreFilter answered Skip.
	Filters        []string `json:"filters,omitempty"`
	SkippedFilters []string `json:"skippedFilters,omitempty"`
	// Extenders has the answers of the HTTP extenders that were asked for the cycle, in that order.
	Extenders []ExtenderAnswer `json:"extenders,omitempty"`
	// Refused are the nodes that a plugin refused, by name, each with the first plugin that did. The pod's nominated
	// node is put to Filter whatever PreFilter left, so that it may be there twice.
	Refused []NodeRefusal `json:"refused,omitempty"`
	// NotTried are the nodes, by name, that no plugin was asked about. NotTriedWhy is the reason: enough others were
	// feasible (percentageOfNodesToScore), the pod's nominated node took it, the pod was refused as a whole, or a
	// plugin failed.
	NotTried    []string `json:"notTried,omitempty"`
	NotTriedWhy string   `json:"notTriedWhy,omitempty"`
	// PreScore has the answers of the PreScore plugins. SkippedScores are the Score plugins that were not asked,
	// because their PreScore answered Skip.
	PreScore      []PluginAnswer `json:"preScore,omitempty"`
	SkippedScores []string       `json:"skippedScores,omitempty"`
	// Scored are the feasible nodes, by total and then by name, so that the first is the one that was chosen. A node
	// that was the only feasible one has no plugins: nothing is scored then.
	Scored []NodeScore `json:"scored,omitempty"`
	// Unscored are the feasible nodes, by name, that were not scored: a plugin failed, or the cycle is for the resize
	// of a pod on its node.
	Unscored []string `json:"unscored,omitempty"`
	// Failed is the error of a plugin that ended the cycle while nodes were filtered or scored. Nothing is in Scored
	// then.
	Failed *NodeFailure `json:"failed,omitempty"`
	// PostFilter, Reserve and Permit have the answers of these plugins, in the order in which they ran.
	PostFilter []PluginAnswer `json:"postFilter,omitempty"`
	Reserve    []PluginAnswer `json:"reserve,omitempty"`
	Permit     []PluginAnswer `json:"permit,omitempty"`
}

// PluginAnswer is the answer of one plugin at one extension point.
type PluginAnswer struct {
	Plugin string `json:"plugin"`
	// Code is the framework's name of the status code, such as Success, Skip, Wait or Unschedulable.
	Code string `json:"code"`
	// Words are the plugin's own reasons, sorted.
	Words []string `json:"words,omitempty"`
	// Timeout is the time for which a Permit plugin that answers Wait holds the pod, such as 10m0s.
	Timeout string `json:"timeout,omitempty"`
}

// PreFilterAnswer is the answer of one PreFilter plugin.
type PreFilterAnswer struct {
	PluginAnswer
	// AllNodes says that the plugin left all nodes, or did not name nodes because it was skipped or refused the pod as
	// a whole. Otherwise Nodes are the only ones that it left, by name. They need not exist.
	AllNodes bool     `json:"allNodes"`
	Nodes    []string `json:"nodes,omitempty"`
}

// NodeRefusal is the refusal of a node, with its reason.
type NodeRefusal struct {
	Node string `json:"node"`
	// Point is PreFilter for a node that a plugin left out, Extender for one that an HTTP extender refused, and
	// otherwise Filter.
	Point string `json:"point"`
	PluginAnswer
}

// ExtenderAnswer is the answer of one HTTP extender.
type ExtenderAnswer struct {
	// Extender is its urlPrefix.
	Extender string `json:"extender"`
	// Question is the sequence number of the decision that asked, and Nodes the number of nodes it asked about, 0 for a
	// question about preemption.
	Question uint64 `json:"questionSeq"`
	Nodes    int    `json:"nodes"`
	// Refused counts the nodes that it refused. Scored counts the nodes that it gave a score other than 0.
	Refused int `json:"refused"`
	Scored  int `json:"scored"`
	// FilterError and PrioritizeError say what went wrong with a call.
	FilterError     string `json:"filterError,omitempty"`
	PrioritizeError string `json:"prioritizeError,omitempty"`
	// Candidates counts, for a question about preemption, the nodes where pods would be evicted. Left counts the ones
	// that the extender left. PreemptError is the error of the call.
	Candidates   int    `json:"candidates,omitempty"`
	Left         int    `json:"left,omitempty"`
	PreemptError string `json:"preemptError,omitempty"`
}

// NodeFailure is the failure of a plugin on a node.
type NodeFailure struct {
	// Point is Filter, Score or NormalizeScore. Node is the one that the plugin was asked about, "" for all at once.
	Point string `json:"point"`
	Node  string `json:"node,omitempty"`
	PluginAnswer
}

// HasNode reports whether there was a node of that name when the cycle ran.
func (t *Trace) HasNode(name string) bool {
	return slices.Contains(t.NotTried, name) || slices.Contains(t.Unscored, name) ||
		t.Failed != nil && t.Failed.Node == name ||
		slices.ContainsFunc(t.Refused, func(n NodeRefusal) bool { return n.Node == name }) ||
		slices.ContainsFunc(t.Scored, func(n NodeScore) bool { return n.Node == name })
}
