package framework

import (
	"cmp"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// A pod whose template is new has no ranking, but its search need not visit every node either. The nodes are kept in
// groups of similar nodes. Plugins know facts about a group, such as the largest free amount on any of its nodes. These
// facts bound the scores on its nodes, and show where all nodes have room. The search visits only the nodes of groups
// that may have the best node, or a node that refuses the pod.
//
// Invariant: the groups are a memo. The node, its score, and the reasons of refused nodes equal the results of a search
// over all nodes (TestGroupsFindWhatAllNodesDo).
//
// A node that has changed since the nodes were grouped is loose: every search visits it. When the visits to loose nodes
// have cost more than grouping costs, all nodes are grouped again. Example: each pod on 5,000 nodes has a template of
// its own. After some 245 pods there are 245 loose nodes, and visits to them have cost 30,000. Then the groups are
// built again.
//
// Groups cost little where they do not help. In a nearly full cluster most groups have a node that refuses the pod.
// Then the search visits all their nodes once, as it would without groups.

const (
	// groupSize is the number of nodes in a group. Larger groups have weaker bounds, and smaller ones need more bounds.
	groupSize = 32
	// groupingCost is the cost of grouping all nodes, in visits per node.
	groupingCost = 6
	// minGroupedNodes is the size of the smallest cluster in which groups save more than they cost.
	minGroupedNodes = 256
	// firstTogether is the number of groups whose nodes are visited together at first, the best bounds first. Unless
	// they certainly have the best node, the search doubles the number, up to mostTogether.
	firstTogether, mostTogether = 4, 64
)

// GroupSurveyor may be implemented by a PlaceSurveyor that can answer for many nodes at once.
type GroupSurveyor interface {
	PlaceSurveyor
	// GroupNodes passes the groups of similar nodes: group g has the nodes at places[g*size:(g+1)*size], the last group
	// the rest. The list does not change until the next call. The two methods below must answer correctly for the nodes
	// that have not changed since. They are called after ReadNodes, and only while the list of nodes is the same.
	GroupNodes(places []int32, size int)
	// GroupFilter sets pass[g] if SurveyFilter passes every node of group g, and clears it if that is not certain. It
	// returns false if it cannot answer for any group.
	GroupFilter(state fwk.CycleState, pass []bool) bool
	// GroupScore sets most[g] to an upper bound of the scores in group g. It returns false if it cannot, or if a score
	// could be outside the range of Score.
	GroupScore(state fwk.CycleState, most []int64) bool
}

// Arranger may be implemented by a GroupSurveyor that can tell which nodes are similar.
type Arranger interface {
	GroupSurveyor
	// ArrangeNodes sorts places, which has all nodes, so that similar nodes get into one group of that size.
	ArrangeNodes(places []int32, size int)
}

// groups has the nodes in groups. All pods of a profile share it.
type groups struct {
	nodes  follower // all: the nodes are in groups, and all nodes changed since are loose
	cost   int      // visits that new groups would have saved since grouping
	places []int32  // of all nodes, group after group
	first  []int32  // by group: the smallest of its places
	loose  []int32  // places of the loose nodes
	single []bool   // by place: visited alone, because loose, or unusual in the current class

	// In the current search:
	pass       []bool  // by group: all its nodes that pass the class are feasible, except single ones
	passed     []bool  // the same from one plugin
	bounds     []int64 // by group: an upper bound of its totals, except of single nodes
	most       []int64 // an upper bound of one plugin's scores
	candidates []int32 // groups that may have the best node
	looked     []int32 // the places to visit next
}

// size allocates the groups for that many nodes.
func (g *groups) size(nodes int) {
	n := (nodes + groupSize - 1) / groupSize
	g.places, g.single = sized(g.places, nodes), sized(g.single, nodes)
	g.first, g.bounds, g.most = sized(g.first, n), sized(g.bounds, n), sized(g.most, n)
	g.pass, g.passed = sized(g.pass, n), sized(g.passed, n)
}

// of returns the places of a group.
func (g *groups) of(group int32) []int32 {
	return g.places[int(group)*groupSize : min(int(group+1)*groupSize, len(g.places))]
}

// follow marks the changed nodes as loose, and groups all nodes if that is worth its cost. It returns false if the
// search should visit all nodes instead.
func (g *groups) follow(c *search, nodes int) bool {
	places, all := g.nodes.changed(c, nodes)
	if g.nodes.all = !all && len(g.places) == nodes; g.nodes.all {
		for _, at := range places {
			if !g.single[at] {
				g.single[at] = true
				g.loose = append(g.loose, at)
			}
		}
		if g.cost+len(g.loose) < groupingCost*nodes && len(g.loose) < nodes/2 {
			return true
		}
	}
	g.cost += nodes
	if g.cost < groupingCost*nodes {
		return false
	}
	return g.arrange(c, nodes)
}

// arrange groups all nodes.
func (g *groups) arrange(c *search, nodes int) bool {
	arranger := c.p.arranger()
	if arranger == nil {
		return false
	}
	g.size(nodes)
	copy(g.places, c.p.classes.everywhere(nodes))
	arranger.ArrangeNodes(g.places, groupSize)
	for i := range g.first {
		g.first[i] = slices.Min(g.of(int32(i)))
	}
	for _, s := range c.p.placeSurveyors {
		if s, ok := s.(GroupSurveyor); ok {
			s.GroupNodes(g.places, groupSize)
		}
	}
	clear(g.single)
	g.loose, g.cost, g.nodes.all = g.loose[:0], 0, true
	return true
}

// arranger returns the plugin that can tell which nodes are similar, nil if there is none.
func (p *Profile) arranger() Arranger {
	for _, s := range p.placeSurveyors {
		if a, ok := s.(Arranger); ok {
			return a
		}
	}
	return nil
}

// bestNode is the best node that a search has found so far.
type bestNode struct {
	any   bool
	at    int32
	total int32
}

// take compares the best node so far with the nodes at places and their totals.
func (b *bestNode) take(places, totals []int32) {
	for i, at := range places {
		if total := totals[i]; !b.any || total > b.total || total == b.total && at < b.at {
			*b = bestNode{true, at, total}
		}
	}
}

// rankByGroups is rank for a pod that is the first of its template. It returns false if the search must visit all
// nodes. r is memory that it may use.
func (c *search) rankByGroups(r *ranking, nodes []fwk.NodeInfo, out *Placement) bool {
	g := &c.p.classes.groups
	if len(nodes) < minGroupedNodes || !c.groupable() || !c.learn(nodes) || !c.refusesFirst() ||
		!c.learnScores(nodes) || !g.follow(c, len(nodes)) || !c.boundGroups() {
		return false
	}
	g.cost += len(g.loose)
	r.begin()
	best, ok := c.rankSingles(r, nodes, c.singles())
	ok = ok && c.boundUsual(r) && c.rankCandidates(r, nodes, &best)
	for _, at := range c.class.unusual { // the loose ones stay single
		g.single[at] = false
	}
	for _, at := range g.loose {
		g.single[at] = true
	}
	if !ok {
		return false
	}
	c.p.grouped++
	k := c.class
	k.refused.count(&c.tally)
	r.refused.count(&c.tally)
	out.Evaluated = int64(len(nodes))
	if !best.any { // every node has been visited
		c.refuseEach(nodes, out, func(at int) *fwk.Status {
			if status := k.refused.of(k.nodes[at].refusal); status != nil {
				return status
			}
			return r.refused.of(r.refusal[at])
		})
		return true
	}
	out.Feasible = int64(len(nodes)) - k.refused.total() - r.refused.total()
	out.Node = nodes[best.at].Node().Name
	if out.Feasible > 1 {
		out.Score = int64(best.total)
	}
	out.Rejections = c.tally.rejections()
	return true
}

// groupable reports whether the plugins outside the class are GroupSurveyors, and whether the sum of the bounds is a
// bound of the total.
func (c *search) groupable() bool {
	for _, i := range c.outsideAt {
		if _, ok := c.filters[i].plugin.(GroupSurveyor); !ok {
			return false
		}
	}
	for k, in := range c.insideAt {
		if in >= 0 {
			continue
		}
		s := &c.scorers[k]
		if _, ok := s.plugin.(GroupSurveyor); !ok || s.plugin.ScoreExtensions() != nil || s.weight < 0 {
			return false
		}
	}
	return true
}

// refusesFirst reports whether every plugin of the class that refuses a node comes before the plugins outside the
// class. Then the class gives the reason for all nodes that it refuses.
func (c *search) refusesFirst() bool {
	if len(c.outsideAt) == 0 {
		return true
	}
	before := c.filters[:c.outsideAt[0]]
	for i, n := range c.class.refused.nodes {
		if n > 0 && !slices.ContainsFunc(before, func(f entry[fwk.FilterPlugin]) bool {
			return f.name == c.class.refused.list[i].Plugin()
		}) {
			return false
		}
	}
	return true
}

// singles returns the places of the nodes that the search visits one by one.
func (c *search) singles() []int32 {
	g := &c.p.classes.groups
	g.looked = g.looked[:0]
	for _, at := range c.class.unusual {
		if !g.single[at] {
			g.looked = append(g.looked, at)
		}
		g.single[at] = true
	}
	g.looked = append(g.looked, g.loose...)
	return g.looked
}

// rankSingles visits the nodes at places. Afterwards the highest score of each plugin that normalizes is known, because
// all other nodes have 0.
func (c *search) rankSingles(r *ranking, nodes []fwk.NodeInfo, places []int32) (best bestNode, ok bool) {
	if !r.look(c, nodes, c.admitted(places)) {
		return best, false
	}
	for i := range r.scales {
		r.scales[i].rescale()
	}
	if !r.complete(c) {
		return best, false
	}
	best.take(c.rankedAt, c.fixed)
	return best, true
}

// admitted removes the nodes that the class refuses from the list.
func (c *search) admitted(places []int32) []int32 {
	return slices.DeleteFunc(places, func(at int32) bool { return c.class.nodes[at].refusal != 0 })
}

// boundGroups determines, for each group, whether all of its nodes are feasible, and an upper bound of the part of
// their totals from plugins outside the class. It returns false if a plugin cannot answer.
func (c *search) boundGroups() bool {
	g := &c.p.classes.groups
	for i := range g.pass {
		g.pass[i] = true
	}
	for _, i := range c.outsideAt {
		clear(g.passed)
		if !c.filters[i].plugin.(GroupSurveyor).GroupFilter(c.state, g.passed) {
			return false
		}
		for i, passed := range g.passed {
			g.pass[i] = g.pass[i] && passed
		}
	}
	clear(g.bounds)
	for k, in := range c.insideAt {
		if in >= 0 {
			continue
		}
		if !c.scorers[k].plugin.(GroupSurveyor).GroupScore(c.state, g.most) {
			return false
		}
		for i, most := range g.most {
			g.bounds[i] += most * c.scorers[k].weight
		}
	}
	return true
}

// boundUsual adds the class's contribution to a node with usual scores to the bounds.
func (c *search) boundUsual(r *ranking) bool {
	usual, ok := c.usualTotal(r)
	for i := range c.p.classes.groups.bounds {
		c.p.classes.groups.bounds[i] += usual
	}
	return ok
}

// rankCandidates visits the nodes of the groups that may refuse the pod, and then the groups that may have the best
// node, the highest bounds first.
func (c *search) rankCandidates(r *ranking, nodes []fwk.NodeInfo, best *bestNode) bool {
	g := &c.p.classes.groups
	g.candidates, g.looked = g.candidates[:0], g.looked[:0]
	for i, pass := range g.pass {
		if !pass {
			c.lookAt(int32(i))
		}
	}
	if !c.rankLooked(r, nodes, best) {
		return false
	}
	for i, pass := range g.pass {
		if pass && g.maybeBest(int32(i), best) {
			g.candidates = append(g.candidates, int32(i))
		}
	}
	slices.SortFunc(g.candidates, func(a, b int32) int {
		return cmp.Or(cmp.Compare(g.bounds[b], g.bounds[a]), cmp.Compare(g.first[a], g.first[b]))
	})
	together := firstTogether
	for rest := g.candidates; len(rest) > 0; {
		g.looked = g.looked[:0]
		n := min(together, len(rest))
		for _, group := range rest[:n] {
			if g.maybeBest(group, best) {
				c.lookAt(group)
			}
		}
		if !c.rankLooked(r, nodes, best) {
			return false
		}
		rest, together = rest[n:], min(2*together, mostTogether)
	}
	return true
}

// maybeBest reports whether a node of the group may be better than the best one so far.
func (g *groups) maybeBest(group int32, best *bestNode) bool {
	bound, total := g.bounds[group], int64(best.total)
	return !best.any || bound > total || bound == total && g.first[group] < best.at
}

// lookAt adds the nodes of the group to groups.looked, except single nodes and nodes that the class refuses.
func (c *search) lookAt(group int32) {
	g := &c.p.classes.groups
	for _, at := range g.of(group) {
		if !g.single[at] && c.class.nodes[at].refusal == 0 {
			g.looked = append(g.looked, at)
		}
	}
}

// rankLooked compares the nodes of groups.looked with the best one so far.
func (c *search) rankLooked(r *ranking, nodes []fwk.NodeInfo, best *bestNode) bool {
	places := c.p.classes.groups.looked
	if len(places) == 0 {
		return true
	}
	if !r.look(c, nodes, places) || !r.complete(c) {
		return false
	}
	best.take(c.rankedAt, c.fixed)
	return true
}
