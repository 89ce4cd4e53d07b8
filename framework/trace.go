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

// Trace records one cycle for people to read. It has more than the log, at a cost. A nil *Trace records nothing. No
// decision may depend on it.
type Trace struct {
	// Searched is set if plugins were asked for a node. It is false for a decision without a scheduling cycle.
	Searched bool
	// PreFilter has the answers of the PreFilter plugins, in the order in which they ran.
	PreFilter []PreFilterAnswer
	// LeftOut has the nodes that PreFilter plugins excluded, each with the first plugin that did, sorted by name. If no
	// node was left, it is empty, because the pod as a whole was refused.
	LeftOut []NodeRefusal
	// Filters are the Filter plugins that ran, in the profile's order. SkippedFilters are the ones whose PreFilter
	// answered Skip.
	Filters, SkippedFilters []string
	// Refused are the nodes that a Filter plugin refused, sorted by name.
	Refused []NodeRefusal
	// Feasible are the nodes that passed all Filter plugins, sorted by name. If the nominated node passes, it is the
	// only one.
	Feasible []string
	// PreScore has the answers of the PreScore plugins, in the order in which they ran.
	PreScore []Answer
	// SkippedScores are the Score plugins whose PreScore answered Skip, in the profile's order.
	SkippedScores []string
	// Scored has the feasible nodes, the best first (by total score, then by name). The first node is the chosen one.
	// If there was only one feasible node, it has no scores.
	Scored []ScoredNode
	// Failed is the error of a Filter, Score or NormalizeScore plugin that ended the cycle, nil if there was none.
	Failed *Failure
	// Reserve, Permit and PostFilter have the answers of the plugins, in the order in which they ran.
	Reserve, Permit, PostFilter []Answer
	// Preemption has the results of the search for pods to evict, nil if there was none.
	Preemption *PreemptionTrace

	left sets.Set[string] // the nodes that PreFilter has left so far, nil for all
}

// Answer is the answer of one plugin.
type Answer struct {
	Plugin string
	// Code is the framework's name of the status code, such as Success, Skip, Wait or Unschedulable.
	Code string
	// Reasons are the plugin's own words, including errors. They are sorted, because some plugins give them in map
	// order.
	Reasons []string
	// Timeout is the time for which a Permit plugin that answers Wait holds the pod.
	Timeout time.Duration
}

// PreFilterAnswer is the answer of one PreFilter plugin.
type PreFilterAnswer struct {
	Answer
	// AllNodes is set if the plugin excluded no nodes.
	AllNodes bool
	// Nodes are the only nodes that the plugin did not exclude, sorted. It is set if AllNodes is false.
	Nodes []string
}

// NodeRefusal is a node and the answer that refused it.
type NodeRefusal struct {
	Node string
	Answer
}

// Failure is an error of a plugin during Filter or Score.
type Failure struct {
	// Point is Filter, Score or NormalizeScore.
	Point string
	// Node is the node that the error is about, "" if it is about all nodes.
	Node string
	Answer
}

// ScoredNode is a feasible node with its scores.
type ScoredNode struct {
	Node string
	// Total is the sum of the plugins' weighted scores.
	Total int64
	// Plugins has the scores of the plugins, in the profile's order, and then of the HTTP extenders. An extender's name
	// is Extender and its urlPrefix.
	Plugins []PluginScore
}

// PluginScore is the score that one plugin gave to one node.
type PluginScore struct {
	Plugin string
	// Raw is the result of Score and may have any size. Normalized is the result of NormalizeScore, 0 to 100. For an
	// extender, Normalized is ten times Raw, and Raw may exceed 10.
	Raw, Normalized int64
	// Weight is the plugin's weight in the profile. Weighted is Normalized times Weight.
	Weight, Weighted int64
}

// Apart returns a new trace for a search whose result may be discarded, nil if t is nil.
func (t *Trace) Apart() *Trace {
	if t == nil {
		return nil
	}
	return &Trace{}
}

// Take replaces t's content with the other trace, if t is not nil.
func (t *Trace) Take(other *Trace) {
	if t != nil {
		*t = *other
	}
}

// RunnersUp returns at most n of the nodes that came after the chosen one, best first.
func (t *Trace) RunnersUp(n int) []ScoredNode {
	if t == nil || len(t.Scored) < 2 {
		return nil
	}
	rest := t.Scored[1:]
	return rest[:min(n, len(rest))]
}

// Winner returns the chosen node. ok is false if no node was feasible.
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

// begin records that a search begins.
func (t *Trace) begin() {
	if t != nil {
		t.Searched = true
	}
}

// leftOut records the nodes that a PreFilter plugin has now excluded, with the status. left are the nodes that it did
// not exclude.
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

// forgetLeftOut clears LeftOut, for a search that visits only one node anyway.
func (t *Trace) forgetLeftOut() {
	if t != nil {
		t.LeftOut, t.left = nil, nil
	}
}

// filters records which Filter plugins run. skip has the plugins to skip, by id.
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

// scorers records which Score plugins are skipped. skip has the plugins to skip, by id.
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

// failed records the error of a plugin, about a node or, with "", about all nodes.
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

// raw records the results of Score, before NormalizeScore overwrites them.
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

// total records the normalized scores and the extenders' scores. The nodes must have the order in which raw left them.
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

// rated adds the scores from extenders.
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
