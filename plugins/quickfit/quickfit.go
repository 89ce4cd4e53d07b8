// Package quickfit is kube-scheduler's NodeResourcesFit, under its name, that sees at a glance that a node has room. Of any
// other node, and in everything else, kube-scheduler's plugin itself answers, so that what is refused, and in which words, is
// upstream's. A test compares the two.
//
// It is worth having because upstream's Filter, for every node, matches the names of extended resources with regular
// expressions and allocates a list of what is lacking: half of the time of a cycle.
package quickfit

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Fit is the plugin.
type Fit struct {
	*noderesources.Fit
}

// requestsKey is where upstream's PreFilter leaves what the pod requests.
const requestsKey fwk.StateKey = "PreFilter" + noderesources.Name

// New returns a factory that makes the plugin around the one that upstream's factory makes.
func New(upstream frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		plugin, err := upstream(ctx, args, h)
		if err != nil {
			return nil, err
		}
		fit, ok := plugin.(*noderesources.Fit)
		if !ok {
			return nil, fmt.Errorf("plugin %s is a %T", noderesources.Name, plugin)
		}
		return &Fit{fit}, nil
	}
}

// Filter implements fwk.FilterPlugin.
func (f *Fit) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if data, err := state.Read(requestsKey); err == nil {
		if requests, ok := data.(fwk.Resource); ok && hasRoom(requests, node) {
			return nil
		}
	}
	return f.Fit.Filter(ctx, state, pod, node)
}

// hasRoom says that the node has enough of everything. Upstream refuses no such node: whatever its arguments and feature
// gates, they only let it ask for less.
func hasRoom(requests fwk.Resource, node fwk.NodeInfo) bool {
	has, used := node.GetAllocatable(), node.GetRequested()
	if len(node.GetPods())+1 > has.GetAllowedPodNumber() ||
		lacks(requests.GetMilliCPU(), has.GetMilliCPU(), used.GetMilliCPU()) ||
		lacks(requests.GetMemory(), has.GetMemory(), used.GetMemory()) ||
		lacks(requests.GetEphemeralStorage(), has.GetEphemeralStorage(), used.GetEphemeralStorage()) {
		return false
	}
	scalars := requests.GetScalarResources()
	if len(scalars) == 0 {
		return true
	}
	hasScalars, usedScalars := has.GetScalarResources(), used.GetScalarResources()
	// any order: one is enough
	for name, amount := range scalars {
		if lacks(amount, hasScalars[name], usedScalars[name]) {
			return false
		}
	}
	return true
}

func lacks(request, has, used int64) bool { return request > 0 && request > has-used }
