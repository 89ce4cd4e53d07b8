package order

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/queue"
)

// shortfall says by how much all nodes together have less free than a gang needs, without the room that is kept for
// others; "" if they have enough.
func (a *auditor) shortfall(e *queue.Entity) string {
	key, c := e.Key(), a.m.Cluster()
	if key.Type != fwk.PodGroupKeyType {
		return ""
	}
	g := c.Gangs().Named(key.Namespace, key.Name)
	if g == nil || g.Lacking(gang.OnNodes) <= 0 {
		return ""
	}
	if short, lacks := c.Lacks(g); lacks {
		return shortText(short, a.keptFrom(g, short.Resource))
	}
	_, needs := c.GangNeeds(g)
	for _, need := range needs {
		free, offered := c.Free(need.Resource)
		if !offered {
			continue
		}
		if kept := a.keptFrom(g, need.Resource); free-kept < need.Amount {
			return shortText(cluster.Shortfall{Resource: need.Resource, Needed: need.Amount, Free: free}, kept)
		}
	}
	return ""
}

// shortText names the resource of which there was too little. kept of the free amount is for others.
func shortText(short cluster.Shortfall, kept int64) string {
	unit, more := "", ""
	if short.Resource == v1.ResourceCPU {
		unit = "m"
	}
	if kept > 0 {
		more = fmt.Sprintf("; %d%s more were kept for others", kept, unit)
	}
	return fmt.Sprintf(" (it needed %d%s %s, and %d%s were free then%s)", short.Needed, unit, short.Resource,
		max(0, short.Free-kept), unit, more)
}

// keptFrom returns the amount of a resource that is kept from all waiting members of a gang, and that no pod has
// requested. It is kept for nominated pods, or for the first of a lane. An amount that is kept from only some of them
// counts as free.
func (a *auditor) keptFrom(g *cluster.Group, name v1.ResourceName) (kept int64) {
	type kind struct{ priority, life int64 } // on which it depends what is kept from a member
	kinds := map[kind]bool{}
	var waiting []*cluster.Pod // one of each kind
	lane := false              // whether room is kept for the first of a lane
	for _, p := range g.Members() {
		of := kind{int64(a.m.Cluster().Gangs().PriorityOf(p.Object)), int64(p.Life())}
		if p.Stage == cluster.Pending && p.MayBePlaced() && !kinds[of] {
			kinds[of] = true
			waiting = append(waiting, p)
			lane = lane || a.m.KeptFromPod(p.Object.UID) != nil
		}
	}
	if len(waiting) == 0 || !lane && !a.m.AnyKept() {
		return 0
	}
	nodes, _ := a.m.Cluster().Nodes().List()
	for _, n := range nodes {
		allocatable, requested := cluster.AmountOn(n, name)
		free, most := max(0, allocatable-requested), int64(-1)
		for _, p := range waiting {
			if amount := a.keptOn(n, name, free, p); most < 0 || amount < most {
				most = amount
			}
		}
		kept += max(0, most)
	}
	return kept
}

// keptOn returns how much of an amount that is free on a node is kept from a pod.
func (a *auditor) keptOn(n fwk.NodeInfo, name v1.ResourceName, free int64, from *cluster.Pod) (kept int64) {
	own := a.m.Queue().Find(from.Object.UID)
	for _, p := range a.m.KeptOn(n.Node().Name) {
		if a.m.Queue().Find(p.Object.UID) != own && a.m.KeepsFrom(p, from) {
			kept += min(free-kept, p.Amount(name))
		}
	}
	if first := a.m.KeptFromPod(from.Object.UID); first != nil {
		kept += first.On(n, name, free-kept)
	}
	return kept
}
