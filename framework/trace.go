package framework

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Trace collects what one cycle saw, for people to read: more than the log records, and at a cost. A nil
// *Trace collects nothing. Nothing in it may reach a decision.
type Trace struct {
	// Searched says that plugins were asked for a node. A decision without a scheduling cycle leaves it false.
	Searched bool
	// PreFilter has an answer of every PreFilter plugin that ran, in the order in which they ran.
	PreFilter []PreFilterAnswer
	// LeftOut are the nodes that PreFilter plugins left out, each with the first plugin that did, sorted by name. Nodes
	// are not in it if nothing was left in the end: then the pod was refused, and no node.
	LeftOut []NodeRefusal
	// Filters are the Filter plugins that were asked, in the profile's order, and SkippedFilters those whose PreFilter
	// answered Skip.
	Filters, SkippedFilters []string
	// Refused are the nodes that a Filter plugin refused, sorted by name.
	Refused []NodeRefusal
	// Feasible are the nodes that all Filter plugins took, sorted by name. A nominated node that takes the pod is the
	// only one.
	Feasible []string
	// PreScore has an answer of every PreScore plugin that ran, in the order in which they ran.
	PreScore []Answer
	// SkippedScores are the Score plugins whose PreScore answered Skip, in the profile's order.
	SkippedScores []string
	// Scored are the feasible nodes, best first (total score, then name): the first is the one chosen. A
	// node that was the only feasible one has no scores.
	Scored []ScoredNode
	// Failed is the error of a Filter, Score or NormalizeScore plugin that ended the cycle, nil for none.
	Failed *Failure
	// Reserve, Permit and PostFilter have an answer of every plugin that ran, in the order in which they ran.
	Reserve, Permit, PostFilter []Answer

	left sets.Set[string] // the nodes that PreFilter has left so far, nil for all
}

// Answer is what one plugin answered.
type Answer struct {
	Plugin string
	// Code is the framework's name of the status code, such as Success, Skip, Wait or Unschedulable.
	Code string
	// Reasons are the plugin's own words, errors included, sorted: some plugins give them in map order.
	Reasons []string
	// Timeout is how long the plugin holds the pod, of a Permit plugin that answers Wait.
	Timeout time.Duration
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

// Failure is an error of a plugin while nodes were filtered or scored.
type Failure struct {
	// Point is Filter, Score or NormalizeScore.
	Point string
	// Node is the node that the plugin was asked about, "" if it was asked about all of them.
	Node string
	Answer
}

// ScoredNode is a feasible node and how it was rated.
type ScoredNode struct {
	Node string
	// Total is the sum of the plugins' weighted scores.
	Total int64
	// Plugins are the plugins that scored the node, in the profile's order, and then the HTTP extenders, each under
	// the name Extender and its urlPrefix.
	Plugins []PluginScore
}

// PluginScore is one plugin's rating of one node.
type PluginScore struct {
	Plugin string
	// Raw is what Score returned, of any size; Normalized what NormalizeScore made of it, 0 to 100. Of an extender it
	// is ten times Raw, which need not stay below 10.
	Raw, Normalized int64
	// Weight is the plugin's weight in the profile; Weighted is Normalized times Weight.
	Weight, Weighted int64
}

// Apart returns a trace for a search that may come to nothing, nil if t is.
func (t *Trace) Apart() *Trace {
	if t == nil {
		return nil
	}
	return &Trace{}
}

// Take makes t what another one is, if it is not nil.
func (t *Trace) Take(other *Trace) {
	if t != nil {
		*t = *other
	}
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

// begin notes that a search begins.
func (t *Trace) begin() {
	if t != nil {
		t.Searched = true
	}
}

// leftOut notes the nodes that are not among those that PreFilter has left any more, and the status that says so of
// each.
func (t *Trace) leftOut(nodes, left []fwk.NodeInfo, status *fwk.Status) {
	if t == nil {
		return
	}
	names := sets.New[string]()
	for _, n := range left {
		names.Insert(n.Node().Name)
	}
	for _, n := range nodes {
		if name := n.Node().Name; (t.left == nil || t.left.Has(name)) && !names.Has(name) {
			t.LeftOut = append(t.LeftOut, NodeRefusal{name, answerOf(status.Plugin(), status)})
		}
	}
	t.left = names
	slices.SortFunc(t.LeftOut, func(a, b NodeRefusal) int { return cmp.Compare(a.Node, b.Node) })
}

// forgetLeftOut is for a search that does not look at other nodes anyway.
func (t *Trace) forgetLeftOut() {
	if t != nil {
		t.LeftOut, t.left = nil, nil
	}
}

// filters notes which of the Filter plugins are asked, given those to skip by id.
func (t *Trace) filters(all []entry[fwk.FilterPlugin], skip []bool) {
	if t == nil {
		return
	}
	for _, f := range all {
		if skip[f.id] {
			t.SkippedFilters = append(t.SkippedFilters, f.name)
		} else {
			t.Filters = append(t.Filters, f.name)
		}
	}
}

// scorers notes which of the Score plugins are skipped, given those to skip by id.
func (t *Trace) scorers(all []scorer, skip []bool) {
	if t == nil {
		return
	}
	for _, s := range all {
		if skip[s.id] {
			t.SkippedScores = append(t.SkippedScores, s.name)
		}
	}
}

func (t *Trace) preScore(plugin string, status *fwk.Status) {
	if t != nil {
		t.PreScore = append(t.PreScore, answerOf(plugin, status))
	}
}

// failed notes the error of a plugin, at a node or, with "", at all of them.
func (t *Trace) failed(point, node string, status *fwk.Status) {
	if t != nil {
		t.Failed = &Failure{point, node, answerOf(status.Plugin(), status)}
	}
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

func (t *Trace) feasible(nodes []fwk.NodeInfo) {
	if t == nil {
		return
	}
	for _, n := range nodes {
		t.Feasible = append(t.Feasible, n.Node().Name)
	}
	slices.Sort(t.Feasible)
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

// total notes the normalized scores and those of extenders; the nodes stand as raw left them.
func (t *Trace) total(lists []fwk.NodeScoreList, verdict *Verdict) {
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
	t.rated(verdict)
	slices.SortFunc(t.Scored, func(a, b ScoredNode) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Node, b.Node))
	})
}

// rated adds the scores that extenders gave.
func (t *Trace) rated(verdict *Verdict) {
	const scale = fwk.MaxScore / extenderv1.MaxExtenderPriority
	for _, r := range verdict.ratings() {
		for i := range t.Scored {
			row := &t.Scored[i]
			n := r.Nodes[row.Node]
			row.Plugins = append(row.Plugins, PluginScore{Plugin: ExtenderName + " " + r.Extender, Raw: n.Score,
				Normalized: n.Score * scale, Weight: r.Weight, Weighted: n.Weighted})
		}
	}
	for i := range t.Scored {
		t.Scored[i].Total += verdict.score(t.Scored[i].Node)
	}
}

func (t *Trace) reserve(plugin string, status *fwk.Status) {
	if t != nil {
		t.Reserve = append(t.Reserve, answerOf(plugin, status))
	}
}

func (t *Trace) permit(plugin string, status *fwk.Status, timeout time.Duration) {
	if t == nil {
		return
	}
	s := answerOf(plugin, status)
	if status.IsWait() {
		s.Timeout = min(timeout, maxPermitWait)
	}
	t.Permit = append(t.Permit, s)
}

func (t *Trace) postFilter(plugin string, status *fwk.Status) {
	if t != nil {
		t.PostFilter = append(t.PostFilter, answerOf(plugin, status))
	}
}
