package rackports

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Name is the plugin's name in configurations, in logs and in answers.
const Name = "RackPorts"

// The labels of pods that the plugin reads.
const (
	// needsPort has any value: the pod is to have a port.
	needsPort = "example.com/port"
	// pairLabel is the same for two pods: neither is bound without the other.
	pairLabel = "example.com/pair"
)

// pairTimeout is the time that a pod waits for the other one of its pair.
const pairTimeout = 5 * time.Minute

// Args are the plugin's arguments, in pluginConfig of a KubeSchedulerConfiguration. All are needed.
type Args struct {
	// RackLabel is the label of nodes that names their rack.
	RackLabel string `json:"rackLabel"`
	// Ports is the number of ports of a rack's switch.
	Ports int `json:"ports"`
}

// RackPorts is the plugin.
type RackPorts struct {
	handle fwk.Handle
	args   Args

	mu    sync.Mutex // the binding cycles of pods run beside the scheduling cycles of others
	ports map[types.UID]port
}

// A port is one of a rack's switch.
type port struct {
	Rack   string `json:"rack"`
	Number int    `json:"number"` // from 1
}

var (
	_ fwk.FilterPlugin      = (*RackPorts)(nil)
	_ fwk.ReservePlugin     = (*RackPorts)(nil)
	_ fwk.PermitPlugin      = (*RackPorts)(nil)
	_ fwk.PreBindPlugin     = (*RackPorts)(nil)
	_ fwk.PostBindPlugin    = (*RackPorts)(nil)
	_ fwk.EnqueueExtensions = (*RackPorts)(nil)
)

// New is the plugin's factory.
func New(_ context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	p := &RackPorts{handle: handle, ports: map[types.UID]port{}}
	if err := frameworkruntime.DecodeInto(obj, &p.args); err != nil {
		return nil, err
	}
	if p.args.RackLabel == "" || p.args.Ports < 1 {
		return nil, errors.New("arguments: rackLabel and ports (at least 1) are needed")
	}
	pods := handle.SharedInformerFactory().Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: p.gone})
	return p, err
}

// Name returns the plugin's name.
func (p *RackPorts) Name() string { return Name }

// gone gives back the port of a pod that no longer exists.
func (p *RackPorts) gone(object any) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	if pod, ok := object.(*v1.Pod); ok {
		p.giveBack(pod)
	}
}

func (p *RackPorts) giveBack(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ports, pod.UID)
}

// asks reports whether a pod is to have a port.
func asks(pod *v1.Pod) bool { return pod.Labels[needsPort] != "" }

// free returns the lowest port of a rack that no pod has; 0 if all are taken.
func (p *RackPorts) free(rack string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := make([]bool, p.args.Ports+1)
	for _, has := range p.ports { // any order: each is marked
		if has.Rack == rack {
			taken[has.Number] = true
		}
	}
	for number := 1; number <= p.args.Ports; number++ {
		if !taken[number] {
			return number
		}
	}
	return 0
}

// Filter refuses nodes of racks without a free port.
func (p *RackPorts) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	switch rack := node.Node().Labels[p.args.RackLabel]; {
	case !asks(pod):
		return nil
	case rack == "":
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had no label "+p.args.RackLabel)
	case p.free(rack) == 0:
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had no free port on the switch of their rack")
	}
	return nil
}

// Reserve reserves a port for the pod.
func (p *RackPorts) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	if !asks(pod) {
		return nil
	}
	node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(err)
	}
	rack := node.Node().Labels[p.args.RackLabel]
	number := p.free(rack)
	if number == 0 {
		return fwk.NewStatus(fwk.Unschedulable, "the switch of rack "+rack+" has no free port")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ports[pod.UID] = port{rack, number}
	return nil
}

// Unreserve gives the pod's port back. It may be called for a pod that has none.
func (p *RackPorts) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.giveBack(pod)
}

// Permit has the first pod of a pair wait for the second, which lets both go.
func (p *RackPorts) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	pair := pod.Labels[pairLabel]
	if pair == "" {
		return nil, 0
	}
	complete := false
	p.handle.IterateOverWaitingPods(func(waiting fwk.WaitingPod) {
		if other := waiting.GetPod(); other.Namespace == pod.Namespace && other.Labels[pairLabel] == pair {
			waiting.Allow(Name)
			complete = true
		}
	})
	if complete {
		return nil, 0
	}
	return fwk.NewStatus(fwk.Wait, "the other pod of the pair is not there yet"), pairTimeout
}

// EventsToRegister returns the events that may make a pod schedulable that the plugin refused: a pod with a port has
// ended, or a node is in another rack.
func (p *RackPorts) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete},
			QueueingHintFn: func(_ klog.Logger, _ *v1.Pod, before, _ any) (fwk.QueueingHint, error) {
				if gone, ok := before.(*v1.Pod); ok && !asks(gone) {
					return fwk.QueueSkip, nil
				}
				return fwk.Queue, nil
			},
		},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}},
	}, nil
}
