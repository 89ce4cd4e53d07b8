package quickspread

import (
	"context"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/rollcall-sched/rollcall/plugins/internal/topologycount"
)

// scoringKey is the key under which PreScore leaves the scoring.
const scoringKey fwk.StateKey = "PreScore" + podtopologyspread.Name + "/quick"

// scoring has the scales of one pod's soft constraints. Nobody changes it. It borrows no columns: the scales have their
// sums at the time of PreScore. Only the pods on each node are counted again if the counts have changed since.
type scoring struct {
	topologycount.Reading
	counts  *topologycount.Counts
	rules   *rules
	scales  []scale         // one for each rule
	ignored map[string]bool // the names of the feasible nodes that lack a label and have no score
}

// scale says what a constraint adds to a node's score.
type scale struct {
	each    bool      // by the pods on the node itself
	weight  float64   // of each pod
	less    float64   // maxSkew - 1
	domains []float64 // what it adds, by domain; unless each
}

// of returns the score that so many pods add. Upstream calls it scoreForCount.
// As there, a machine of another architecture may round it otherwise: docs/ARCHITECTURE.md, under Determinism.
func (s *scale) of(pods int64) float64 { return float64(pods)*s.weight + s.less }

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

// skip is the answer when the plugin has nothing to do for the pod. It must not be changed.
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
	c, err := s.count(ctx, q, nodes)
	if err != nil {
		return s.PodTopologySpread.PreScore(ctx, state, pod, feasible) // it reports the error in its own words
	}
	r := s.newScoring(c, q, feasible)
	if r == nil {
		return s.PodTopologySpread.PreScore(ctx, state, pod, feasible)
	}
	state.Write(scoringKey, r)
	return nil
}

// newScoring weighs the constraints by how many domains the feasible nodes are in. It returns nil if the ledger does
// not have one of these.
func (s *Spread) newScoring(c *topologycount.Counts, q question, feasible []fwk.NodeInfo) *scoring {
	none := func(topologycount.Role) bool { return false }
	r := &scoring{Reading: c.Read(none), counts: c, rules: c.Question.(*rules)}
	r.scales = make([]scale, len(r.rules.list))
	seen := make([][]bool, len(r.scales))
	for i := range r.scales {
		r.scales[i] = scale{each: r.rules.list[i].topology.EachNode, less: float64(q.constraints[i].MaxSkew - 1)}
		if !r.scales[i].each {
			seen[i] = make([]bool, r.topology(i).Size())
		}
	}
	next := 0
	sizes := make([]int, len(r.scales))
	for _, node := range feasible {
		at, ok := s.ledger.Place(node, next)
		if !ok {
			return nil
		}
		next = at + 1
		if r.lacks(at) {
			if r.ignored == nil {
				r.ignored = map[string]bool{}
			}
			r.ignored[node.Node().Name] = true
			continue
		}
		for i, of := range seen {
			if domain := r.topology(i).Domains()[at]; of != nil && !of[domain] {
				of[domain] = true
				sizes[i]++
			}
		}
	}
	for i := range r.scales {
		if r.scales[i].each {
			sizes[i] = len(feasible) - len(r.ignored)
		}
		r.weigh(i, sizes[i])
	}
	return r
}

// weigh sets the scale of the i-th constraint, which sees the feasible nodes in so many domains.
func (r *scoring) weigh(i, size int) {
	s := &r.scales[i]
	s.weight = math.Log(float64(size + 2))
	if s.each {
		return
	}
	s.domains = make([]float64, r.topology(i).Size())
	for domain := range s.domains {
		s.domains[domain] = s.of(r.counts.Columns()[i].At(int32(domain)))
	}
}

// topology returns the topology of the i-th constraint.
func (r *scoring) topology(i int) *topologycount.Topology { return r.counts.Columns()[i].Topology }

// current reports whether the counts are as they were at the time of PreScore.
func (r *scoring) current() bool { return r.Current() && !r.counts.Dropped() }

// lacks reports whether the node at that place lacks the label of a constraint.
func (r *scoring) lacks(at int) bool {
	for i := range r.scales {
		if r.topology(i).Domains()[at] == topologycount.Nowhere {
			return true
		}
	}
	return false
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
	position := r.Position(node)
	var sum float64
	for i := range r.scales {
		c, domain := &r.scales[i], position.In(r.topology(i))
		switch {
		case domain == topologycount.Nowhere:
		case c.each:
			sum += c.of(r.rules.matching(i, node))
		case int(domain) < len(c.domains):
			sum += c.domains[domain]
		}
	}
	return int64(math.Round(sum)), nil
}

// SurveyFilter implements framework.Surveyor of Rollcall.
func (s *Spread) SurveyFilter(state fwk.CycleState, nodes []fwk.NodeInfo, pass []bool) bool {
	r := readingOf(state)
	if r == nil || !r.Surveys(nodes) {
		return false
	}
	r.judgeAll(pass)
	return true
}

// SurveyScore implements framework.Surveyor of Rollcall.
func (s *Spread) SurveyScore(state fwk.CycleState, nodes []fwk.NodeInfo, scores []int64) bool {
	r := scoringOf(state)
	if r == nil || !r.Surveys(nodes) || !r.current() {
		return false
	}
	s.sums = slices.Grow(s.sums[:0], len(scores))[:len(scores)]
	clear(s.sums)
	for i := range r.scales {
		r.addAll(i, s.sums)
	}
	for at, sum := range s.sums {
		if scores[at] = 0; !math.IsNaN(sum) {
			scores[at] = int64(math.Round(sum))
		}
	}
	return true
}

// addAll adds to the sum of each node in the ledger what the i-th constraint adds to its score. The sum of a node that
// lacks the label becomes NaN.
func (r *scoring) addAll(i int, sums []float64) {
	c, column := &r.scales[i], &r.counts.Columns()[i]
	for at, domain := range column.Topology.Domains() {
		switch {
		case domain == topologycount.Nowhere:
			sums[at] = math.NaN()
		case c.each:
			sums[at] += c.of(column.At(domain))
		default:
			sums[at] += c.domains[domain]
		}
	}
}

// invalid is the score of a node that has none, as upstream has it.
const invalid = -1

// NormalizeColumn implements framework.ColumnNormalizer of Rollcall.
func (s *Spread) NormalizeColumn(state fwk.CycleState, at []int32, column []int64) bool {
	r := scoringOf(state)
	if r == nil || !r.current() {
		return false
	}
	if r.ignored != nil {
		for i := range column {
			if r.lacks(int(at[i])) {
				column[i] = invalid
			}
		}
	}
	s.normalize(column)
	return true
}

// normalize puts the scores on upstream's scale: the fewer pods the better.
func (s *Spread) normalize(column []int64) {
	least, most := int64(math.MaxInt64), int64(0)
	for _, score := range column {
		if score != invalid {
			least, most = min(least, score), max(most, score)
		}
	}
	s.rescaler.Rescale(column, least, most, func(score int64) int64 {
		switch {
		case score == invalid:
			return 0
		case most == 0:
			return fwk.MaxScore
		}
		return fwk.MaxScore * (most + least - score) / most
	})
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
	column := make([]int64, len(scores))
	for i := range scores {
		if column[i] = scores[i].Score; r.ignored[scores[i].Name] {
			column[i] = invalid
		}
	}
	s.normalize(column)
	for i := range scores {
		scores[i].Score = column[i]
	}
	return nil
}
