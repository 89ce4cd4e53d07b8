package kubesched

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Answer holds the plugins' results for a pod and for the nodes.
type Answer struct {
	// PreFilter is the refusal of the pod as a whole; nil if there was none.
	PreFilter *Refusal
	// Skipped are the plugins whose PreFilter answered Skip, sorted.
	Skipped []string
	// Refused has the nodes that a Filter plugin refused.
	Refused map[string]Refusal
	// Failed is the error that ended the cycle, nil for none.
	Failed error
	// Scores are the scores of the feasible nodes. A node that is the only feasible one has none.
	Scores map[string]Score
}

// Refusal is a status.
type Refusal struct {
	Plugin, Code string
	Reasons      []string // sorted
}

// Score is the rating of a node.
type Score struct {
	Total   int64
	Plugins []PluginScore
}

// PluginScore is the score of one plugin.
type PluginScore struct {
	Plugin        string
	Raw, Weighted int64
}

// Best returns the nodes with the highest score, sorted.
func (a *Answer) Best() (best []string) {
	for _, node := range slices.Sorted(maps.Keys(a.Scores)) {
		if len(best) > 0 && a.Scores[node].Total > a.Scores[best[0]].Total {
			best = nil
		}
		if len(best) == 0 || a.Scores[node].Total == a.Scores[best[0]].Total {
			best = append(best, node)
		}
	}
	return best
}

// cycle is the one that Ask began.
type cycle struct {
	pod      *v1.Pod
	state    fwk.CycleState
	statuses *framework.NodeToStatus
}

func refusalOf(status *fwk.Status) Refusal {
	return Refusal{Plugin: status.Plugin(), Code: status.Code().String(),
		Reasons: slices.Sorted(slices.Values(status.Reasons()))}
}

// Ask begins a cycle: it filters and scores all nodes for a pod, as Scheduler.schedulePod does (schedule_one.go).
func (s *Scheduler) Ask(pod *v1.Pod) *Answer {
	s.refresh()
	s.cycle = cycle{pod: pod, state: framework.NewCycleState(), statuses: framework.NewDefaultNodeToStatus()}
	out := &Answer{Refused: map[string]Refusal{}, Scores: map[string]Score{}}
	result, status, _ := s.framework.RunPreFilterPlugins(s.ctx, s.cycle.state, pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			out.Failed = status.AsError()
			return out
		}
		s.cycle.statuses.SetAbsentNodesStatus(status)
		why := refusalOf(status)
		out.PreFilter = &why
		return out
	}
	out.Skipped = sets.List(s.cycle.state.GetSkipFilterPlugins())
	feasible := s.filter(result, out)
	if out.Failed == nil && len(feasible) > 0 {
		s.score(feasible, out)
	}
	return out
}

// filter returns the feasible nodes. A nominated node comes first, whether or not PreFilter has kept it.
func (s *Scheduler) filter(left *fwk.PreFilterResult, out *Answer) (feasible []fwk.NodeInfo) {
	takes := func(node fwk.NodeInfo) bool {
		status := s.framework.RunFilterPluginsWithNominatedPods(s.ctx, s.cycle.state, s.cycle.pod, node)
		switch {
		case status.IsSuccess():
			return true
		case !status.IsRejected():
			out.Failed = errors.Join(out.Failed, status.AsError())
		default:
			out.Refused[node.Node().Name] = refusalOf(status)
			s.cycle.statuses.Set(node.Node().Name, status)
		}
		return false
	}
	nominated := s.cycle.pod.Status.NominatedNodeName
	if node, err := s.world.NodeInfos().Get(nominated); nominated != "" && err == nil {
		if takes(node) {
			return []fwk.NodeInfo{node}
		}
		out.Failed = nil // the search over all nodes meets it again
	}
	if !left.AllNodes() {
		s.cycle.statuses.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable))
	}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		node, err := s.world.NodeInfos().Get(name)
		if err != nil || !left.AllNodes() && !left.NodeNames.Has(name) {
			continue
		}
		if takes(node) {
			feasible = append(feasible, node)
		}
	}
	return feasible
}

func (s *Scheduler) score(feasible []fwk.NodeInfo, out *Answer) {
	if len(feasible) == 1 {
		out.Scores[feasible[0].Node().Name] = Score{}
		return
	}
	if status := s.framework.RunPreScorePlugins(s.ctx, s.cycle.state, s.cycle.pod, feasible); !status.IsSuccess() {
		out.Failed = status.AsError()
		return
	}
	scores, status := s.framework.RunScorePlugins(s.ctx, s.cycle.state, s.cycle.pod, feasible)
	if !status.IsSuccess() {
		out.Failed = status.AsError()
		return
	}
	for _, node := range scores {
		score := Score{Total: node.TotalScore}
		for i, p := range node.Scores {
			score.Plugins = append(score.Plugins, PluginScore{p.Name, node.RawScores[i].Score, p.Score})
		}
		out.Scores[node.Name] = score
	}
}

// Bind reserves for the pod of the last question, on one of its feasible nodes. It returns the objects that the plugins
// then write, each as it is after the last write: PersistentVolumes, PersistentVolumeClaims and ResourceClaims. The pod
// is assumed to be on the node from then on. It is to be put with it later. made is the name for a ResourceClaim that
// is made for the pod's extended resources; see Mappings.
func (s *Scheduler) Bind(node, made string) ([]Object, error) {
	s.made, s.patch = made, nil
	pod := s.cycle.pod.DeepCopy()
	pod.Spec.NodeName = node
	if status := s.framework.RunReservePluginsReserve(s.ctx, s.cycle.state, pod, node); !status.IsSuccess() {
		s.framework.RunReservePluginsUnreserve(s.ctx, s.cycle.state, pod, node)
		return nil, fmt.Errorf("reserve: %w", status.AsError())
	}
	s.place(pod)
	s.written = nil
	for _, p := range s.prebinders {
		_, status := p.PreBindPreFlight(s.ctx, s.cycle.state, pod, node)
		if status.IsSkip() {
			continue
		}
		if status.IsSuccess() {
			status = p.PreBind(s.ctx, s.cycle.state, pod, node)
		}
		// VolumeBinding waits, for no time at all, until its writes are carried out.
		if !status.IsSuccess() && !errors.Is(status.AsError(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("PreBind of %s: %w", p.Name(), status.AsError())
		}
	}
	last := map[string]Object{}
	var keys []string
	for _, obj := range s.written {
		key := fmt.Sprintf("%T %s/%s", obj, obj.GetNamespace(), obj.GetName())
		if last[key] == nil {
			keys = append(keys, key)
		}
		last[key] = obj
	}
	var out []Object
	for _, key := range keys {
		out = append(out, last[key])
	}
	return out, nil
}

// Mappings returns the status of the pod's extended resources that the last Bind has written, nil if none.
func (s *Scheduler) Mappings() (*v1.PodExtendedResourceClaimStatus, error) {
	var pod v1.Pod
	if s.patch == nil {
		return nil, nil
	}
	err := json.Unmarshal(s.patch, &pod)
	return pod.Status.ExtendedResourceClaimStatus, err
}

// Preemption is the result of preemption.
type Preemption struct {
	// Ineligible says why the pod must not preempt, "" if it may.
	Ineligible string
	// Node is the node on which the pod would fit without the Victims, "" if preemption does not help.
	Node string
	// Victims are names of pods, sorted by name.
	Victims []string
}

// Preempt looks for victims for the pod of the last question, which fits nowhere, step by step as
// preemption.Evaluator.evaluate does. It takes any of the nodes that are equally good: another call may answer
// otherwise.
func (s *Scheduler) Preempt() (Preemption, error) {
	pod, statuses := s.cycle.pod, s.cycle.statuses
	ok, why := s.preemption.PodEligibleToPreemptOthers(s.ctx, pod, statuses.Get(pod.Status.NominatedNodeName))
	if !ok {
		return Preemption{Ineligible: why}, nil
	}
	nodes, err := statuses.NodesForStatusCode(s.world.NodeInfos(), fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return Preemption{}, err
	}
	var budgets []*policyv1.PodDisruptionBudget
	for _, b := range s.told(&policyv1.PodDisruptionBudget{}).indexer.List() {
		budgets = append(budgets, b.(*policyv1.PodDisruptionBudget))
	}
	offset, n := s.preemption.GetOffsetAndNumCandidates(int32(len(nodes)))
	candidates, _, err := s.preemption.Evaluator.DryRunPreemption(s.ctx, s.cycle.state, pod, nodes, budgets, offset, n)
	if err != nil && len(candidates) == 0 {
		return Preemption{}, err
	}
	best := s.preemption.Evaluator.SelectCandidate(s.ctx, candidates)
	if best == nil {
		return Preemption{}, nil
	}
	out := Preemption{Node: best.Name()}
	for _, p := range best.Victims().Pods {
		out.Victims = append(out.Victims, p.Name)
	}
	slices.Sort(out.Victims)
	return out, nil
}
