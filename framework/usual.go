package framework

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// Most nodes get the same scores from the plugins of a class: they have no image of the pod, no relevant taint, and no
// label that the pod prefers. A search by groups visits the few other nodes one by one.
//
// Example: of 5,000 nodes 40 have the pod's image. ImageLocality gives them 12 and all others 0. 0 is the usual score,
// and the 40 nodes are unusual.

// forgetScores forgets which nodes have unusual scores.
func (k *class) forgetScores() {
	for i := range k.nodes {
		k.nodes[i].unusual = false
	}
	k.scoredTo, k.usual, k.unusual = learned{}, nil, k.unusual[:0]
}

// learnScores scores the changed nodes with the scorers of the pod's class, and marks the nodes with unusual scores. It
// returns false if a plugin failed, or if too many nodes are unusual to visit each of them.
func (c *search) learnScores(nodes []fwk.NodeInfo) bool {
	if len(c.insideScorers) == 0 {
		return true
	}
	k := c.class
	changed := k.scoredTo.behind(c, len(nodes))
	for _, at := range changed {
		if k.nodes[at].refusal != 0 {
			continue
		}
		if _, status := k.score(c, int(at), nodes[at]); status != nil {
			k.forgetScores()
			return false
		}
	}
	if k.usual == nil || len(changed) >= len(nodes) {
		k.usual = c.usualScores()
	}
	for _, at := range changed {
		n := &k.nodes[at]
		was := n.unusual
		n.unusual = n.refusal == 0 && !slices.Equal(k.rawOf(int(at)), k.usual)
		if n.unusual && !was {
			k.unusual = append(k.unusual, at)
		}
	}
	k.unusual = slices.DeleteFunc(k.unusual, func(at int32) bool { return !k.nodes[at].unusual })
	return len(k.unusual) < len(nodes)/4
}

// usualScores returns the scores that more than half of the class's feasible nodes have, if there are such scores. It
// pairs nodes that have different scores; the nodes left over have the majority's scores.
func (c *search) usualScores() []int64 {
	k := c.class
	usual, over := make([]int64, len(k.scorers)), 0
	for at := range k.nodes {
		switch raw := k.rawOf(at); {
		case k.nodes[at].refusal != 0:
		case over == 0:
			copy(usual, raw)
			over = 1
		case slices.Equal(raw, usual):
			over++
		default:
			over--
		}
	}
	for i := range c.insideScorers {
		if c.insideScorers[i].plugin.ScoreExtensions() != nil {
			usual[i] = 0
		}
	}
	return usual
}

// usualTotal returns the contribution of the class's plugins to the total of a node with usual scores.
func (c *search) usualTotal(r *ranking) (total int64, ok bool) {
	for i := range r.scales {
		value, ok := r.scales[i].weighted(c, 0)
		if !ok {
			return 0, false
		}
		total += int64(value)
	}
	for i := range c.insideScorers {
		s := &c.insideScorers[i]
		if s.plugin.ScoreExtensions() != nil {
			continue
		}
		score := c.class.usual[i]
		if score < fwk.MinScore || score > fwk.MaxScore {
			return 0, false
		}
		total += score * s.weight
	}
	return total, true
}
