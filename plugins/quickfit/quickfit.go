// Package quickfit has faster versions of kube-scheduler's NodeResourcesFit and NodeResourcesBalancedAllocation, under
// the same names.
//
// It owns two computations: whether a node has enough for a pod, and the score from the amounts that would be left. It
// never computes a pod's requests or words a refusal: it calls kube-scheduler's plugins for that and for everything
// else. Tests compare the answers.
//
// Upstream is slow at these computations. For every node its Filter matches the names of extended resources with
// regular expressions and allocates a list of the lacking resources, and its Score allocates three lists. A cycle whose
// pod has a template of its own would spend most of its time there.
//
// Read quickfit.go and balanced.go for the plugins, ledger.go for the memo of all nodes, groups.go for the bounds of
// groups of nodes, and scoring.go and signing.go for two differences from upstream.
package quickfit

import (
	"context"
	"fmt"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// Fit is NodeResourcesFit.
type Fit struct {
	*noderesources.Fit
	resources []config.ResourceSpec
	strategy  config.ScoringStrategyType
	signs     func(pod *v1.Pod) bool
	ledger    ledger
}

// Keys in the cycle's state, upstream's and ours.
const (
	requestsKey         fwk.StateKey = "PreFilter" + noderesources.Name
	fitScoringKey       fwk.StateKey = "PreScore" + noderesources.Name
	balancedScoringKey  fwk.StateKey = "PreScore" + noderesources.BalancedAllocationName
	podKey              fwk.StateKey = "quickfit/requests"
	leftKey             fwk.StateKey = "quickfit/left"
	balanceKey          fwk.StateKey = "quickfit/balance"
	podRequestsOfStates              = "podRequests" // the field with the amounts in upstream's states
)

// New returns a factory that wraps upstream's plugin.
func New(upstream frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		plugin, err := scoresNoDevices(upstream)(ctx, args, h)
		if err != nil {
			return nil, err
		}
		fit, ok := plugin.(*noderesources.Fit)
		if !ok {
			return nil, fmt.Errorf("plugin %s is a %T", noderesources.Name, plugin)
		}
		quick := &Fit{Fit: fit, signs: signsWith(h)}
		if a, ok := args.(*config.NodeResourcesFitArgs); ok && a.ScoringStrategy != nil {
			quick.resources, quick.strategy = a.ScoringStrategy.Resources, a.ScoringStrategy.Type
		}
		return quick, nil
	}
}

// requests has a pod's requests: upstream's amounts in another form. It does not change.
type requests struct {
	of      [kinds]int64
	scalars []scalar
}

type scalar struct {
	name   v1.ResourceName
	amount int64
}

// Clone implements fwk.StateData.
func (r *requests) Clone() fwk.StateData { return r }

// PreFilter implements fwk.PreFilterPlugin.
func (f *Fit) PreFilter(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	result, status := f.Fit.PreFilter(ctx, state, pod, nodes)
	if data, err := state.Read(requestsKey); err == nil {
		if amounts, ok := data.(fwk.Resource); ok {
			r := &requests{
				of: [kinds]int64{
					cpu:       amounts.GetMilliCPU(),
					memory:    amounts.GetMemory(),
					ephemeral: amounts.GetEphemeralStorage(),
				},
			}
			// any order: all of them must exist
			for name, amount := range amounts.GetScalarResources() {
				r.scalars = append(r.scalars, scalar{name, amount})
			}
			state.Write(podKey, r)
		}
	}
	return result, status
}

// Filter implements fwk.FilterPlugin.
func (f *Fit) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if data, err := state.Read(podKey); err == nil {
		if info, ok := node.(*framework.NodeInfo); ok && data.(*requests).on(info) {
			return nil
		}
	}
	return f.Fit.Filter(ctx, state, pod, node)
}

// on reports whether the node has enough of every resource. Upstream never refuses such a node, because its arguments
// and feature gates can only lower the requests.
func (r *requests) on(node *framework.NodeInfo) bool {
	has, used := node.Allocatable, node.Requested
	if len(node.Pods)+1 > has.AllowedPodNumber || lacks(r.of[cpu], has.MilliCPU, used.MilliCPU) ||
		lacks(r.of[memory], has.Memory, used.Memory) ||
		lacks(r.of[ephemeral], has.EphemeralStorage, used.EphemeralStorage) {
		return false
	}
	for _, s := range r.scalars {
		if lacks(s.amount, has.ScalarResources[s.name], used.ScalarResources[s.name]) {
			return false
		}
	}
	return true
}

func lacks(request, has, used int64) bool { return request > 0 && request > has-used }

// PreScore implements fwk.PreScorePlugin.
func (f *Fit) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	status := f.Fit.PreScore(ctx, state, pod, nodes)
	if status.IsSuccess() && (f.strategy == config.LeastAllocated || f.strategy == config.MostAllocated) {
		if s := sharesOf(state, fitScoringKey, f.resources); s != nil {
			state.Write(leftKey, s)
		}
	}
	return status
}

// Score implements fwk.ScorePlugin.
func (f *Fit) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if data, err := state.Read(leftKey); err == nil {
		if info, ok := node.(*framework.NodeInfo); ok {
			var r row
			r.read(info)
			return data.(*shares).left(&r, f.most()), nil
		}
	}
	return f.Fit.Score(ctx, state, pod, node)
}

func (f *Fit) most() bool { return f.strategy == config.MostAllocated }

// shares has the amounts with which a pod counts in scores, for resources that every node has. It does not change.
type shares struct {
	of []share
}

type share struct {
	resource       kind
	amount, weight int64
}

// kind is a resource that every node has.
type kind int8

const (
	cpu kind = iota
	memory
	ephemeral
	kinds // the number of kinds
)

// Clone implements fwk.StateData.
func (s *shares) Clone() fwk.StateData { return s }

// sharesOf returns the amounts that upstream's PreScore has stored under the key. It returns nil if they are not enough
// to score the pod.
func sharesOf(state fwk.CycleState, key fwk.StateKey, resources []config.ResourceSpec) *shares {
	data, err := state.Read(key)
	if err != nil {
		return nil
	}
	amounts := reflect.Indirect(reflect.ValueOf(data))
	if amounts.Kind() != reflect.Struct {
		return nil
	}
	amounts = amounts.FieldByName(podRequestsOfStates)
	if amounts.Kind() != reflect.Slice || amounts.Len() != len(resources) ||
		amounts.Type().Elem().Kind() != reflect.Int64 {
		return nil
	}
	s := &shares{}
	for i, r := range resources {
		name, amount := v1.ResourceName(r.Name), amounts.Index(i).Int()
		switch name {
		case v1.ResourceCPU:
			s.of = append(s.of, share{cpu, amount, r.Weight})
		case v1.ResourceMemory:
			s.of = append(s.of, share{memory, amount, r.Weight})
		case v1.ResourceEphemeralStorage:
			s.of = append(s.of, share{ephemeral, amount, r.Weight})
		default:
			if amount != 0 || !schedutil.IsScalarResourceName(name) {
				return nil
			}
			// Upstream skips an extended resource that the pod does not request.
		}
	}
	return s
}

// left returns the score of upstream's strategy LeastAllocated, or MostAllocated if most is set. It is the weighted
// mean, over the resources that the node has, of the percentage that would be free, or used.
func (s *shares) left(node *row, most bool) int64 {
	var sum, weights int64
	for i := range s.of {
		share := &s.of[i]
		has, used := node.has[share.resource], node.counted[share.resource]
		if has == 0 {
			continue
		}
		weights += share.weight
		taken := used + share.amount
		switch {
		case most:
			sum += min(taken, has) * fwk.MaxScore / has * share.weight
		case taken <= has:
			sum += (has - taken) * fwk.MaxScore / has * share.weight
		}
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}
