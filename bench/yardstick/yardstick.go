// Package yardstick rates placements by one measure for every scheduler: the scores that two plugins of
// kube-scheduler, with their default arguments, give the chosen node at the time of the choice. The plugins are
// NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation.
//
// It owns the measure. It never reads a scheduler's own statements about its choice.
//
// Start reading at Rate.
package yardstick

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"

	"github.com/rollcall-sched/rollcall/bench/workload"
)

// Best is the highest score: 100 for each of the two plugins.
const Best = 2 * fwk.MaxScore

// Event is a pod that takes a node, or leaves it; or a runner of the workload that leaves the node that it had from
// the beginning.
type Event struct {
	Pod, Node    int32
	Left, Runner bool
}

// scorer is a plugin of the measure.
type scorer interface {
	fwk.PreScorePlugin
	fwk.ScorePlugin
}

// Step is the number of placements between two running means.
const Step = 500

// Score rates placements: means over the chosen nodes, 0 to Best.
type Score struct {
	// Mean is the mean of all placements, 0 without any.
	Mean float64
	// Running are the means of the first Step placements, of the first 2 Step, and so on. Schedulers that did not get
	// equally far must be compared by the placements that all of them made, since nodes are emptier at the beginning.
	Running []float64
}

// Rate plays the events of a workload in their order. It returns an error if the placements are wrong: if an event
// names a pod or node that cannot exist, or a node without room.
func Rate(ctx context.Context, spec workload.Spec, events []Event) (out Score, err error) {
	scorers, err := newScorers(ctx)
	if err != nil {
		return out, err
	}
	nodes := make([]*framework.NodeInfo, spec.Nodes)
	for i := range nodes {
		nodes[i] = framework.NewNodeInfo()
		nodes[i].SetNode(spec.Node(i))
	}
	for i := range spec.Runners() {
		info, err := framework.NewPodInfo(spec.Runner(i))
		if err != nil {
			return out, fmt.Errorf("runner %d: %w", i, err)
		}
		nodes[spec.RunnerNode(i)].AddPodInfo(info)
	}
	sum, taken := int64(0), 0
	for _, e := range events {
		if e.Pod < 0 || e.Node < 0 || int(e.Node) >= len(nodes) {
			return out, fmt.Errorf("pod %d on node %d of %d: no such pod or node", e.Pod, e.Node, len(nodes))
		}
		pod, node := spec.Pod(int(e.Pod)), nodes[e.Node]
		if e.Runner {
			pod = spec.Runner(int(e.Pod))
		}
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return out, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		if e.Left {
			if err := node.RemovePod(klog.FromContext(ctx), pod); err != nil {
				return out, fmt.Errorf("pod %s leaves %s: %w", pod.Name, node.Node().Name, err)
			}
			continue
		}
		if lacks := noderesources.Fits(pod, node, nil, noderesources.ResourceRequestsOptions{}); len(lacks) > 0 {
			return out, fmt.Errorf("pod %s was placed on %s, where it does not fit: %s", pod.Name, node.Node().Name,
				lacks[0].Reason)
		}
		score, err := rate(ctx, scorers, pod, node)
		if err != nil {
			return out, err
		}
		sum += score
		if taken++; taken%Step == 0 {
			out.Running = append(out.Running, float64(sum)/float64(taken))
		}
		node.AddPodInfo(info)
	}
	if taken > 0 {
		out.Mean = float64(sum) / float64(taken)
	}
	return out, nil
}

// newScorers makes the two plugins with the arguments that kube-scheduler gives them by default.
func newScorers(ctx context.Context) ([]scorer, error) {
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var cfg config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &cfg, nil); err != nil {
		return nil, fmt.Errorf("kube-scheduler's default configuration: %w", err)
	}
	type factory func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error)
	factories := map[string]factory{names.NodeResourcesFit: noderesources.NewFit,
		names.NodeResourcesBalancedAllocation: noderesources.NewBalancedAllocation}
	var out []scorer
	for _, c := range cfg.Profiles[0].PluginConfig {
		newPlugin, ok := factories[c.Name]
		if !ok {
			continue
		}
		plugin, err := newPlugin(ctx, c.Args, noDevices{}, feature.Features{})
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", c.Name, err)
		}
		out = append(out, plugin.(scorer))
	}
	if len(out) != len(factories) {
		return nil, errors.New("kube-scheduler's default configuration has no arguments for one of the two plugins")
	}
	return out, nil
}

// noDevices is the only part of a handle that the plugins use. It says that there is no manager of devices.
type noDevices struct{ fwk.Handle }

// SharedDRAManager implements fwk.Handle.
func (noDevices) SharedDRAManager() fwk.SharedDRAManager { return nil }

// rate returns the sum of the plugins' scores for the node and the pod.
func rate(ctx context.Context, scorers []scorer, pod *corev1.Pod, node fwk.NodeInfo) (int64, error) {
	state, total := framework.NewCycleState(), int64(0)
	for _, s := range scorers {
		if status := s.PreScore(ctx, state, pod, []fwk.NodeInfo{node}); !status.IsSuccess() {
			return 0, fmt.Errorf("PreScore of %s: %w", s.Name(), status.AsError())
		}
		score, status := s.Score(ctx, state, pod, node)
		if !status.IsSuccess() {
			return 0, fmt.Errorf("score of %s: %w", s.Name(), status.AsError())
		}
		total += score
	}
	return total, nil
}
