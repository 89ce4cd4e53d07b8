package quickfit

import (
	"context"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Balanced is NodeResourcesBalancedAllocation.
type Balanced struct {
	*noderesources.BalancedAllocation
	resources []config.ResourceSpec
	signs     func(pod *v1.Pod) bool
	ledger    ledger
}

// NewBalanced returns a factory that wraps upstream's plugin.
func NewBalanced(upstream frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		plugin, err := scoresNoDevices(upstream)(ctx, args, h)
		if err != nil {
			return nil, err
		}
		balanced, ok := plugin.(*noderesources.BalancedAllocation)
		if !ok {
			return nil, fmt.Errorf("plugin %s is a %T", noderesources.BalancedAllocationName, plugin)
		}
		quick := &Balanced{BalancedAllocation: balanced, signs: signsWith(h)}
		if a, ok := args.(*config.NodeResourcesBalancedAllocationArgs); ok {
			quick.resources = a.Resources
		}
		return quick, nil
	}
}

// PreScore implements fwk.PreScorePlugin.
func (b *Balanced) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	status := b.BalancedAllocation.PreScore(ctx, state, pod, nodes)
	if status.IsSuccess() {
		if s := sharesOf(state, balancedScoringKey, b.resources); s != nil && len(s.of) <= 2 {
			state.Write(balanceKey, s)
		}
	}
	return status
}

// Score implements fwk.ScorePlugin.
func (b *Balanced) Score(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	node fwk.NodeInfo,
) (int64, *fwk.Status) {
	if data, err := state.Read(balanceKey); err == nil {
		if info, ok := node.(*framework.NodeInfo); ok {
			var r row
			r.read(info)
			s := data.(*shares)
			return s.balance(&r, s.without().evenness(&r)), nil
		}
	}
	return b.BalancedAllocation.Score(ctx, state, pod, node)
}

// balance returns upstream's score for at most two resources, 50 to 100. It is higher if the pod makes the used
// fractions of the resources more equal. without is the evenness of the node as it is.
func (s *shares) balance(node *row, without int64) int64 {
	return fwk.MaxScore/2 + (fwk.MaxScore/2+s.evenness(node)-without)/2
}

// without returns the shares of a pod without requests.
func (s *shares) without() *shares {
	none := &shares{of: slices.Clone(s.of)}
	for i := range none.of {
		none.of[i].amount = 0
	}
	return none
}

// evenness is 100 if the pod leaves equal fractions of both resources in use on the node. It is 50 if it leaves all of
// one resource in use and the other unused.
func (s *shares) evenness(node *row) int64 {
	var fractions [2]float64
	n := 0
	for i := range s.of {
		share := &s.of[i]
		has, asked := node.has[share.resource], node.asked[share.resource]
		if has == 0 {
			continue
		}
		fractions[n] = min(float64(asked+share.amount)/float64(has), 1)
		n++
	}
	deviation := 0.0
	if n == 2 {
		deviation = math.Abs((fractions[0] - fractions[1]) / 2)
	}
	return int64((1 - deviation) * float64(fwk.MaxScore))
}
