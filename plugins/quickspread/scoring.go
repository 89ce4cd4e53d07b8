package quickspread

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/rollcall-sched/rollcall/plugins/internal/topologycount"
)

// scoringKey is where PreScore leaves the scoring.
const scoringKey fwk.StateKey = "PreScore" + podtopologyspread.Name + "/quick"

// scoring is what one pod's cycle sees of soft constraints. Nobody changes it.
type scoring struct {
	topologycount.Reading
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

// of returns what so many pods add. Upstream calls it scoreForCount.
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
	all := func(topologycount.Role) bool { return true }
	r := &scoring{Reading: c.Read(all), rules: c.Question.(*rules)}
	r.scales = make([]scale, len(r.Columns))
	seen := make([][]bool, len(r.Columns))
	for i := range r.Columns {
		r.scales[i] = scale{each: r.rules.list[i].topology.EachNode, less: float64(q.constraints[i].MaxSkew - 1)}
		if !r.scales[i].each {
			seen[i] = make([]bool, r.Columns[i].Topology.Size())
		}
	}
	next := 0
	sizes := make([]int, len(r.Columns))
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
			if domain := r.Columns[i].Topology.Domains()[at]; of != nil && !of[domain] {
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
	c, s := &r.Columns[i], &r.scales[i]
	s.weight = math.Log(float64(size + 2))
	if s.each {
		return
	}
	s.domains = make([]float64, c.Topology.Size())
	for domain := range s.domains {
		s.domains[domain] = s.of(c.At(int32(domain)))
	}
}

// lacks reports whether the node at that place lacks the label of a constraint.
func (r *scoring) lacks(at int) bool {
	for i := range r.Columns {
		if r.Columns[i].Topology.Domains()[at] == topologycount.Nowhere {
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
	spot := r.Spot(node)
	var sum float64
	for i := range r.scales {
		if domain := spot.In(r.Columns[i].Topology); domain != topologycount.Nowhere {
			sum += r.add(i, domain)
		}
	}
	return int64(math.Round(sum)), nil
}

// add returns what the i-th constraint adds to the score of a node in the domain.
func (r *scoring) add(i int, domain int32) float64 {
	s := &r.scales[i]
	if s.each {
		return s.of(r.Columns[i].At(domain))
	}
	if int(domain) < len(s.domains) {
		return s.domains[domain]
	}
	return 0
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
	if r == nil || !r.Surveys(nodes) {
		return false
	}
	for at := range scores {
		scores[at] = r.scoreAt(at)
	}
	return true
}

// scoreAt returns the score of the node at that place in the ledger, 0 if it lacks a label.
func (r *scoring) scoreAt(at int) int64 {
	var sum float64
	for i := range r.Columns {
		domain := r.Columns[i].Topology.Domains()[at]
		if domain == topologycount.Nowhere {
			return 0
		}
		sum += r.add(i, domain)
	}
	return int64(math.Round(sum))
}

// invalid is the score of a node that has none, as upstream has it.
const invalid = -1

// NormalizeColumn implements framework.ColumnNormalizer of Rollcall.
func (s *Spread) NormalizeColumn(state fwk.CycleState, at []int, column []int64) bool {
	r := scoringOf(state)
	if r == nil || !r.Current() {
		return false
	}
	least, most := int64(math.MaxInt64), int64(0)
	for i, score := range column {
		if r.ignored != nil && r.lacks(at[i]) {
			column[i] = invalid
			continue
		}
		least, most = min(least, score), max(most, score)
	}
	s.rescaler.Rescale(column, least, most, func(score int64) int64 { return normalized(score, least, most) })
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
