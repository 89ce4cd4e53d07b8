package quickspread

import (
	"context"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
)

// scoringKey is where PreScore leaves the scoring.
const scoringKey fwk.StateKey = "PreScore" + podtopologyspread.Name + "/quick"

// scoring is what the memo said of soft constraints when the pod's PreScore was run. Nobody changes it.
type scoring struct {
	memo    *memo
	version uint64 // of the memo
	scales  []scale
	ignored map[string]bool // the names of the nodes that lack a label and have no score
}

// scale is what a constraint adds to a node's score.
type scale struct {
	host    bool      // by the pods on the node itself
	weight  float64   // of each pod
	less    float64   // maxSkew - 1
	domains []float64 // else: what it adds, by domain
}

// of returns what so many pods add, in upstream's words scoreForCount.
// As there, a machine of another architecture may round it otherwise: docs/ARCHITECTURE.md, under Determinism.
func (s *scale) of(pods int) float64 { return float64(pods)*s.weight + s.less }

// Clone implements fwk.StateData.
func (s *scoring) Clone() fwk.StateData { return s }

// scoringOf returns the state's scoring, nil if it has none: then upstream's plugin answers.
func scoringOf(state fwk.CycleState) *scoring {
	if data, err := state.Read(scoringKey); err == nil {
		if s, ok := data.(*scoring); ok {
			return s
		}
	}
	return nil
}

// skip is what the plugin answers that has nothing to do for the pod. It must not be changed.
var skip = fwk.NewStatus(fwk.Skip)

// PreScore implements fwk.PreScorePlugin.
func (s *Spread) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo) *fwk.Status {
	state.Delete(scoringKey)
	own := len(pod.Spec.TopologySpreadConstraints) > 0
	if s.gates.off || !own && s.system {
		return s.PodTopologySpread.PreScore(ctx, state, pod, feasible)
	}
	q := question{pod: pod, gates: s.gates, soft: true}
	if own {
		q.constraints = thatAre(v1.ScheduleAnyway, pod.Spec.TopologySpreadConstraints)
	} else {
		q.constraints, q.selector = s.defaults.of(pod, s.defaults.soft)
	}
	nodes, err := s.lister.NodeInfos().List()
	if err != nil {
		return s.PodTopologySpread.PreScore(ctx, state, pod, feasible)
	}
	if len(q.constraints) == 0 || len(nodes) == 0 {
		return skip
	}
	m, err := s.memos.of(q, len(nodes))
	if err != nil {
		return s.PodTopologySpread.PreScore(ctx, state, pod, feasible) // it says what is wrong in its own words
	}
	m.update(klog.FromContext(ctx), nodes)
	made := newScoring(m, q, feasible)
	if made == nil {
		return s.PodTopologySpread.PreScore(ctx, state, pod, feasible)
	}
	state.Write(scoringKey, made)
	return nil
}

// newScoring weighs the constraints by how many domains the feasible nodes are in. It returns nil if one of these is
// not in the memo.
func newScoring(m *memo, q question, feasible []fwk.NodeInfo) *scoring {
	s := &scoring{memo: m, version: m.version, scales: make([]scale, len(m.rules))}
	seen := make([][]bool, len(m.rules))
	for i := range m.rules {
		s.scales[i] = scale{host: m.rules[i].byHost(), less: float64(q.constraints[i].MaxSkew - 1)}
		if !s.scales[i].host {
			seen[i] = make([]bool, len(m.domains[i].nodes))
		}
	}
	next, ignored := 0, 0
	sizes := make([]int, len(m.rules))
	for _, node := range feasible {
		at, ok := m.findPlace(node, next)
		if !ok {
			return nil
		}
		next = at + 1
		row := m.row(at)
		if row[0].domain == nowhere {
			if ignored++; s.ignored == nil {
				s.ignored = map[string]bool{}
			}
			s.ignored[node.Node().Name] = true
			continue
		}
		for i, of := range seen {
			if of != nil && !of[row[i].domain] {
				of[row[i].domain] = true
				sizes[i]++
			}
		}
	}
	for i := range s.scales {
		c := &s.scales[i]
		if c.host {
			sizes[i] = len(feasible) - ignored
		}
		c.weight = math.Log(float64(sizes[i] + 2))
		if !c.host {
			c.domains = make([]float64, len(m.domains[i].pods))
			for id, pods := range m.domains[i].pods {
				c.domains[id] = c.of(pods)
			}
		}
	}
	return s
}

// findPlace is placeOf for nodes that stand in the order of the list, with gaps.
func (m *memo) findPlace(node fwk.NodeInfo, from int) (at int, ok bool) {
	if from < len(m.list) && m.list[from] == node { // most often, and spares a look into the node
		return from, true
	}
	generation := node.GetGeneration()
	if i := slices.Index(m.generations[min(from, len(m.generations)):], generation); i >= 0 {
		return from + i, true
	}
	at = slices.Index(m.generations, generation)
	return at, at >= 0
}

// Score implements fwk.ScorePlugin.
func (s *Spread) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	r := scoringOf(state)
	if r == nil {
		return s.PodTopologySpread.Score(ctx, state, pod, node)
	}
	if r.ignored[node.Node().Name] {
		return 0, nil
	}
	var sum float64
	for i := range r.scales {
		rule, c := &r.memo.rules[i], &r.scales[i]
		value, ok := node.Node().Labels[rule.topologyKey]
		if !ok {
			continue
		}
		if c.host {
			sum += c.of(int(r.memo.matching(node, rule.selector)))
		} else if id, ok := r.memo.domains[i].ids[value]; ok && int(id) < len(c.domains) {
			sum += c.domains[id]
		}
	}
	return int64(math.Round(sum)), nil
}

// SurveyFilter implements framework.Surveyor of Rollcall.
func (s *Spread) SurveyFilter(state fwk.CycleState, nodes []fwk.NodeInfo, pass []bool) bool {
	r := readingOf(state)
	if r == nil || r.version != r.memo.version || !r.memo.holds(nodes) {
		return false
	}
	for at := range pass {
		fine := true
		for i, c := range r.memo.row(at) {
			t := &r.tallies[i]
			fine = fine && c.domain != nowhere && int(c.domain) < len(t.pods) && t.pods[c.domain] <= t.most
		}
		pass[at] = fine
	}
	return true
}

// holds reports whether the memo is of these nodes.
func (m *memo) holds(nodes []fwk.NodeInfo) bool {
	return len(nodes) == len(m.generations) && (len(nodes) == 0 || &nodes[0] == &m.list[0])
}

// SurveyScore implements framework.Surveyor of Rollcall.
func (s *Spread) SurveyScore(state fwk.CycleState, nodes []fwk.NodeInfo, scores []int64) bool {
	r := scoringOf(state)
	if r == nil || !r.surveys() || !r.memo.holds(nodes) {
		return false
	}
	n, counts := len(r.scales), r.memo.counts
	for at := range scores {
		row := counts[at*n : (at+1)*n]
		if row[0].domain == nowhere {
			scores[at] = 0
			continue
		}
		var sum float64
		for i := range row {
			if c := &r.scales[i]; c.host {
				sum += c.of(int(row[i].pods))
			} else {
				sum += c.domains[row[i].domain]
			}
		}
		scores[at] = int64(math.Round(sum))
	}
	return true
}

// surveys reports whether the memo is as it was for the scoring.
func (r *scoring) surveys() bool { return r.version == r.memo.version }

// invalid is the score of a node that has none, as upstream has it.
const invalid = -1

// NormalizeColumn implements framework.ColumnNormalizer of Rollcall.
func (s *Spread) NormalizeColumn(state fwk.CycleState, at []int, column []int64) bool {
	r := scoringOf(state)
	if r == nil || !r.surveys() {
		return false
	}
	least, most := int64(math.MaxInt64), int64(0)
	n := len(r.scales)
	for i, score := range column {
		if r.ignored != nil && r.memo.counts[at[i]*n].domain == nowhere {
			column[i] = invalid
			continue
		}
		least, most = min(least, score), max(most, score)
	}
	if span := most - least; least >= 0 && span >= 0 && span < int64(len(column)) { // then many are the same
		s.normal = slices.Grow(s.normal[:0], int(span)+1)[:span+1]
		for i := range s.normal {
			s.normal[i] = normalized(least+int64(i), least, most)
		}
		for i, score := range column {
			if column[i] = 0; score != invalid {
				column[i] = s.normal[score-least]
			}
		}
		return true
	}
	for i, score := range column {
		column[i] = normalized(score, least, most)
	}
	return true
}

// normalized puts a score on upstream's scale: the fewer pods the better.
func normalized(score, least, most int64) int64 {
	switch {
	case score == invalid:
		return 0
	case most == 0:
		return fwk.MaxScore
	}
	return fwk.MaxScore * (most + least - score) / most
}

// ScoreExtensions implements fwk.ScorePlugin.
func (s *Spread) ScoreExtensions() fwk.ScoreExtensions { return s }

// NormalizeScore implements fwk.ScoreExtensions.
func (s *Spread) NormalizeScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	r := scoringOf(state)
	if r == nil {
		return s.PodTopologySpread.NormalizeScore(ctx, state, pod, scores)
	}
	least, most := int64(math.MaxInt64), int64(0)
	for i := range scores {
		if r.ignored[scores[i].Name] {
			scores[i].Score = invalid
			continue
		}
		least, most = min(least, scores[i].Score), max(most, scores[i].Score)
	}
	for i := range scores {
		scores[i].Score = normalized(scores[i].Score, least, most)
	}
	return nil
}
