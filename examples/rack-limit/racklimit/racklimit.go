package racklimit

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// Name is the plugin's name in configurations, in logs and in answers.
const Name = "RackLimit"

// RackLimit is the plugin. It has no memory of its own: what it counts it reads from the nodes in each cycle.
type RackLimit struct {
	handle fwk.Handle
	args   Args
}

var (
	_ fwk.PreFilterPlugin     = (*RackLimit)(nil)
	_ fwk.PreFilterExtensions = (*RackLimit)(nil)
	_ fwk.FilterPlugin        = (*RackLimit)(nil)
	_ fwk.PreScorePlugin      = (*RackLimit)(nil)
	_ fwk.ScorePlugin         = (*RackLimit)(nil)
	_ fwk.ScoreExtensions     = (*RackLimit)(nil)
	_ fwk.EnqueueExtensions   = (*RackLimit)(nil)
)

// New is the plugin's factory.
func New(_ context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := decodeArgs(obj)
	if err != nil {
		return nil, err
	}
	return &RackLimit{handle: handle, args: args}, nil
}

// Name returns the plugin's name.
func (p *RackLimit) Name() string { return Name }

// stateKey is the place where PreFilter leaves what it counted for the rest of the cycle.
const stateKey fwk.StateKey = Name

// racks has the number of pods of the pod's app on each rack.
type racks struct{ pods map[string]int }

// Clone implements fwk.StateData: preemption tries on a copy what it would be like without some pods.
func (r *racks) Clone() fwk.StateData { return &racks{maps.Clone(r.pods)} }

// racksOf returns the counts from PreFilter; nil if the pod is not limited.
func racksOf(state fwk.CycleState) *racks {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	counted, _ := data.(*racks)
	return counted
}

// PreFilter counts the pods of the pod's app, rack by rack. Pods that wait in Permit count: the nodes have them.
func (p *RackLimit) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Labels[p.args.AppLabel] == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	counted := &racks{map[string]int{}}
	for _, node := range nodes {
		for _, other := range node.GetPods() {
			p.count(counted, pod, other.GetPod(), node, 1)
		}
	}
	state.Write(stateKey, counted)
	return nil, nil
}

// count adds a pod on a node to the counts for the pod in question, or removes it.
func (p *RackLimit) count(counted *racks, pod, other *v1.Pod, node fwk.NodeInfo, change int) {
	if rack := node.Node().Labels[p.args.RackLabel]; rack != "" && p.sameApp(pod, other) {
		counted.pods[rack] += change
	}
}

// sameApp reports whether two pods are of the same app.
func (p *RackLimit) sameApp(a, b *v1.Pod) bool {
	return a.Namespace == b.Namespace && a.Labels[p.args.AppLabel] == b.Labels[p.args.AppLabel]
}

// PreFilterExtensions returns how the count follows pods that preemption thinks away or adds.
func (p *RackLimit) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod counts a pod that is thought to be on a node.
func (p *RackLimit) AddPod(_ context.Context, state fwk.CycleState, pod *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo,
) *fwk.Status {
	if counted := racksOf(state); counted != nil {
		p.count(counted, pod, added.GetPod(), node, 1)
	}
	return nil
}

// RemovePod takes away a pod that is thought to have left a node.
func (p *RackLimit) RemovePod(_ context.Context, state fwk.CycleState, pod *v1.Pod, removed fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	if counted := racksOf(state); counted != nil {
		p.count(counted, pod, removed.GetPod(), node, -1)
	}
	return nil
}

// Filter refuses nodes without a rack, and nodes of racks that have enough pods of the app. The second reason is one
// that preemption can do something about.
func (p *RackLimit) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	counted := racksOf(state)
	if counted == nil {
		return nil
	}
	rack := node.Node().Labels[p.args.RackLabel]
	if rack == "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had no label "+p.args.RackLabel)
	}
	if counted.pods[rack] >= p.args.Limit {
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("node(s) were in racks with %d pods of %s %s",
			p.args.Limit, p.args.AppLabel, pod.Labels[p.args.AppLabel]))
	}
	return nil
}

// PreScore leaves Score out for pods that are not limited.
func (p *RackLimit) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if racksOf(state) == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score returns how many pods of the app the node's rack has; NormalizeScore turns that round.
func (p *RackLimit) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	counted := racksOf(state)
	if counted == nil {
		return 0, nil
	}
	return int64(counted.pods[node.Node().Labels[p.args.RackLabel]]), nil
}

// ScoreExtensions returns NormalizeScore.
func (p *RackLimit) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives the rack with the most pods of the app 0, and one without any 100.
func (p *RackLimit) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList,
) *fwk.Status {
	return helper.DefaultNormalizeScore(fwk.MaxScore, true, scores)
}
