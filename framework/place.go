package framework

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Placement is the best node for a pod, or the reasons why it fits no node.
type Placement struct {
	// Node is the name of the node, "" for none.
	Node string
	// Score is the node's total score. It is 0 if the node was the only feasible one, because none was scored then.
	Score int64
	// Evaluated counts the nodes that were filtered, and Feasible the nodes that passed.
	Evaluated, Feasible int64
	// Next is the index of the node with which the next search starts.
	Next int
	// Status is nil if Node is set. Otherwise its code is Error, or a rejection: the code from PreFilter, or
	// Unschedulable if no node passed Filter.
	Status *fwk.Status
	// Rejections are the reasons for which plugins refused nodes or the pod, sorted. They are set even if another node
	// was found.
	Rejections []eventlog.Rejection
	// Plugins and PendingPlugins, sorted, are the plugins that refused the pod. An event must concern one of them
	// before another try is worthwhile. They are upstream's UnschedulablePlugins and PendingPlugins, and nil if Node is
	// set or Status is an error.
	Plugins, PendingPlugins []string
	// Statuses are for PostFilter. They are nil if Node is set or Status is an error, and valid until the next Place.
	Statuses *NodeStatuses
}

// search is one run of Place, with memory that the next run reuses.
type search struct {
	p         *Profile
	ctx       context.Context
	state     fwk.CycleState
	pod       *v1.Pod
	trace     *Trace
	nominator fwk.PodNominator
	reserved  *Reserved // nil: no node is reserved for others

	// skip has, by plugin id, whether the plugin's PreFilter, and later its PreScore, answered Skip.
	skip     []bool
	filters  []entry[fwk.FilterPlugin]
	scorers  []scorer
	feasible []fwk.NodeInfo

	verdict *Verdict // nil: no extender is interested in the pod

	// claims describes the requests of the pod's ResourceClaims and extended resources. knownClaims is set if answers
	// depend on them alone; see World.Claims. They are set for a pod that has a template.
	claims      []byte
	knownClaims bool
	// claimless: the pod has neither, its status names no claims, and its PodGroup has none.
	claimless bool

	template *template   // of the pod; nil for none
	class    *class      // of the pod; nil for none
	member   *membership // of the pod in its class
	// The following are set for a pod with a class. inside are its filters in the class, and outsideAt the indices in
	// filters of the others. feasibleAt has, for each node of feasible, its place among all nodes. insideAt has, for
	// each scorer, its index in insideScorers, or -1 for a scorer outside the class.
	inside        []entry[fwk.FilterPlugin]
	outsideAt     []int
	feasibleAt    []int32
	affine        bool // the filters include InterPodAffinity, and it has terms to check
	insideScorers []scorer
	insideAt      []int
	rawScores     []int64 // of one node
	survey        survey
	totals        []int64 // of the feasible nodes
	column        []int64 // one scorer's scores of these nodes
	passed        [][]bool
	heldBack      []heldBack
	rankedAt      []int32 // places of the feasible nodes of a ranking that are being scored
	fixed         []int32 // the known parts of their totals

	refused  []refusal
	narrowed []fwk.NodeInfo
	scores   []fwk.NodeScore // the memory of lists
	lists    []fwk.NodeScoreList
	tally    tally

	exempt exempt

	plugins    []string // will be Placement.Plugins
	pending    []string
	absent     *fwk.Status
	preFilters *fwk.PreFilterResult
}

// exempt says what a search leaves out.
type exempt struct {
	plugin string // its PreFilter does not run; "" for none
	sample bool   // it tries every node, whatever the percentage of the profile
}

func (c *search) init(p *Profile) {
	c.p = p
	c.skip = make([]bool, len(p.plugins))
}

// Nominations may be implemented by a PodNominator. It saves a question for every node.
type Nominations interface {
	// AnyNominated reports whether any pod is nominated to any node.
	AnyNominated() bool
}

// Keeper may be implemented by a PodNominator that decides which pods must leave a nominated pod's capacity free.
// Without it, the pods of lower priority must.
type Keeper interface {
	// KeepsFrom reports whether the capacity for a nominated pod is not free for the other pod.
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
	clear(c.heldBack)
	c.feasible, c.refused, c.narrowed = c.feasible[:0], c.refused[:0], c.narrowed[:0]
	c.heldBack = c.heldBack[:0]
	c.template, c.class, c.member, c.feasibleAt = nil, nil, nil, c.feasibleAt[:0]
	c.survey.reset()
	c.tally.reset()
	c.plugins, c.pending = nil, nil
	c.absent, c.preFilters = nil, nil
}

// Place finds the node for pod. It runs PreFilter, tries the nominated node, runs Filter from the node at index start
// on, and then PreScore, Score and NormalizeScore, and applies the weights. start is Placement.Next of the last search.
// If several nodes have the highest score, the one with the smallest name wins. state must be empty; afterwards it
// belongs to the pod's cycle.
func (p *Profile) Place(ctx context.Context, state fwk.CycleState, pod *v1.Pod, start int, trace *Trace) Placement {
	c := &p.search
	c.setPod(ctx, state, pod, trace)
	if p.world.Extenders != nil {
		c.verdict = p.world.Extenders(pod)
	}
	trace.begin()
	return c.place(start)
}

// place runs Place after setPod.
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
		c.class = nil // the other path reports the error of the first plugin that fails
		c.survey.reset()
	}
	return c.choose(out)
}

// refuseAll ends a search in which every node was refused.
func (c *search) refuseAll(out Placement) Placement {
	c.blame()
	return c.refuse(fwk.NewStatus(fwk.Unschedulable, "no node fits the pod"), out)
}

// fail ends a search with an error.
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

// blame records the plugins that refused nodes.
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

// nominated tries the node to which an earlier cycle nominated the pod, and reports whether it is feasible. It ignores
// an error: the search over all nodes reports it.
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
	var nominated []refusal // refused already; the search mostly refuses it again
	if len(c.refused) > 0 {
		nominated = slices.Clone(c.refused)
		c.refused = c.refused[:0]
	}
	if !c.preFilters.AllNodes() {
		nodes = c.narrowed
	}
	limit := 1
	switch {
	case c.exempt.sample:
		limit = len(nodes)
	case len(c.p.score) > 0 || c.verdict != nil:
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

// NumFeasibleNodesToFind returns the number of feasible nodes after which a search may stop. The formula is
// kube-scheduler's: percentage of the nodes, but at least 100. A percentage of 0 means 50 minus one for every 125
// nodes, but at least 5.
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
