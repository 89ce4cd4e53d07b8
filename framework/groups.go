package framework

import (
	"cmp"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// A pod that is like no other has no ranking to go by, but it need not look at every node either. The nodes are kept in
// groups of nodes that are much alike. What the plugins know of a group, such as the most that is free on any of its
// nodes, bounds what they would score there, and tells where all nodes have room. Only groups that may have the best
// node, or a node that refuses the pod, are looked at node by node.
//
// Invariant: the groups are a memo. The node that is found, its score, and what is said of the nodes that refuse the
// pod are those of a search over all nodes (TestGroupsFindWhatAllNodesDo).
//
// A node that has changed since the nodes were grouped is loose: it is looked at by itself, in every search. When the
// loose nodes have cost more than grouping costs, all nodes are grouped anew. Example: 5,000 nodes, and each pod of a
// shape of its own. After some 245 pods there are 245 loose nodes, which have cost 30,000 looks, and the groups are
// made again.
//
// Where groups do not help they cost little. In a cluster that is nearly full most groups have a node that refuses the
// pod; all their nodes are looked at, once, as they would be without groups.

const (
	// groupSize is how many nodes are in a group. Larger ones bound less well, smaller ones are more to be bounded.
	groupSize = 32
	// groupingCost is how many looks at a node, for each node, grouping all nodes costs.
	groupingCost = 6
	// minGroupedNodes is the smallest cluster in which groups save more than they cost.
	minGroupedNodes = 256
	// firstTogether is how many groups are looked at together at first, the most promising ones. If these do not have
	// the best node for certain, twice as many are, and so on up to mostTogether.
	firstTogether, mostTogether = 4, 64
)

// GroupSurveyor may be implemented by a PlaceSurveyor that can tell something of many nodes together.
type GroupSurveyor interface {
	PlaceSurveyor
	// GroupNodes tells which nodes are alike: those of group g are at places[g*size] up to places[(g+1)*size], or to
	// the end. The list is not changed until the next call. What the two methods below say must hold of those nodes
	// that have not changed since. They are called after ReadNodes, and only while there are the same nodes.
	GroupNodes(places []int32, size int)
	// GroupFilter sets pass[g] if SurveyFilter lets every node of group g pass, and clears it if that is not certain.
	// It returns false if it can tell of none.
	GroupFilter(state fwk.CycleState, pass []bool) bool
	// GroupScore sets most[g] to a number that the score of no node of group g is above. It returns false if it cannot,
	// or if a score could be one that Score may not give.
	GroupScore(state fwk.CycleState, most []int64) bool
}

// Arranger may be implemented by a GroupSurveyor that knows which nodes are much alike.
type Arranger interface {
	GroupSurveyor
	// ArrangeNodes sorts places, which are those of all nodes, so that nodes that are alike come into one group of that
	// size.
	ArrangeNodes(places []int32, size int)
}

// groups are the nodes in groups, for all pods of a profile.
type groups struct {
	nodes  follower // all: the nodes are in groups, and every node that changed since is loose
	cost   int      // looks at nodes that new groups would have saved, since grouping
	places []int32  // of all nodes, group after group
	first  []int32  // by group: the least of its places
	loose  []int32  // places
	single []bool   // by place: looked at by itself, as it is loose, or unusual in the class of the search under way

	// In the search under way:
	pass       []bool  // by group: every node of it that the class lets pass is feasible, single nodes aside
	passed     []bool  // what one plugin says of that
	bounds     []int64 // by group: no node of it has a higher total, single nodes aside
	most       []int64 // what one plugin says of the scores
	candidates []int32 // groups that may have the best node
	looked     []int32 // the places to be looked at next
}

// size makes room for the groups of that many nodes.
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

// follow makes the nodes loose that have changed, and groups all nodes if that is worth it. It returns false if the
// search had better look at all nodes.
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

// arranger returns the plugin that says which nodes are alike, nil for none.
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

// take compares with the nodes at places, whose totals are given.
func (b *bestNode) take(places, totals []int32) {
	for i, at := range places {
		if total := totals[i]; !b.any || total > b.total || total == b.total && at < b.at {
			*b = bestNode{true, at, total}
		}
	}
}

// rankByGroups is rank for a pod that is the first of its template. It returns false if all nodes have to be looked at.
// r is for its use.
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
	for _, at := range c.class.unusual { // loose ones stay
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
	if !best.any { // every node has been looked at
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

// groupable reports whether the plugins that stand apart from the class know of groups, and whether a total is bounded
// by the sum of what bounds its parts.
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

// refusesFirst reports whether every plugin of the class that refuses a node comes before those that stand apart: then
// the class has the word for all nodes that it refuses.
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

// singles returns the places of the nodes that are looked at by themselves.
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

// rankSingles looks at the nodes at places. After it the highest score is known of each plugin that normalizes, because
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

// admitted removes from the list the nodes that the class refuses.
func (c *search) admitted(places []int32) []int32 {
	return slices.DeleteFunc(places, func(at int32) bool { return c.class.nodes[at].refusal != 0 })
}

// boundGroups finds out, by group, whether all of its nodes are feasible, and what no node adds more than to its total
// by the plugins that stand apart from the class. It returns false if one of these cannot say.
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

// boundUsual adds to the bounds what the class gives to nodes that are not unusual.
func (c *search) boundUsual(r *ranking) bool {
	usual, ok := c.usualTotal(r)
	for i := range c.p.classes.groups.bounds {
		c.p.classes.groups.bounds[i] += usual
	}
	return ok
}

// rankCandidates looks at the nodes of the groups that may refuse the pod, and of those that may have the best one, the
// most promising ones first.
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

// lookAt adds to groups.looked the nodes of the group that have not been looked at by themselves, and that the class
// lets pass.
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
