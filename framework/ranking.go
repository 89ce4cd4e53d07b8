package framework

import (
	"math"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// A ranking is the answer of a whole search for the pods of one template: which nodes are feasible, why the others are
// not, and which is best. It is updated from search to search. A node that has changed since is filtered and scored
// again, and gets its new place in a time that grows with the logarithm of the number of nodes. Other nodes are not
// looked at.
//
// Invariant: after update the best place is the node that a search without a ranking would find: the one with the
// highest total of the weighted, normalized scores, and of equals the first by name, which is the first in the list.
//
// A normalized score depends on the scores of the other feasible nodes. For plugins in normalizedByHighest it depends
// on the highest of them alone, and when that changes, all totals are computed again. Example: TaintToleration counts
// the taints that the pod does not tolerate, and the highest count is 3. When the only node with 3 is feasible no more,
// the highest is 2, and the total of every node may change. With any other plugin that normalizes there is no ranking.
//
// Nor is there one while InterPodAffinity filters or scores for the pod. Where pods have affinity it skips those that
// no term concerns, and these have rankings.

// normalizedByHighest are the plugins whose NormalizeScore gives a node what follows from its raw score and the highest
// one. TestScoresNormalizedByTheHighest compares.
var normalizedByHighest = []string{names.TaintToleration, names.NodeAffinity, names.DynamicResources}

// maxRankedNodes bounds the memory of rankings, of which a node takes some 60 bytes in each, as maxClassNodes does that
// of classes.
const maxRankedNodes = 1 << 21

// ranking is that of a template.
type ranking struct {
	used    uint64 // classes.clock at the last use
	filters []int  // ids of the plugins that it was made with; with others it begins empty
	scorers []int

	ready bool    // all nodes have been ranked once
	since uint64  // of World.Changed: every node that changed before is ranked
	dirty []int32 // nodes that were filtered and scored again, and are not yet in winners with their new total

	nodes    []rankedNode // as World.Lister lists them
	feasible int
	refused  tally   // why the others are not feasible
	scales   []scale // of the scorers that normalize, in their order

	// winners is a tree over the places of the nodes: winners[1] is the place of the best one of all, and winners[i]
	// the better of winners[2i] and winners[2i+1]. The leaves begin at half of its length.
	winners []int32
}

// rankedNode is what a node's place is computed from.
type rankedNode struct {
	generation int64       // of the node when it was filtered and scored; 0: not ranked
	status     *fwk.Status // nil: feasible
	fixed      int64       // the part of total that does not depend on other nodes
	total      int64       // unranked if the node is not feasible
}

// unranked is below every total.
const unranked = math.MinInt64

// scale is the range of the raw scores that a plugin gives to feasible nodes.
type scale struct {
	scorer  int             // its place among the scorers
	raw     []int64         // by node
	count   map[int64]int   // feasible nodes, by raw score
	highest int64           // of count
	value   map[int64]int64 // normalized, by raw score, for this highest; filled as asked
}

// rank finds the best node by the ranking of the pod's template. It returns false if this search cannot use a ranking.
// Nothing has changed then, except that PreScore may have run.
func (c *search) rank(nodes []fwk.NodeInfo, out *Placement) bool {
	if c.class == nil || !c.member.ranked || c.affine || !c.template.again || c.p.world.Changed == nil ||
		c.reserved != nil || c.nominator != nil || len(c.refused) > 0 ||
		c.p.stage.changed != nil || len(c.p.score) == 0 || NumFeasibleNodesToFind(c.p.percentage,
		len(nodes)) < len(nodes) {
		return false
	}
	r := c.p.classes.rankingOf(c.template.key, len(nodes))
	all := c.feasible
	c.feasible = nodes // the plugins that score in classes look at none of them
	status := c.preScore()
	c.feasible = all
	if status != nil || !r.fits(c, len(nodes)) {
		return false
	}
	c.apportion(c.scorers)
	if !r.update(c, nodes) {
		*r = ranking{used: r.used}
		return false
	}
	for _, row := range r.refused.rows {
		if row.Nodes > 0 {
			c.tally.count(rejectionKey{row.Plugin, row.Code, row.Reason}, row.Nodes)
		}
	}
	out.Evaluated, out.Feasible = int64(len(nodes)), int64(r.feasible)
	if r.feasible == 0 {
		for i := range nodes {
			at := (out.Next + i) % len(nodes)
			c.refused = append(c.refused, refusal{nodes[at], r.nodes[at].status})
		}
		*out = c.refuseAll(*out)
		return true
	}
	best := r.winners[1]
	out.Node = nodes[best].Node().Name
	if r.feasible > 1 {
		out.Score = r.nodes[best].total
	}
	out.Rejections = c.tally.rejections()
	return true
}

// rankingOf returns the ranking of the template, which may be empty. The one that was not used for longest goes if
// there are as many as there may be.
func (m *classes) rankingOf(template string, nodes int) *ranking {
	r, ok := m.rankings[template]
	if !ok {
		if len(m.rankings) >= max(leastClasses, maxRankedNodes/nodes) {
			delete(m.rankings, leastRecent(m.rankings, func(r *ranking) uint64 { return r.used }))
		}
		r = &ranking{}
		m.rankings[template] = r
	}
	m.clock++
	r.used = m.clock
	return r
}

// fits reports whether the plugins that score allow a ranking. If other plugins filter or score than before, the
// ranking begins empty.
func (r *ranking) fits(c *search, nodes int) bool {
	if len(r.nodes) == nodes && sameIDs(r.filters, c.filters, func(e entry[fwk.FilterPlugin]) int { return e.id }) &&
		sameIDs(r.scorers, c.scorers, func(s scorer) int { return s.id }) {
		return true
	}
	for _, s := range c.scorers {
		if s.plugin.ScoreExtensions() != nil && !slices.Contains(normalizedByHighest, s.name) {
			return false
		}
	}
	*r = ranking{used: r.used, nodes: make([]rankedNode, nodes)}
	for _, f := range c.filters {
		r.filters = append(r.filters, f.id)
	}
	leaves := 1
	for leaves < nodes {
		leaves *= 2
	}
	r.winners = make([]int32, 2*leaves)
	for i, s := range c.scorers {
		r.scorers = append(r.scorers, s.id)
		if s.plugin.ScoreExtensions() != nil {
			r.scales = append(r.scales, scale{scorer: i, raw: make([]int64, nodes), count: map[int64]int{},
				value: map[int64]int64{}})
		}
	}
	return true
}

// update looks at the nodes that have changed and gives them their places. It returns false if a plugin failed, or gave
// a score that it may not give.
func (r *ranking) update(c *search, nodes []fwk.NodeInfo) bool {
	places, now, known := c.p.world.Changed(r.since)
	if !r.ready || !known || len(places) > len(nodes) {
		c.surveyFilters(nodes)
		c.surveyScores(nodes)
		for at := range nodes {
			if !r.look(c, at, nodes[at]) {
				return false
			}
		}
	} else {
		for _, at := range places {
			if !r.look(c, int(at), nodes[at]) {
				return false
			}
		}
	}
	r.since = now
	moved := false
	for i := range r.scales {
		moved = r.scales[i].rescale() || moved
	}
	if moved || !r.ready {
		for at := range r.nodes {
			if r.nodes[at].status == nil && !r.sum(c, at) {
				return false
			}
		}
		r.build()
		r.ready, r.dirty = true, r.dirty[:0]
		return true
	}
	for _, at := range r.dirty {
		if r.nodes[at].status == nil && !r.sum(c, int(at)) {
			return false
		}
		r.climb(at)
	}
	r.dirty = r.dirty[:0]
	return true
}

// look filters and scores the node if it has changed, and notes the result. Its total is computed later, by sum, when
// the highest raw scores are known.
func (r *ranking) look(c *search, at int, node fwk.NodeInfo) bool {
	n := &r.nodes[at]
	generation := node.GetGeneration()
	if n.generation == generation {
		return true
	}
	status := c.filterAt(at, node)
	if status.IsError() {
		return false
	}
	raw := sized(c.rawScores, len(c.scorers))
	c.rawScores = raw
	if status == nil && c.scoreAt(c.scorers, at, node, raw) != nil {
		return false
	}
	if n.generation != 0 {
		r.forget(at, n)
	}
	*n = rankedNode{generation: generation, status: status, total: unranked}
	r.dirty = append(r.dirty, int32(at))
	if status != nil {
		r.refused.add(status, 1)
		return true
	}
	r.feasible++
	next := 0
	for i, score := range raw {
		if next < len(r.scales) && r.scales[next].scorer == i {
			s := &r.scales[next]
			s.raw[at] = score
			s.count[score]++
			next++
			continue
		}
		if score < fwk.MinScore || score > fwk.MaxScore {
			return false
		}
		n.fixed += score * c.scorers[i].weight
	}
	return true
}

// forget takes back what is noted of a node.
func (r *ranking) forget(at int, n *rankedNode) {
	if n.status != nil {
		r.refused.add(n.status, -1)
		return
	}
	r.feasible--
	for i := range r.scales {
		s := &r.scales[i]
		if s.count[s.raw[at]]--; s.count[s.raw[at]] == 0 {
			delete(s.count, s.raw[at])
		}
	}
}

// rescale finds the highest raw score again, and reports whether it has changed.
func (s *scale) rescale() bool {
	highest := int64(0) // as helper.DefaultNormalizeScore has it
	// any order: a maximum
	for raw := range s.count {
		highest = max(highest, raw)
	}
	if highest == s.highest {
		return false
	}
	s.highest = highest
	clear(s.value)
	return true
}

// sum makes the node's total. It returns false if a normalized score is out of range.
func (r *ranking) sum(c *search, at int) bool {
	n := &r.nodes[at]
	n.total = n.fixed
	for i := range r.scales {
		s := &r.scales[i]
		score, ok := s.normalized(c, s.raw[at])
		if !ok || score < fwk.MinScore || score > fwk.MaxScore {
			return false
		}
		n.total += score * c.scorers[s.scorer].weight
	}
	return true
}

// normalized returns the plugin's normalized score for a raw score, given the highest one.
func (s *scale) normalized(c *search, raw int64) (int64, bool) {
	if value, ok := s.value[raw]; ok {
		return value, true
	}
	value, ok := c.normalizedBeside(&c.scorers[s.scorer], raw, s.highest)
	s.value[raw] = value
	return value, ok
}

// normalizedBeside asks a plugin of normalizedByHighest to normalize a raw score, given the highest one.
func (c *search) normalizedBeside(s *scorer, raw, highest int64) (int64, bool) {
	list := fwk.NodeScoreList{{Score: raw}, {Score: highest}}
	status := s.plugin.ScoreExtensions().NormalizeScore(c.ctx, c.state, c.pod, list)
	return list[0].Score, status.IsSuccess()
}

// better returns the better of two places, which may be beyond the nodes.
func (r *ranking) better(a, b int32) int32 {
	if int(b) >= len(r.nodes) || int(a) < len(r.nodes) && r.nodes[a].total >= r.nodes[b].total {
		return a
	}
	return b
}

// build fills the tree.
func (r *ranking) build() {
	leaves := len(r.winners) / 2
	for at := range leaves {
		r.winners[leaves+at] = int32(at)
	}
	for i := leaves - 1; i > 0; i-- {
		r.winners[i] = r.better(r.winners[2*i], r.winners[2*i+1])
	}
}

// climb brings the tree up to date above a node.
func (r *ranking) climb(at int32) {
	for i := (len(r.winners)/2 + int(at)) / 2; i > 0; i /= 2 {
		r.winners[i] = r.better(r.winners[2*i], r.winners[2*i+1])
	}
}
