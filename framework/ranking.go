package framework

import (
	"math"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// A ranking has the result of a whole search for the pods of one template: which nodes are feasible, why the others are
// not, and which is best. Each search updates it. The search filters and scores again only the nodes that have changed,
// and moves each to its new place in a time logarithmic in the number of nodes. It does not visit other nodes.
//
// Invariant: after update the best place is the node that a search without a ranking would find. It has the highest
// total of the weighted, normalized scores. Ties go to the first node of the list, which is sorted by name.
//
// A pod whose template is new uses a ranking that is forgotten at once.
//
// A normalized score depends on the scores of the other feasible nodes. For plugins in normalizedByHighest it depends
// only on the highest of them. When the highest changes, all totals are computed again. Example: TaintToleration counts
// the taints that the pod does not tolerate, and the highest count is 3. When the only node with 3 is no longer
// feasible, the highest is 2, and every total may change. Other plugins that normalize rule a ranking out.
//
// Reservations are not part of a ranking. Every search asks about the feasible nodes, see Reserved, and takes the best
// of the nodes that are left.
//
// There is no ranking while InterPodAffinity filters or scores for the pod. It skips pods that no affinity term
// concerns, and these pods do have rankings.

// normalizedByHighest lists the plugins whose NormalizeScore depends only on the node's raw score and the highest one.
// TestScoresNormalizedByTheHighest checks that.
var normalizedByHighest = []string{names.TaintToleration, names.NodeAffinity, names.DynamicResources}

// maxRankingBytes bounds the memory of a profile's rankings. A node takes some 8.3 bytes in each ranking, and 4 more
// for each plugin that normalizes scores. That is enough for a thousand rankings of 15,000 nodes, or three hundred of
// 50,000. When the bound is reached, the least recently used ranking is dropped. At least leastRankings are kept in any
// case, and at most maxTemplates, because each ranking also takes some KiB besides the nodes.
const (
	maxRankingBytes = 128 << 20
	leastRankings   = 16
)

// ranking is the ranking of one template.
type ranking struct {
	used    uint64 // classes.clock at the last use
	filters []int  // ids of the plugins that it was built with; with others it starts empty
	scorers []int

	nodes follower // all: all nodes are ranked

	totals   maxTree // by place in World.Lister; unranked if the node is not feasible
	refusal  []int32 // by place: the number of the reason in refused, 0 if the node is feasible
	refused  refusals
	feasible int
	scales   []scale // of the scorers that normalize, in their order
}

// unranked is below every total. maxTotal is the highest total that a ranking allows, because totals have 32 bits. If
// the weights add up to more than 21 million, there are no rankings.
const (
	unranked = math.MinInt32
	maxTotal = math.MaxInt32
)

// scale has the range of the raw scores that a plugin gives to feasible nodes.
type scale struct {
	scorer  int             // its index among the scorers
	raw     []int32         // by place; nil as long as all are 0
	count   map[int32]int   // by raw score, without 0: the number of feasible nodes
	highest int32           // the highest raw score in count, but at least 0
	value   map[int32]int32 // by raw score: normalized and weighted, for this highest; filled on demand
	before  map[int32]int32 // if moved: value for the previous highest
	moved   bool            // highest has changed in the current update
	beside  int32           // the highest of the nodes that are not held back in the current search
}

// rank finds the best node from the ranking of the pod's template. If the pod is the first of its template, it builds a
// ranking for this pod only. It returns false if this search cannot use a ranking. Then nothing has changed, except
// that PreScore may have run.
func (c *search) rank(nodes []fwk.NodeInfo, out *Placement) bool {
	if !c.rankable(len(nodes)) {
		return false
	}
	r := c.p.classes.rankingOf(c.template)
	all := c.feasible
	c.feasible = nodes // the plugins that score in classes read none of them
	status := c.preScore()
	c.feasible = all
	if status != nil || !r.fits(c, len(nodes)) {
		return false
	}
	c.apportion(c.scorers)
	if !c.template.again && c.reserved == nil && c.rankByGroups(r, nodes, out) {
		return true
	}
	if !r.update(c, nodes) {
		*r = ranking{used: r.used}
		return false
	}
	best, total, ok := r.bestBeside(c, nodes)
	if !ok {
		return false
	}
	r.refused.count(&c.tally)
	for i := range c.heldBack {
		c.tally.add(c.heldBack[i].status, 1)
	}
	left := r.feasible - len(c.heldBack)
	out.Evaluated, out.Feasible = int64(len(nodes)), int64(left)
	if left == 0 {
		c.refuseEach(nodes, out, func(at int) *fwk.Status {
			if status := r.refused.of(r.refusal[at]); status != nil {
				return status
			}
			return c.heldBackAt(at)
		})
		return true
	}
	out.Node = nodes[best].Node().Name
	if left > 1 {
		out.Score = int64(total)
	}
	out.Rejections = c.tally.rejections()
	return true
}

// rankable reports whether a search over that many nodes may use a ranking.
func (c *search) rankable(nodes int) bool {
	return c.class != nil && c.member.ranked && !c.affine && c.p.world.Changed != nil && c.nominator == nil &&
		len(c.refused) == 0 && c.p.stage.changed == nil && len(c.p.score) > 0 &&
		NumFeasibleNodesToFind(c.p.percentage, nodes) >= nodes
}

// refuseEach ends a search that refused all nodes. why returns the status for the node at a place.
func (c *search) refuseEach(nodes []fwk.NodeInfo, out *Placement, why func(at int) *fwk.Status) {
	for i := range nodes {
		at := (out.Next + i) % len(nodes)
		c.refused = append(c.refused, refusal{nodes[at], why(at)})
	}
	*out = c.refuseAll(*out)
}

// rankingOf returns the ranking of the template, which may be empty. The first pod of a template may be the last, so
// its ranking is forgotten.
func (m *classes) rankingOf(t *template) *ranking {
	if !t.again {
		m.passing.nodes.all = false
		return &m.passing
	}
	r, ok := m.rankings[t.key]
	if !ok {
		if len(m.rankings) >= maxTemplates {
			delete(m.rankings, leastRecent(m.rankings, func(r *ranking) uint64 { return r.used }))
		}
		r = &ranking{}
		m.rankings[t.key] = r
	}
	m.clock++
	r.used = m.clock
	return r
}

// boundRankings drops the least recently used rankings until the others are within the bound.
func (m *classes) boundRankings() {
	sum := 0
	// any order: a sum
	for _, r := range m.rankings {
		sum += r.bytes()
	}
	for sum > m.most(maxRankingBytes) && len(m.rankings) > leastRankings {
		oldest := leastRecent(m.rankings, func(r *ranking) uint64 { return r.used })
		sum -= m.rankings[oldest].bytes()
		delete(m.rankings, oldest)
	}
}

// bytes returns the memory that the ranking may take for nodes.
func (r *ranking) bytes() int { return r.totals.bytes() + 4*len(r.refusal)*(1+len(r.scales)) }

// fits reports whether the scorers allow a ranking. If the filters or scorers differ from the earlier ones, the ranking
// becomes empty.
func (r *ranking) fits(c *search, nodes int) bool {
	if len(r.refusal) == nodes && sameIDs(r.filters, c.filters, func(e entry[fwk.FilterPlugin]) int { return e.id }) &&
		sameIDs(r.scorers, c.scorers, func(s scorer) int { return s.id }) {
		return true
	}
	highest := int64(0)
	for _, s := range c.scorers {
		if s.plugin.ScoreExtensions() != nil && !slices.Contains(normalizedByHighest, s.name) {
			return false
		}
		highest += s.weight
	}
	if highest > maxTotal/fwk.MaxScore {
		return false
	}
	*r = ranking{used: r.used, totals: newMaxTree(nodes), refusal: make([]int32, nodes)}
	for _, f := range c.filters {
		r.filters = append(r.filters, f.id)
	}
	for i, s := range c.scorers {
		r.scorers = append(r.scorers, s.id)
		if s.plugin.ScoreExtensions() != nil {
			r.scales = append(r.scales, scale{scorer: i, count: map[int32]int{}, value: map[int32]int32{},
				before: map[int32]int32{}})
		}
	}
	c.p.classes.boundRankings()
	return true
}

// update filters and scores the changed nodes and moves them to their new places. It returns false if a plugin failed
// or gave a score out of range.
func (r *ranking) update(c *search, nodes []fwk.NodeInfo) bool {
	places, anew := r.nodes.changed(c, len(nodes))
	r.nodes.all = false // until all is done
	if anew {
		r.reset()
	} else {
		places = c.p.classes.distinct(places, len(nodes))
		for _, at := range places {
			r.forget(at)
		}
	}
	if !c.learn(nodes) || !r.look(c, nodes, places) {
		return false
	}
	moved := false
	for i := range r.scales {
		moved = r.scales[i].rescale() || moved
	}
	if !r.complete(c) {
		return false
	}
	if !anew && !moved {
		r.move(c, places)
		r.nodes.all = true
		return true
	}
	if !anew && !r.shift(c, places) {
		return false
	}
	r.write(c, places)
	r.totals.build()
	r.nodes.all = true
	return true
}

// reset forgets all nodes.
func (r *ranking) reset() {
	clear(r.refusal)
	r.begin()
}

// begin resets the counts of nodes. It keeps the refusal of each node.
func (r *ranking) begin() {
	r.refused.reset()
	r.feasible, r.nodes.all = 0, false
	for i := range r.scales {
		s := &r.scales[i]
		clear(s.count)
		clear(s.value)
		clear(s.raw)
		s.highest = 0
	}
}

// forget removes a node from all counts. Its total stays in the tree.
func (r *ranking) forget(at int32) {
	if i := r.refusal[at]; i != 0 {
		r.refused.drop(i)
		return
	}
	r.feasible--
	for i := range r.scales {
		r.scales[i].forget(at)
	}
}

// look filters and scores the nodes at places. It leaves the feasible ones in c.rankedAt. c.fixed has, for each of
// these, the part of its total that does not depend on other nodes.
func (r *ranking) look(c *search, nodes []fwk.NodeInfo, places []int32) bool {
	c.surveyFilters(nodes, onlyAt(places))
	c.p.ranked += len(places)
	c.rankedAt = c.rankedAt[:0]
	passes, asked := c.passes()
	for _, at := range places {
		if asked && c.class.nodes[at].refusal == 0 && passAll(passes, at) {
			r.refusal[at] = 0
			c.rankedAt = append(c.rankedAt, at)
			continue
		}
		status := c.filterAt(int(at), nodes[at])
		if status.IsError() {
			return false
		}
		if r.refusal[at] = r.refused.add(status); status == nil {
			c.rankedAt = append(c.rankedAt, at)
		}
	}
	r.feasible += len(c.rankedAt)
	return r.scoreAll(c, nodes)
}

// scoreAll scores the nodes of c.rankedAt, plugin by plugin.
func (r *ranking) scoreAll(c *search, nodes []fwk.NodeInfo) bool {
	c.fixed = sized(c.fixed, len(c.rankedAt))
	clear(c.fixed)
	c.surveyScores(nodes, onlyAt(c.rankedAt))
	if len(c.insideScorers) > 0 {
		for _, at := range c.rankedAt {
			if n := &c.class.nodes[at]; n.scored != n.filtered {
				if _, status := c.class.score(c, int(at), nodes[at]); status != nil {
					return false
				}
			}
		}
	}
	next := 0
	for k := range c.scorers {
		if !c.readColumn(k, nodes, c.rankedAt) {
			return false
		}
		if next < len(r.scales) && r.scales[next].scorer == k {
			s := &r.scales[next]
			next++
			if !s.note(c.rankedAt, c.column, len(nodes)) {
				return false
			}
			continue
		}
		weight := c.scorers[k].weight
		for i, score := range c.column {
			if score < fwk.MinScore || score > fwk.MaxScore {
				return false
			}
			c.fixed[i] += int32(score * weight)
		}
	}
	return true
}

// move sets the totals of the nodes at places in the tree, one by one. complete has computed them.
func (r *ranking) move(c *search, places []int32) {
	for _, at := range places {
		if r.refusal[at] != 0 {
			r.totals.set(at, unranked)
		}
	}
	for i, at := range c.rankedAt {
		r.totals.set(at, c.fixed[i])
	}
}

// write sets the totals of the nodes at places, which complete has computed. Afterwards the tree must be built.
func (r *ranking) write(c *search, places []int32) {
	numbers := r.totals.numbers()
	if len(places) > len(c.rankedAt) {
		for _, at := range places {
			numbers[at] = unranked
		}
	}
	for i, at := range c.rankedAt {
		numbers[at] = c.fixed[i]
	}
}

// shift adjusts the totals of the nodes that are not at places to the new highest raw score.
func (r *ranking) shift(c *search, places []int32) bool {
	numbers := r.totals.numbers()
	for _, at := range places {
		numbers[at] = unranked
	}
	for at := range numbers {
		if numbers[at] == unranked {
			continue
		}
		for i := range r.scales {
			s := &r.scales[i]
			if !s.moved {
				continue
			}
			raw := s.rawAt(int32(at))
			now, ok := s.weighted(c, raw)
			if !ok {
				return false
			}
			numbers[at] += now - s.before[raw]
		}
	}
	return true
}

// complete completes the totals in c.fixed: it adds the parts that depend on other nodes. It returns false if a
// normalized score is out of range.
func (r *ranking) complete(c *search) bool {
	for i := range r.scales {
		s := &r.scales[i]
		last := int32(0)
		value, ok := s.weighted(c, last)
		for n, at := range c.rankedAt {
			if raw := s.rawAt(at); raw != last {
				last = raw
				value, ok = s.weighted(c, raw)
			}
			if !ok {
				return false
			}
			c.fixed[n] += value
		}
	}
	return true
}

func (s *scale) rawAt(at int32) int32 {
	if s.raw == nil {
		return 0
	}
	return s.raw[at]
}

// note records the raw scores of feasible nodes. It returns false if one does not fit into 32 bits.
func (s *scale) note(places []int32, scores []int64, nodes int) bool {
	for i, at := range places {
		raw := int32(scores[i])
		switch {
		case int64(raw) != scores[i]:
			return false
		case raw != 0:
			if s.raw == nil {
				s.raw = make([]int32, nodes)
			}
			s.count[raw]++
		}
		if s.raw != nil {
			s.raw[at] = raw
		}
	}
	return true
}

// forget removes a feasible node's raw score from the counts.
func (s *scale) forget(at int32) {
	raw := s.rawAt(at)
	if raw == 0 {
		return
	}
	if s.count[raw]--; s.count[raw] == 0 {
		delete(s.count, raw)
	}
}

// rescale finds the highest raw score and reports whether it has changed.
func (s *scale) rescale() bool {
	highest := int32(0) // the start value of helper.DefaultNormalizeScore
	// any order: a maximum
	for raw := range s.count {
		highest = max(highest, raw)
	}
	if s.moved = highest != s.highest; !s.moved {
		return false
	}
	s.value, s.before = s.before, s.value
	clear(s.value)
	s.highest = highest
	return true
}

// weighted returns the plugin's normalized score for a raw score, times the plugin's weight. It returns false if the
// plugin failed or gave a score out of range.
func (s *scale) weighted(c *search, raw int32) (int32, bool) {
	if value, ok := s.value[raw]; ok {
		return value, true
	}
	value, ok := s.weightedBy(c, raw, s.highest)
	if ok {
		s.value[raw] = value
	}
	return value, ok
}

// weightedBy is weighted for a given highest raw score.
func (s *scale) weightedBy(c *search, raw, highest int32) (int32, bool) {
	by := &c.scorers[s.scorer]
	score, ok := c.normalizedBeside(by, int64(raw), int64(highest))
	if !ok || score < fwk.MinScore || score > fwk.MaxScore {
		return 0, false
	}
	return int32(score * by.weight), true
}

// normalizedBeside lets a plugin of normalizedByHighest normalize a raw score, given the highest one.
func (c *search) normalizedBeside(s *scorer, raw, highest int64) (int64, bool) {
	list := fwk.NodeScoreList{{Score: raw}, {Score: highest}}
	status := s.plugin.ScoreExtensions().NormalizeScore(c.ctx, c.state, c.pod, list)
	return list[0].Score, status.IsSuccess()
}
