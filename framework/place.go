package framework

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Placement is where a pod fits best, or why it fits nowhere.
type Placement struct {
	// Node is the node found, "" for none.
	Node string
	// Score is the node's total score, 0 if it was the only feasible one and none was scored.
	Score int64
	// Evaluated and Feasible count the nodes that were filtered and those that passed.
	Evaluated, Feasible int64
	// Next is the index of the node to start the next search at.
	Next int
	// Status is nil if Node is set. Otherwise its code is Error, or one of a rejection: PreFilter's own, or
	// Unschedulable if no node passed.
	Status *fwk.Status
	// Rejections are the reasons for which nodes or the pod were refused, sorted, whether or not another
	// node was found.
	Rejections []eventlog.Rejection
	// Plugins and PendingPlugins, sorted, are those that an event has to change the mind of before the pod
	// is worth another try: upstream's UnschedulablePlugins and PendingPlugins. They are nil if Node is
	// set or Status is an error.
	Plugins, PendingPlugins []string
	// Statuses are for PostFilter; nil if Node is set or Status is an error. Valid until the next Place.
	Statuses *NodeStatuses
}

// search is one Place at work, and the memory that it uses again next time.
type search struct {
	p         *Profile
	ctx       context.Context
	state     fwk.CycleState
	pod       *v1.Pod
	trace     *Trace
	nominator fwk.PodNominator
	reserved  *Reserved // nil: no node is reserved for others

	skip     []bool // by plugin id: the plugin's PreFilter, and then its PreScore, asked to be left out
	filters  []entry[fwk.FilterPlugin]
	scorers  []scorer
	feasible []fwk.NodeInfo

	verdict *Verdict // nil: no extender has a say

	// What the pod's ResourceClaims and extended resources ask for, and whether answers depend on that alone; see
	// World.Claims. For a pod that has a template.
	claims      []byte
	knownClaims bool
	claimless   bool // the pod has neither, its status names no claims, and its PodGroup has none

	template *template   // the pod's, nil for none
	class    *class      // the pod's, nil for none
	member   *membership // in the class
	// With a class: its filters, the places in filters of those that stand apart from it, and the places of feasible
	// among all nodes. By scorer, its place among the scorers of the class, -1 for one that stands apart.
	inside        []entry[fwk.FilterPlugin]
	outsideAt     []int
	feasibleAt    []int32
	affine        bool // of the filters, InterPodAffinity has something to say
	insideScorers []scorer
	insideAt      []int
	rawScores     []int64 // of one node
	survey        survey
	totals        []int64 // of the feasible nodes
	column        []int64 // one scorer's scores of them
	passed        [][]bool
	withheld      []withheld
	rankedAt      []int32 // places of nodes that get a total in a ranking
	fixed         []int32 // what is known of their totals

	refused  []refusal
	narrowed []fwk.NodeInfo
	scores   []fwk.NodeScore // the memory of lists
	lists    []fwk.NodeScoreList
	tally    tally

	without string // the plugin that has no say in PreFilter, "" for none

	plugins    []string // to be Placement.Plugins
	pending    []string
	absent     *fwk.Status
	preFilters *fwk.PreFilterResult
}

func (c *search) init(p *Profile) {
	c.p = p
	c.skip = make([]bool, len(p.plugins))
}

// Nominations may be implemented by a PodNominator to save the question at every node.
type Nominations interface {
	// AnyNominated reports whether any pod is nominated to any node.
	AnyNominated() bool
}

// Keeper may be implemented by a PodNominator that knows better than the pods which of them a nominated pod yields to.
// Without it these are the pods of higher priority.
type Keeper interface {
	// KeepsFrom reports whether the room that is kept for a nominated pod is not free for another pod.
	KeepsFrom(nominated, other *v1.Pod) bool
}

func (c *search) setPod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, trace *Trace) {
	c.ctx, c.state, c.pod, c.trace = ctx, state, pod, trace
	c.nominator = c.p.world.Nominator
	if n, ok := c.nominator.(Nominations); ok && !n.AnyNominated() {
		c.nominator = nil
	}
	c.reserved = nil
	if c.p.world.Reserved != nil {
		c.reserved = c.p.world.Reserved(pod)
	}
	c.verdict = nil
	clear(c.refused)
	clear(c.withheld)
	c.feasible, c.refused, c.narrowed = c.feasible[:0], c.refused[:0], c.narrowed[:0]
	c.withheld = c.withheld[:0]
	c.template, c.class, c.member, c.feasibleAt = nil, nil, nil, c.feasibleAt[:0]
	c.survey.reset()
	c.tally.reset()
	c.plugins, c.pending = nil, nil
	c.absent, c.preFilters = nil, nil
}

// Place finds the node for pod: PreFilter, the nominated node first, Filter from the start-th node on
// (Placement.Next of the last search), PreScore, Score, NormalizeScore, weights. Of nodes of equal score
// the one with the smallest name wins. state is empty before and belongs to the pod's cycle after.
func (p *Profile) Place(ctx context.Context, state fwk.CycleState, pod *v1.Pod, start int, trace *Trace) Placement {
	c := &p.search
	c.setPod(ctx, state, pod, trace)
	if p.world.Extenders != nil {
		c.verdict = p.world.Extenders(pod)
	}
	trace.begin()
	return c.place(start)
}

// place is Place once the search has begun.
func (c *search) place(start int) Placement {
	nodes, err := c.p.stage.NodeInfos().List()
	if err != nil {
		return c.fail(fwk.AsStatus(fmt.Errorf("list nodes: %w", err)), Placement{Next: start})
	}
	if len(nodes) == 0 {
		status := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no nodes available to schedule pods")
		c.tally.add(status, 0)
		return c.refuse(status, Placement{})
	}
	out := Placement{Next: start % len(nodes)}
	c.template = c.templateOf(nodes)
	if status := c.preFilter(nodes); !status.IsSuccess() {
		if status.IsError() {
			return c.fail(status, out)
		}
		c.absent = status
		return c.refuse(status, out)
	}
	if c.verdict != nil {
		return c.placeExtended(nodes, out)
	}
	if c.nominated() {
		out.Evaluated, out.Feasible = 1, 1
		c.trace.feasible(c.feasible)
		return c.choose(out)
	}
	c.classify(len(nodes))
	if c.rank(nodes, &out) {
		return out
	}
	status := c.filterAll(nodes, out.Next)
	evaluated := len(c.feasible) + len(c.refused)
	out.Next = (out.Next + evaluated) % len(nodes)
	out.Evaluated, out.Feasible = int64(evaluated), int64(len(c.feasible))
	for _, r := range c.refused {
		c.tally.add(r.status, 1)
	}
	c.trace.refused(c.refused)
	c.trace.feasible(c.feasible)
	if status != nil {
		return c.fail(status, out)
	}
	if len(c.feasible) == 0 {
		return c.refuseAll(out)
	}
	if c.class != nil {
		if c.chooseByClass(nodes, &out) {
			return out
		}
		c.class = nil // so that what went wrong is told of the plugin that comes first
		c.survey.reset()
	}
	return c.choose(out)
}

// refuseAll ends a search in which every node was refused.
func (c *search) refuseAll(out Placement) Placement {
	c.blame()
	return c.refuse(fwk.NewStatus(fwk.Unschedulable, "no node fits the pod"), out)
}

// fail ends a search in an error.
func (c *search) fail(status *fwk.Status, out Placement) Placement {
	c.tally.add(status, 0)
	out.Status = status
	out.Rejections = c.tally.rejections()
	return out
}

// refuse ends a search that found no node.
func (c *search) refuse(status *fwk.Status, out Placement) Placement {
	out.Status = status
	out.Rejections = c.tally.rejections()
	out.Plugins, out.PendingPlugins = sorted(c.plugins), sorted(c.pending)
	if c.absent == nil {
		c.absent = fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	out.Statuses = &NodeStatuses{refused: c.refused, absent: c.absent}
	return out
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// blame notes the plugins that refused nodes.
func (c *search) blame() {
	last := ""
	for _, r := range c.refused {
		name := r.status.Plugin()
		if name != last && !slices.Contains(c.plugins, name) {
			c.plugins = append(c.plugins, name)
		}
		if r.status.Code() == fwk.Pending && !slices.Contains(c.pending, name) {
			c.pending = append(c.pending, name)
		}
		last = name
	}
}

// nominated tries the node that an earlier cycle nominated the pod to, and says whether it is feasible. An
// error there is left for the search over all nodes to meet.
func (c *search) nominated() bool {
	if c.pod.Status.NominatedNodeName == "" {
		return false
	}
	node, err := c.p.stage.NodeInfos().Get(c.pod.Status.NominatedNodeName)
	if err != nil {
		return false
	}
	status := c.filterNode(node)
	if status == nil && c.reserved != nil {
		status = c.reserved.Why(node)
	}
	switch {
	case status == nil:
		c.feasible = append(c.feasible, node)
		return true
	case status.IsRejected():
		c.refused = append(c.refused, refusal{node, status})
	}
	return false
}

// filterAll filters the nodes that PreFilter left.
func (c *search) filterAll(nodes []fwk.NodeInfo, start int) *fwk.Status {
	var nominated []refusal // it was refused already; the search mostly meets it again
	if len(c.refused) > 0 {
		nominated = slices.Clone(c.refused)
		c.refused = c.refused[:0]
	}
	if !c.preFilters.AllNodes() {
		nodes = c.narrowed
	}
	limit := 1
	if len(c.p.score) > 0 || c.verdict != nil {
		limit = NumFeasibleNodesToFind(c.p.percentage, len(nodes))
	}
	status := c.filterNodes(nodes, start, limit)
	for _, r := range nominated {
		if !slices.ContainsFunc(c.refused, func(o refusal) bool { return o.node == r.node }) {
			c.refused = append(c.refused, r)
		}
	}
	return status
}

// NumFeasibleNodesToFind returns how many feasible nodes of nodes are enough, by kube-scheduler's formula:
// percentage of them, but never fewer than 100; percentage 0 stands for 50 less one for every 125 nodes,
// but at least 5.
func NumFeasibleNodesToFind(percentage int32, nodes int) int {
	const minNodes, minPercentage = 100, 5
	if nodes < minNodes {
		return nodes
	}
	if percentage == 0 {
		percentage = max(50-int32(nodes/125), minPercentage)
	}
	return max(nodes*int(percentage)/100, minNodes)
}
