package framework

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Trace collects what one cycle saw, for people to read: more than the log records, and at a cost. A nil
// *Trace collects nothing. Nothing in it may reach a decision.
type Trace struct {
	// PreFilter has an answer of every PreFilter plugin that ran, in the order in which they ran.
	PreFilter []PreFilterAnswer
	// Refused are the nodes that a Filter plugin refused, sorted by name.
	Refused []NodeRefusal
	// Scored are the feasible nodes, best first (total score, then name): the first is the one chosen. A
	// node that was the only feasible one has no scores.
	Scored []ScoredNode
	// Reserve, Permit and PostFilter have an answer of every plugin that ran, in the order in which they ran.
	Reserve, Permit, PostFilter []Answer
}

// Answer is what one plugin answered.
type Answer struct {
	Plugin string
	// Code is the framework's name of the status code, such as Success, Skip, Wait or Unschedulable.
	Code string
	// Reasons are the plugin's own words, errors included, sorted: some plugins give them in map order.
	Reasons []string
}

// PreFilterAnswer is what one PreFilter plugin answered.
type PreFilterAnswer struct {
	Answer
	// AllNodes says that the plugin left all nodes eligible.
	AllNodes bool
	// Nodes are the only nodes that it left eligible, sorted, if AllNodes is false.
	Nodes []string
}

// NodeRefusal is why a node was refused.
type NodeRefusal struct {
	Node string
	Answer
}

// ScoredNode is a feasible node and how it was rated.
type ScoredNode struct {
	Node string
	// Total is the sum of the plugins' weighted scores.
	Total int64
	// Plugins are the plugins that scored the node, in the profile's order.
	Plugins []PluginScore
}

// PluginScore is one plugin's rating of one node.
type PluginScore struct {
	Plugin string
	// Raw is what Score returned, of any size; Normalized what NormalizeScore made of it, 0 to 100.
	Raw, Normalized int64
	// Weight is the plugin's weight in the profile; Weighted is Normalized times Weight.
	Weight, Weighted int64
}

// RunnersUp returns at most n of the nodes that came next after the chosen one, best first.
func (t *Trace) RunnersUp(n int) []ScoredNode {
	if t == nil || len(t.Scored) < 2 {
		return nil
	}
	rest := t.Scored[1:]
	return rest[:min(n, len(rest))]
}

// Winner returns the chosen node; ok is false if no node was feasible.
func (t *Trace) Winner() (node ScoredNode, ok bool) {
	if t == nil || len(t.Scored) == 0 {
		return ScoredNode{}, false
	}
	return t.Scored[0], true
}

func answerOf(plugin string, status *fwk.Status) Answer {
	s := Answer{Plugin: plugin, Code: status.Code().String()}
	if status != nil {
		s.Reasons = slices.Sorted(slices.Values(status.Reasons()))
	}
	return s
}

func (t *Trace) preFilter(plugin string, result *fwk.PreFilterResult, status *fwk.Status) {
	if t == nil {
		return
	}
	s := PreFilterAnswer{Answer: answerOf(plugin, status), AllNodes: !status.IsSuccess() || result.AllNodes()}
	if !s.AllNodes {
		s.Nodes = sets.List(result.NodeNames)
	}
	t.PreFilter = append(t.PreFilter, s)
}

func (t *Trace) refused(refused []refusal) {
	if t == nil {
		return
	}
	for _, r := range refused {
		t.Refused = append(t.Refused, NodeRefusal{r.node.Node().Name, answerOf(r.status.Plugin(), r.status)})
	}
	slices.SortFunc(t.Refused, func(a, b NodeRefusal) int { return cmp.Compare(a.Node, b.Node) })
}

func (t *Trace) only(node *v1.Node) {
	if t != nil {
		t.Scored = []ScoredNode{{Node: node.Name}}
	}
}

// raw notes what Score returned, before NormalizeScore overwrites it.
func (t *Trace) raw(scorers []scorer, lists []fwk.NodeScoreList) {
	if t == nil {
		return
	}
	t.Scored = t.Scored[:0]
	if len(lists) == 0 {
		return
	}
	for i, s := range lists[0] {
		row := ScoredNode{Node: s.Name, Plugins: make([]PluginScore, len(scorers))}
		for k, sc := range scorers {
			row.Plugins[k] = PluginScore{Plugin: sc.name, Raw: lists[k][i].Score, Weight: sc.weight}
		}
		t.Scored = append(t.Scored, row)
	}
}

// total notes the normalized scores; the nodes stand as raw left them.
func (t *Trace) total(lists []fwk.NodeScoreList) {
	if t == nil {
		return
	}
	for i := range t.Scored {
		row := &t.Scored[i]
		for k := range row.Plugins {
			p := &row.Plugins[k]
			p.Normalized = lists[k][i].Score
			p.Weighted = p.Normalized * p.Weight
			row.Total += p.Weighted
		}
	}
	slices.SortFunc(t.Scored, func(a, b ScoredNode) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Node, b.Node))
	})
}

func (t *Trace) reserve(plugin string, status *fwk.Status) {
	if t != nil {
		t.Reserve = append(t.Reserve, answerOf(plugin, status))
	}
}

func (t *Trace) permit(plugin string, status *fwk.Status) {
	if t != nil {
		t.Permit = append(t.Permit, answerOf(plugin, status))
	}
}

func (t *Trace) postFilter(plugin string, status *fwk.Status) {
	if t != nil {
		t.PostFilter = append(t.PostFilter, answerOf(plugin, status))
	}
}
