package preemption

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
)

// The pods that a plan may make go.

// findCandidates lists the targets that may be made to go.
func (pl *plan) findCandidates() bool {
	nodes, err := pl.p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return false
	}
	if pl.limit != nil {
		nodes = slices.DeleteFunc(
			slices.Clone(nodes),
			func(n fwk.NodeInfo) bool { return !slices.Contains(pl.limit, n.Node().Name) },
		)
	}
	budgets, err := pl.p.budgets()
	if err != nil {
		return false
	}
	for _, u := range pl.p.targetsOn(nodes...) {
		stay, going := u.split(
			func(m *cluster.Pod) bool { return m.Object.DeletionTimestamp != nil || pl.p.going(m.Object) },
		)
		if going != nil {
			pl.gone = append(pl.gone, going)
		}
		own := slices.ContainsFunc(u.pods, func(m *cluster.Pod) bool { return pl.ours[m.Object.UID] })
		if stay != nil && u.priority < pl.priority && !own && !pl.p.spared(stay) {
			pl.candidates = append(pl.candidates, stay)
		}
	}
	slices.SortFunc(pl.candidates, func(a, b *target) int { return -moreImportant(a, b) })
	counts := violations(pl.candidates, budgets)
	pl.counted = make(map[*target]int, len(counts))
	for i, u := range pl.candidates {
		pl.counted[u] = counts[i]
	}
	// Those that a budget protects go last.
	slices.SortStableFunc(pl.candidates, func(a, b *target) int {
		return min(pl.counted[a], 1) - min(pl.counted[b], 1)
	})
	if pl.wantsDevices() && pl.p.view.State().FreesDevices() {
		pl.awaited = pl.p.view.State().NodesAwaitingDevices()
		if pl.limit != nil && pl.p.view.State().FollowsDeviceUsers() {
			pl.awaited = slices.DeleteFunc(pl.awaited, func(n string) bool { return !slices.Contains(pl.limit, n) })
		}
	}
	return len(pl.candidates)+len(pl.gone)+len(pl.awaited) > 0
}

func (pl *plan) wantsDevices() bool {
	wants := func(m *cluster.Pod) bool { return len(m.Object.Spec.ResourceClaims) > 0 }
	return slices.ContainsFunc(pl.gangs, func(g *cluster.Group) bool { return slices.ContainsFunc(g.Members(), wants) })
}

// split returns the target's pods of which leaves is not true, and those of which it is; nil for none.
func (u *target) split(leaves func(*cluster.Pod) bool) (stay, going *target) {
	var staying, leaving []*cluster.Pod
	for _, m := range u.pods {
		if leaves(m) {
			leaving = append(leaving, m)
		} else {
			staying = append(staying, m)
		}
	}
	part := func(pods []*cluster.Pod) *target {
		if len(pods) == 0 {
			return nil
		}
		c := *u
		c.pods = pods
		return &c
	}
	return part(staying), part(leaving)
}
