package framework

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Refit checks whether a pod on a node fits there with its current requests. It runs PreFilter, and Filter for that
// node without the pod. It visits no other node, and PostFilter plugins learn that no other node can help. Reservations
// do not matter, because the node already counts the pod's requests.
//
// It returns a Placement as Place does. state must be empty; afterwards it belongs to the pod's cycle.
func (p *Profile) Refit(ctx context.Context, state fwk.CycleState, pod *v1.Pod, trace *Trace) Placement {
	c := &p.search
	c.setPod(ctx, state, pod, trace)
	trace.begin()
	c.reserved = nil
	return c.refit()
}

// refit runs Refit after setPod.
func (c *search) refit() (out Placement) {
	nodes, err := c.p.stage.NodeInfos().List()
	if err != nil {
		return c.fail(fwk.AsStatus(fmt.Errorf("list nodes: %w", err)), out)
	}
	if status := c.preFilter(nodes); !status.IsSuccess() {
		if status.IsError() {
			return c.fail(status, out)
		}
		c.absent = status
		return c.refuse(status, out)
	}
	name := c.pod.Spec.NodeName
	if !c.preFilters.AllNodes() && !c.preFilters.NodeNames.Has(name) {
		return c.refuse(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "PreFilter left the pod's node out"), out)
	}
	c.trace.forgetLeftOut()
	// Plugins that excluded other nodes, such as NodeName, have refused nothing.
	c.tally.reset()
	c.plugins = c.plugins[:0]
	own, err := c.p.stage.NodeInfos().Get(name)
	if err != nil {
		return c.refuseNode(fmt.Sprintf("node %q of the pod is not there", name), out)
	}
	node, err := c.withoutPod(own)
	if err != nil {
		return c.fail(fwk.AsStatus(err), out)
	}
	status := c.filterNode(node)
	switch {
	case status.IsSuccess():
		out.Evaluated, out.Feasible, out.Node = 1, 1, name
		c.trace.feasible([]fwk.NodeInfo{node})
		return out
	case status.IsError():
		c.trace.failed("Filter", name, status)
		return c.fail(status, out)
	}
	out.Evaluated = 1
	c.refused = append(c.refused, refusal{node, status})
	c.tally.add(status, 1)
	c.trace.refused(c.refused)
	return c.refuseAll(out)
}

// refuseNode ends a search for a pod whose own node is impossible.
func (c *search) refuseNode(why string, out Placement) Placement {
	status := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why).WithPlugin(names.DeferredPodScheduling)
	c.tally.add(status, 0)
	c.plugins = append(c.plugins, names.DeferredPodScheduling)
	return c.refuse(status, out)
}

// withoutPod returns a copy of the node without the pod. It removes the pod from the plugins' state as well.
func (c *search) withoutPod(node fwk.NodeInfo) (fwk.NodeInfo, error) {
	copied := node.Snapshot()
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if pod.UID != c.pod.UID {
			continue
		}
		if err := copied.RemovePod(klog.Logger{}, pod); err != nil {
			return nil, err
		}
		if removed := c.p.world.Removed; removed != nil {
			removed(copied, pod)
		}
		return copied, c.p.handle.RunPreFilterExtensionRemovePod(c.ctx, c.state, c.pod, info, copied).AsError()
	}
	return copied, nil
}
