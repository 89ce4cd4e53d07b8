package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster/devices"
)

// A Count says how many pods that are alike each node would take, one node at a time and without placing any. It exists
// only where what plugins say of a node for the pod rests on the pod, that node and the pods on it: then a node that
// takes none may be left out of a search, and pods on it make no difference to other nodes.
//
// It is for as long as its rehearsal has placed no pod since it began.
type Count struct {
	r *Rehearsal
	// Failed says that a plugin has failed: a search would have ended with an error.
	Failed bool
}

// Count begins to count for a pod. It returns nil if what a node takes may depend on other nodes, or if there are to be
// no memos: a count answers what a search would, and is to be compared with it.
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

// restsOnNodes reports whether what the profile's plugins say of a node for the pod rests on the pod, the node and the
// pods on it alone, apart from what changes no answer while a cycle lasts. All plugins that filter or score are known.
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

// ReservedFrom reports whether some nodes are reserved for others, so that a pod may be kept from them.
func (c *Count) ReservedFrom(pod *v1.Pod) bool {
	reserved := c.r.p.world.Reserved
	return reserved != nil && reserved(pod) != nil
}

// On returns how many pods like that of the count, up to most, the node would take without the pods in gone, which are
// on it. add returns the i-th of these pods as it would be on the node. A node that is not there takes none.
func (c *Count) On(node string, gone []fwk.PodInfo, most int, add func(i int) fwk.PodInfo) (n int) {
	s := c.r.search
	info, err := c.r.p.stage.Get(node)
	if err != nil || !s.preFilters.AllNodes() && !s.preFilters.NodeNames.Has(node) {
		return 0
	}
	own := len(gone) > 0 // it is a copy
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

// Sees reports whether a search for a feasible node would look at all of the nodes of which so many are feasible, if
// only those are looked at as well as if all are.
func (c *Count) Sees(feasible int) bool {
	nodes, err := c.r.p.stage.List()
	percentage := c.r.p.percentage
	return err == nil && NumFeasibleNodesToFind(percentage, feasible) >= feasible &&
		NumFeasibleNodesToFind(percentage, len(nodes)) >= feasible
}
