package quickaffinity

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// surveys reports whether the nodes are those of the ledger, as the reading was made of them.
func (r *reading) surveys(nodes []fwk.NodeInfo) bool {
	l := r.ledger
	for i := range r.columns {
		if r.columns[i].topology.users == 0 { // its memo is gone, or it is of a pod that was thought of as added
			return false
		}
	}
	return r.version == l.version && len(nodes) == len(l.rows) && (len(nodes) == 0 || &nodes[0] == &l.list[0])
}

// SurveyFilter implements framework.Surveyor of Rollcall.
func (a *Affinity) SurveyFilter(state fwk.CycleState, nodes []fwk.NodeInfo, pass []bool) bool {
	r := readingOf(state, filterKey)
	if r == nil || !r.surveys(nodes) {
		return false
	}
	for at := range pass {
		pass[at] = true
	}
	alone := r.startsAlone()
	for _, t := range r.affinity {
		i := slices.IndexFunc(r.columns, func(c column) bool { return c.role == attracting && c.topology == t })
		counts := r.columns[i].counts
		for at, domain := range t.at {
			if domain == nowhere || !alone && (int(domain) >= len(counts) || counts[domain] <= 0) {
				pass[at] = false
			}
		}
	}
	for i := range r.columns {
		c := &r.columns[i]
		if c.nonzero == 0 || c.role != repelling && c.role != existing {
			continue
		}
		counts := c.counts
		for at, domain := range c.topology.at {
			if domain != nowhere && int(domain) < len(counts) && counts[domain] > 0 {
				pass[at] = false
			}
		}
	}
	return true
}

// SurveyScore implements framework.Surveyor of Rollcall.
func (a *Affinity) SurveyScore(state fwk.CycleState, nodes []fwk.NodeInfo, scores []int64) bool {
	r := readingOf(state, scoreKey)
	if r == nil || !r.surveys(nodes) {
		return false
	}
	clear(scores)
	for i := range r.columns {
		counts := r.columns[i].counts
		for at, domain := range r.columns[i].topology.at {
			if domain != nowhere && int(domain) < len(counts) {
				scores[at] += counts[domain]
			}
		}
	}
	return true
}

// NormalizeColumn implements framework.ColumnNormalizer of Rollcall.
func (a *Affinity) NormalizeColumn(state fwk.CycleState, _ []int, column []int64) bool {
	if readingOf(state, scoreKey) == nil {
		return false
	}
	if len(column) == 0 {
		return true
	}
	least, most := slices.Min(column), slices.Max(column)
	if span := most - least; span >= 0 && span < int64(len(column)) { // then many are the same
		a.normal = resized(a.normal, int(span)+1)
		for i := range a.normal {
			a.normal[i] = normalized(least+int64(i), least, most)
		}
		for i, score := range column {
			column[i] = a.normal[score-least]
		}
		return true
	}
	for i, score := range column {
		column[i] = normalized(score, least, most)
	}
	return true
}

// normalized puts a score on upstream's scale, of which the ends are the least and the highest score.
func normalized(score, least, most int64) int64 {
	if most-least <= 0 {
		return 0
	}
	return int64(float64(fwk.MaxScore) * (float64(score-least) / float64(most-least)))
}
