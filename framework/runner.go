package framework

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// This file is the part of the Handle with which plugins such as preemption run other plugins. They do so on copies of
// the state, outside the search of Place.

// RunPreScorePlugins runs the PreScore plugins and records in state which Score plugins to skip.
func (h *handle) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) *fwk.Status {
	c := h.p.detached(ctx, state, pod)
	c.feasible = nodes
	return c.preScore()
}

// RunScorePlugins scores the nodes, in the order given.
func (h *handle) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	c := h.p.detached(ctx, state, pod)
	for _, s := range h.p.score {
		if !state.GetSkipScorePlugins().Has(s.name) {
			c.scorers = append(c.scorers, s)
			c.lists = append(c.lists, make(fwk.NodeScoreList, len(nodes)))
		}
	}
	if status := c.scoreNodes(c.scorers, nodes, c.lists); status != nil {
		return nil, status
	}
	out := make([]fwk.NodePluginScores, len(nodes))
	for i, node := range nodes {
		out[i] = fwk.NodePluginScores{
			Name:      node.Node().Name,
			RawScores: make([]fwk.PluginScore, len(c.scorers)),
			Scores:    make([]fwk.PluginScore, len(c.scorers)),
		}
		for k, s := range c.scorers {
			out[i].RawScores[k] = fwk.PluginScore{Name: s.name, Score: c.lists[k][i].Score}
		}
	}
	if status := h.p.normalize(ctx, state, pod, c.scorers, c.lists); status != nil {
		return nil, status
	}
	for i := range out {
		for k, s := range c.scorers {
			weighted := c.lists[k][i].Score * s.weight
			out[i].Scores[k] = fwk.PluginScore{Name: s.name, Score: weighted}
			out[i].TotalScore += weighted
		}
	}
	return out, nil
}

// detached returns a search that shares no memory with the profile's own search, which may be under way.
func (p *Profile) detached(ctx context.Context, state fwk.CycleState, pod *v1.Pod) *search {
	c := &search{ctx: ctx, state: state, pod: pod}
	c.init(p)
	return c
}

// RunFilterPlugins filters one node. It returns nil if the node is feasible.
func (h *handle) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) *fwk.Status {
	skip := state.GetSkipFilterPlugins()
	for _, f := range h.p.filter {
		if skip.Has(f.name) {
			continue
		}
		if status := f.plugin.Filter(ctx, state, pod, node); !status.IsSuccess() {
			return filterStatus(f.name, status)
		}
	}
	return nil
}

// RunFilterPluginsWithNominatedPods filters one node with and without the pods nominated to it. As in Place, it refuses
// a node that is reserved for other pods.
func (h *handle) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) *fwk.Status {
	status := h.p.filterNominated(ctx, state, pod, node, func(state fwk.CycleState, node fwk.NodeInfo) *fwk.Status {
		return h.RunFilterPlugins(ctx, state, pod, node)
	})
	if status.IsSuccess() && h.p.world.Reserved != nil {
		if reserved := h.p.world.Reserved(pod); reserved != nil {
			return reserved.Why(node)
		}
	}
	return status
}

// filterNominated filters a node as if the pods nominated to it, with at least the pod's priority, were on it. If the
// node passes, it filters the node once more without them: they may never come, and the pod's own affinity may count on
// them.
func (p *Profile) filterNominated(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo,
	filter func(fwk.CycleState, fwk.NodeInfo) *fwk.Status) *fwk.Status {
	with, stateWith, status := p.withNominated(ctx, state, pod, node)
	if status != nil {
		return status
	}
	if with != nil {
		if status := filter(stateWith, with); status != nil {
			return status
		}
	}
	return filter(state, node)
}

// withNominated returns a copy of the node with the pods nominated to it, and a matching copy of the state. It returns
// nil if no nominated pod counts.
func (p *Profile) withNominated(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) (fwk.NodeInfo, fwk.CycleState, *fwk.Status) {
	var with fwk.NodeInfo
	var stateWith fwk.CycleState
	keeps := func(nominated, other *v1.Pod) bool { return corev1.PodPriority(nominated) >= corev1.PodPriority(other) }
	if n, ok := p.world.Nominator.(Keeper); ok {
		keeps = n.KeepsFrom
	}
	for _, other := range p.handle.NominatedPodsForNode(node.Node().Name) {
		if uid := other.GetPod().UID; uid == pod.UID || p.stage.unnominated[uid] || !keeps(other.GetPod(), pod) {
			continue
		}
		if with == nil {
			with, stateWith = node.Snapshot(), state.Clone()
		}
		with.AddPodInfo(other)
		if status := p.handle.RunPreFilterExtensionAddPod(ctx, stateWith, pod, other, with); status != nil {
			return nil, nil, status
		}
	}
	return with, stateWith, nil
}

// RunPreFilterExtensionAddPod tells the PreFilter plugins to treat a pod as added to the node.
func (h *handle) RunPreFilterExtensionAddPod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, add fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	return h.p.extend(state, "AddPod", func(ext fwk.PreFilterExtensions) *fwk.Status {
		return ext.AddPod(ctx, state, pod, add, node)
	})
}

// RunPreFilterExtensionRemovePod tells the PreFilter plugins to treat a pod as removed from the node.
func (h *handle) RunPreFilterExtensionRemovePod(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	remove fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return h.p.extend(state, "RemovePod", func(ext fwk.PreFilterExtensions) *fwk.Status {
		return ext.RemovePod(ctx, state, pod, remove, node)
	})
}

func (p *Profile) extend(state fwk.CycleState, what string,
	call func(fwk.PreFilterExtensions) *fwk.Status) *fwk.Status {
	skip := state.GetSkipFilterPlugins()
	for _, e := range p.preFilter {
		ext := e.plugin.PreFilterExtensions()
		if ext == nil || skip.Has(e.name) {
			continue
		}
		if status := call(ext); !status.IsSuccess() {
			return fwk.AsStatus(fmt.Errorf("running %s of PreFilter plugin %q: %w", what, e.name,
				status.AsError())).WithPlugin(e.name)
		}
	}
	return nil
}

// RunReservePluginsReserve runs the Reserve plugins.
func (h *handle) RunReservePluginsReserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node string) *fwk.Status {
	return h.p.Reserve(ctx, state, pod, node, nil)
}

// RunReservePluginsUnreserve runs the Unreserve of the Reserve plugins, in reverse order.
func (h *handle) RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	h.p.Unreserve(ctx, state, pod, node)
}
