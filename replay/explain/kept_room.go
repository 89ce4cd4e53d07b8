package explain

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// keptRoom tells what no pod has requested and is not free all the same for the pods that need it: it is kept for
// nominated pods, which filters count as if they were on their nodes, or for the first of a lane.
type keptRoom struct {
	m *scheduler.Machine
	// asking are the pods that need the room, one of each kind that the answer depends on. What is free for one of them
	// is free. The nominations of own are theirs.
	asking []*cluster.Pod
	own    map[*cluster.Pod]bool
	// keeps are the answers about nominated pods so far.
	keeps map[*cluster.Pod]bool
	any   bool
	// forFirst is what is kept from each of asking for the first of the lane; nil if nothing is. A pod that is
	// nominated to a node may have more there: forFirstOn is, by node, what is kept from those that are nominated to
	// it.
	forFirst   []*backfill.KeptRoom
	forFirstOn map[string][]*backfill.KeptRoom
}

// keptFrom returns what is kept from pods that need room, each by itself or all together.
func keptFrom(m *scheduler.Machine, pods ...*cluster.Pod) *keptRoom {
	k := &keptRoom{m: m, own: map[*cluster.Pod]bool{}, keeps: map[*cluster.Pod]bool{}}
	if len(pods) == 0 {
		return k
	}
	type kind struct {
		priority int32
		entity   *queue.Entity
		life     int64
	}
	kinds := map[kind]bool{}
	for _, p := range pods {
		k.own[p] = true
		of := kind{m.Cluster().PriorityOf(p.Object), m.Queue().Find(p.Object.UID), int64(p.Life())}
		if !kinds[of] {
			kinds[of] = true
			k.asking = append(k.asking, p)
		}
	}
	k.any = m.AnyKept()
	k.findForFirst(pods)
	return k
}

// findForFirst finds out what is kept from all pods for the first of their lane: nothing if any of them may go
// anywhere, or if what they leave is for different ones.
func (k *keptRoom) findForFirst(pods []*cluster.Pod) {
	var all []*backfill.KeptRoom
	for _, p := range k.asking {
		first := k.m.KeptFromPod(p.Object.UID)
		if first == nil || len(all) > 0 && first.First != all[0].First {
			return
		}
		all = append(all, first)
	}
	on := map[string][]*backfill.KeptRoom{}
	for _, p := range pods {
		node := k.m.NominatedNode(p.Object.UID)
		if node == "" {
			continue
		}
		first := k.m.KeptFromPod(p.Object.UID)
		if first == nil || first.First != all[0].First {
			return
		}
		on[node] = append(on[node], first)
	}
	k.forFirst, k.forFirstOn = all, on
}

// keptFromResize returns what is kept on its node from a pod that is to be resized there. The cycle for that keeps
// nothing for the first of a lane.
func keptFromResize(m *scheduler.Machine, p *cluster.Pod) *keptRoom {
	return &keptRoom{m: m, asking: []*cluster.Pod{p}, own: map[*cluster.Pod]bool{p: true},
		keeps: map[*cluster.Pod]bool{}, any: m.AnyKept()}
}

// keptFromGang returns what is kept from all members of gangs that have no node for good.
func keptFromGang(m *scheduler.Machine, gangs ...*cluster.Group) *keptRoom {
	var pods []*cluster.Pod
	for _, g := range gangs {
		for _, p := range g.Members() {
			if p.Stage == cluster.Waiting || p.Stage == cluster.Pending && m.Cluster().MayBePlaced(p) {
				pods = append(pods, p)
			}
		}
	}
	return keptFrom(m, pods...)
}

// nothing reports whether nothing is kept anywhere.
func (k *keptRoom) nothing() bool { return !k.any && len(k.forFirst) == 0 }

// on returns how much is kept of an amount that no pod has requested of a node's resource, and adds it to those for
// which it is kept: first the nominated pods, in the order in which they were nominated.
func (k *keptRoom) on(n fwk.NodeInfo, name v1.ResourceName, free int64, keepers holders) (kept int64) {
	if k.any {
		for _, p := range k.m.KeptOn(n.Node().Name) {
			if amount := min(free-kept, p.Amount(name)); amount > 0 && k.keepsFromAll(p) {
				kept += amount
				keepers.add(holderOf(p), 1, amount)
			}
		}
	}
	if len(k.forFirst) > 0 {
		if amount := k.leftToFirst(n, name, free-kept); amount > 0 {
			kept += amount
			keepers.add(holderOfEntity(k.forFirst[0].First), 0, amount)
		}
	}
	return kept
}

// leftToFirst returns how much of a free amount is kept for the first of the lane from each of the pods that ask.
func (k *keptRoom) leftToFirst(n fwk.NodeInfo, name v1.ResourceName, free int64) int64 {
	kept := free
	for _, first := range k.forFirst {
		kept = min(kept, first.On(n, name, free))
	}
	for _, first := range k.forFirstOn[n.Node().Name] {
		kept = min(kept, first.On(n, name, free))
	}
	return kept
}

// keepsFromAll reports whether the room of a nominated pod is free for none of those that ask.
func (k *keptRoom) keepsFromAll(p *cluster.Pod) bool {
	keeps, known := k.keeps[p]
	if !known {
		keeps = !k.own[p] && !slices.ContainsFunc(k.asking, func(asks *cluster.Pod) bool {
			return !k.m.KeepsFrom(p, asks)
		})
		k.keeps[p] = keeps
	}
	return keeps
}

// holderOfEntity names what is in the queue as one.
func holderOfEntity(key queue.Key) holderKey {
	name := key.Name
	if key.Namespace != "" {
		name = key.Namespace + "/" + name
	}
	switch key.Type {
	case fwk.PodGroupKeyType:
		return holderKey{"group", name}
	case fwk.CompositePodGroupKeyType:
		return holderKey{"composite", name}
	}
	return holderKey{"pod", name}
}
