package framework

import (
	"math"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// A ranking is the answer of a whole search for the pods of a class, kept up instead of found anew: which nodes are feasible,
// why the others are not, and which is best. A node that has changed since is filtered and scored again and moves to
// its new place, in time that grows with the logarithm of the number of nodes; the others are not looked at.
//
// The order is the one that a search would find: by total of the weighted, normalized scores, and of equals the first by
// name, which is the first in the list. A normalized score depends on the scores of the other feasible nodes. Of plugins
// in normalizedByHighest it depends on the highest of them alone; when that moves all totals are made anew. With another
// plugin that normalizes there is no ranking.

// normalizedByHighest are the plugins whose NormalizeScore gives a node what follows from its raw score and the highest one.
// TestScoresNormalizedByTheHighest compares.
var normalizedByHighest = []string{names.TaintToleration, names.NodeAffinity, names.DynamicResources}

// ranking is a class's.
type ranking struct {
	ready bool
	since uint64  // of World.Changed: what changed before is ranked
	stale []int32 // places of nodes of which the class learned something new on another way
	dirty []int32 // places of nodes that were looked at and have no place yet

	nodes    []rankedNode
	feasible int
	refused  tally   // why the others are not feasible
	scales   []scale // of the scorers that normalize, in their order

	// winners is a tree over the places of the nodes: winners[1] is the place of the best one of all, and winners[i] the better of
	// winners[2i] and winners[2i+1]. The leaves begin at half of its length.
	winners []int32
}

// rankedNode is what a node's place rests on.
type rankedNode struct {
	generation int64 // 0: not ranked
	status     *fwk.Status
	total      int64 // unranked if the node is not feasible
}

// unranked is below every total.
const unranked = math.MinInt64

// scale is the range of the raw scores that a plugin gives to feasible nodes.
type scale struct {
	scorer  int             // in the class's scorers
	raw     []int64         // by node, as ranked
	count   map[int64]int   // feasible nodes, by raw score
	highest int64           // of count
	value   map[int64]int64 // normalized, by raw score, for this highest; filled as asked
}

// rank finds the best node by the class's ranking. It returns false if this search cannot go by one, and then nothing has
// happened.
func (c *search) rank(nodes []fwk.NodeInfo, out *Placement) bool {
	k := c.class
	if k == nil || c.p.world.Changed == nil || c.reserved != nil || c.p.stage.changed != nil || len(c.p.score) == 0 ||
		NumFeasibleNodesToFind(c.p.percentage, len(nodes)) < len(nodes) {
		return false
	}
	if !k.again { // many a class has one pod only
		k.again = true
		return false
	}
	all := c.feasible
	c.feasible = nodes // the plugins that score in classes look at none of them
	status := c.preScore()
	c.feasible = all
	if status != nil || !k.rankable(c.scorers) {
		return false
	}
	if !k.rankChanged(c, nodes) {
		k.rank = ranking{}
		return false
	}
	r := &k.rank
	if r.feasible == 0 {
		return false // PostFilter wants to know of every node
	}
	best := r.winners[1]
	out.Evaluated, out.Feasible = int64(len(nodes)), int64(r.feasible)
	out.Node = nodes[best].Node().Name
	if r.feasible > 1 {
		out.Score = r.nodes[best].total
	}
	for _, row := range r.refused.rows {
		if row.Nodes > 0 {
			c.tally.count(rejectionKey{row.Plugin, row.Code, row.Reason}, row.Nodes)
		}
	}
	out.Rejections = c.tally.rejections()
	return true
}

// rankable settles whether the plugins that score allow a ranking, and begins one anew where others do than before.
func (k *class) rankable(scorers []scorer) bool {
	if sameIDs(k.scorers, scorers, func(s scorer) int { return s.id }) && k.rank.nodes != nil {
		return true
	}
	for _, s := range scorers {
		if s.plugin.ScoreExtensions() != nil && !slices.Contains(normalizedByHighest, s.name) {
			return false
		}
	}
	k.keepScorers(scorers)
	k.rank = ranking{nodes: make([]rankedNode, len(k.nodes))}
	leaves := 1
	for leaves < len(k.nodes) {
		leaves *= 2
	}
	k.rank.winners = make([]int32, 2*leaves)
	for i, s := range scorers {
		if s.plugin.ScoreExtensions() != nil {
			k.rank.scales = append(k.rank.scales, scale{scorer: i, raw: make([]int64, len(k.nodes)), count: map[int64]int{}, value: map[int64]int64{}})
		}
	}
	return true
}

// rankChanged brings the ranking up to date. It returns false if a plugin failed, or gave a score that it may not give.
func (k *class) rankChanged(c *search, nodes []fwk.NodeInfo) bool {
	r := &k.rank
	places, now, known := c.p.world.Changed(r.since)
	if !r.ready || !known || len(places) > len(nodes) {
		places = nil
		for at := range nodes {
			if !k.look(c, at, nodes[at]) {
				return false
			}
		}
	}
	for _, list := range [][]int32{places, r.stale} {
		for _, at := range list {
			if !k.look(c, int(at), nodes[at]) {
				return false
			}
		}
	}
	r.since, r.stale = now, r.stale[:0]
	moved := false
	for i := range r.scales {
		moved = r.scales[i].rescale() || moved
	}
	if moved || !r.ready {
		for at := range r.nodes {
			if r.nodes[at].status == nil && !k.total(c, at) {
				return false
			}
		}
		r.build()
		r.ready, r.dirty = true, r.dirty[:0]
		return true
	}
	for _, at := range r.dirty {
		if r.nodes[at].status == nil && !k.total(c, int(at)) {
			return false
		}
		r.climb(at)
	}
	r.dirty = r.dirty[:0]
	return true
}

// look filters and scores the node if it has changed, and takes note of what came out. Its total is made later.
func (k *class) look(c *search, at int, node fwk.NodeInfo) bool {
	r := &k.rank
	n := &r.nodes[at]
	generation := node.GetGeneration()
	if n.generation == generation && k.knows(at, generation) {
		return true
	}
	status := k.filter(c, at, node)
	if status.IsError() || status == nil && k.scoreRaw(c, at, node, c.scorers) != nil {
		return false
	}
	if n.generation != 0 {
		r.forget(at, n)
	}
	n.generation, n.status, n.total = generation, status, unranked
	if status == nil {
		r.feasible++
		for i := range r.scales {
			s := &r.scales[i]
			s.raw[at] = k.raw[at*len(k.scorers)+s.scorer]
			s.count[s.raw[at]]++
		}
	} else {
		r.refused.add(status, 1)
	}
	r.dirty = append(r.dirty, int32(at))
	return true
}

// knows says whether what the class keeps of a node is of that generation, and not of a rehearsal's.
func (k *class) knows(at int, generation int64) bool {
	n := &k.nodes[at]
	return n.filtered == generation && (n.status != nil || n.scored == generation)
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

// rescale finds the highest raw score anew and says whether it has moved.
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

// total makes the node's total. It returns false if a score is out of range.
func (k *class) total(c *search, at int) bool {
	r, raw := &k.rank, k.raw[at*len(k.scorers):]
	total, next := int64(0), 0
	for i := range c.scorers {
		score := raw[i]
		if next < len(r.scales) && r.scales[next].scorer == i {
			var ok bool
			if score, ok = r.scales[next].normalized(c, score); !ok {
				return false
			}
			next++
		}
		if score < fwk.MinScore || score > fwk.MaxScore {
			return false
		}
		total += score * c.scorers[i].weight
	}
	r.nodes[at].total = total
	return true
}

// normalized asks the plugin what becomes of a raw score beside the highest one.
func (s *scale) normalized(c *search, raw int64) (int64, bool) {
	if value, ok := s.value[raw]; ok {
		return value, true
	}
	list := fwk.NodeScoreList{{Score: raw}, {Score: s.highest}}
	status := c.scorers[s.scorer].plugin.ScoreExtensions().NormalizeScore(c.ctx, c.state, c.pod, list)
	s.value[raw] = list[0].Score
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
