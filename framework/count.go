package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster/devices"
)

// A Count counts, for each node, the pods like a given one that fit on the node. It handles one node at a time and
// places no pod.
//
// It is valid only if plugins' answers about a node depend on the pod, that node, and the pods on it. Then a search may
// leave out a node that takes no pod, and pods on the node do not matter to other nodes. A Count ends when its
// rehearsal places a pod.
type Count struct {
	r *Rehearsal
	// Failed is set if a plugin failed. A search would have ended with an error.
	Failed bool
}

// Count begins to count for a pod. It returns nil if the number for a node may depend on other nodes. It also returns
// nil if memos are off, because a test compares a Count with the searches that it replaces.
func (r *Rehearsal) Count(ctx context.Context, pod *v1.Pod) *Count {
	p := r.p
	if p.classes.off || p.uncounted || !p.restsOnNodes(ctx, pod) {
		return nil
	}
	nodes, err := p.stage.List()
	if err != nil {
		return nil
	}
	r.setPod(ctx, pod)
	if r.search.reserved != nil || !r.search.preFilter(nodes).IsSuccess() {
		return nil
	}
	return &Count{r: r}
}

// restsOnNodes reports whether the plugins' answers about a node depend only on the pod, the node, and the pods on it,
// as long as the cycle lasts. It presumes that all plugins that filter or score are known.
func (p *Profile) restsOnNodes(ctx context.Context, pod *v1.Pod) bool {
	if hasVolumes(pod) || len(pod.Spec.ResourceClaims) > 0 || devices.RequestsExtended(p.world.DRA, pod) {
		return false
	}
	if list, err := p.stage.NodeInfos().HavePodsWithAffinityList(); err != nil || len(list) > 0 {
		return false
	}
	for _, not := range p.unsignedBy(ctx, pod) {
		if not {
			return false
		}
	}
	return true
}

// ReservedFrom reports whether some nodes are reserved for others, so that the pod may not use them.
func (c *Count) ReservedFrom(pod *v1.Pod) bool {
	reserved := c.r.p.world.Reserved
	return reserved != nil && reserved(pod) != nil
}

// On returns the number of pods like the counted one that fit on the node, at most most. It treats the pods in gone,
// which are on the node, as removed. add returns the i-th of the new pods as it would be on the node. A node that does
// not exist takes none.
func (c *Count) On(node string, gone []fwk.PodInfo, most int, add func(i int) fwk.PodInfo) (n int) {
	s := c.r.search
	info, err := c.r.p.stage.Get(node)
	if err != nil || !s.preFilters.AllNodes() && !s.preFilters.NodeNames.Has(node) {
		return 0
	}
	own := len(gone) > 0 // info is a copy
	if own {
		info = info.Snapshot()
	}
	for _, pod := range gone {
		if info.RemovePod(klog.Logger{}, pod.GetPod()) == nil && c.r.p.world.Removed != nil {
			c.r.p.world.Removed(info, pod.GetPod())
		}
	}
	for n < most {
		if status := s.filterNode(info); status != nil {
			c.Failed = c.Failed || status.IsError()
			return n
		}
		if n++; n == most {
			return n
		}
		if !own {
			info, own = info.Snapshot(), true
		}
		info.AddPodInfo(add(n - 1))
	}
	return n
}

// Sees reports whether a search visits all feasible nodes, if there are so many. It must do so both over the feasible
// nodes only and over all nodes.
func (c *Count) Sees(feasible int) bool {
	nodes, err := c.r.p.stage.List()
	percentage := c.r.p.percentage
	return err == nil && NumFeasibleNodesToFind(percentage, feasible) >= feasible &&
		NumFeasibleNodesToFind(percentage, len(nodes)) >= feasible
}
