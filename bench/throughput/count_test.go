package throughput

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"

	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/plugins"
)

// counter is the plugin NodeUnschedulable, which is the first to filter a node, and counts.
type counter struct {
	*nodeunschedulable.NodeUnschedulable
	filtered *int
}

func (c counter) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	*c.filtered++
	return c.NodeUnschedulable.Filter(ctx, state, pod, node)
}

// TestHowOftenNodesAreFiltered guards the speed by counting, not timing, the work for a fixed workload. With classes
// each shape visits all nodes once. Later it visits only nodes that changed since, which is at most one for each pod
// in between.
func TestHowOftenNodesAreFiltered(t *testing.T) {
	const nodes, pods, shapes = 100, 240, 4
	for _, c := range []struct {
		name    string
		without bool
		spread  bool
		most    int
	}{
		{"with classes", false, false, nodes*shapes + pods*shapes},
		{"without classes", true, false, cyclesEach * nodes * pods},
		{"pods that have no class", false, true, cyclesEach * nodes * pods},
	} {
		t.Run(c.name, func(t *testing.T) {
			filtered := 0
			registry := plugins.NewRegistry()
			build := registry.Factories[names.NodeUnschedulable]
			registry.Factories[names.NodeUnschedulable] = func(ctx context.Context, args runtime.Object,
				h fwk.Handle) (fwk.Plugin, error) {
				p, err := build(ctx, args, h)
				if err != nil {
					return nil, err
				}
				return counter{p.(*nodeunschedulable.NodeUnschedulable), &filtered}, nil
			}
			r := measured(t,
				Options{Spec: workload.Spec{Nodes: nodes, Pods: pods, Shapes: shapes, Spread: c.spread}, Batch: 50,
					WithoutClasses: c.without, registry: registry})
			if r.Placed != pods || filtered > c.most {
				t.Errorf("%d pods took %d looks at a node, want at most %d", r.Placed, filtered, c.most)
			}
			if c.without && filtered < nodes*pods {
				t.Errorf("%d looks at a node without classes, want %d: is there a memo?", filtered, nodes*pods)
			}
		})
	}
}

// devicePlugin is all that DynamicResources implements.
type devicePlugin interface {
	fwk.PreEnqueuePlugin
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PostFilterPlugin
	fwk.ScorePlugin
	fwk.ReservePlugin
	fwk.PreBindPlugin
	fwk.EnqueueExtensions
	fwk.SignPlugin
}

// searches is DynamicResources, and counts the searches of nodes for devices.
type searches struct {
	devicePlugin
	n *int
}

func (s searches) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	*s.n++
	return s.devicePlugin.Filter(ctx, state, pod, node)
}

// TestHowOftenNodesAreSearchedForDevices guards the speed of pods with claims: a node is searched again only if a pod
// was placed there since, or a device came free there. Neither counter counts the search for the chosen node.
func TestHowOftenNodesAreSearchedForDevices(t *testing.T) {
	const nodes, pods = 100, 1600
	for name, c := range map[string]struct{ gang, most int }{
		"gangs of 16": {16, cyclesEach * (nodes + 2*pods)}, "gangs of 64": {64, cyclesEach * (nodes + 2*pods)},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			registry := plugins.NewRegistry()
			build := registry.Factories[names.DynamicResources]
			registry.Factories[names.DynamicResources] = func(ctx context.Context, args runtime.Object,
				h fwk.Handle) (fwk.Plugin, error) {
				p, err := build(ctx, args, h)
				if err != nil {
					return nil, err
				}
				return searches{p.(devicePlugin), &n}, nil
			}
			r := measured(t, Options{Batch: 1000, registry: registry,
				Spec: workload.Spec{Nodes: nodes, Pods: pods, Shapes: 1, Gang: c.gang, DRA: true}})
			if r.Placed != pods || n > c.most {
				t.Errorf("%d pods took %d searches for devices, want at most %d", r.Placed, n, c.most)
			}
		})
	}
}
