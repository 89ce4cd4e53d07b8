package explain

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/backfill"
	"github.com/rollcall-sched/rollcall/cluster"
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
	// keeps are the answers about nominated pods so far; forFirst is nil if nothing is kept for the first of a lane.
	keeps    map[*cluster.Pod]bool
	forFirst *backfill.KeptRoom
	any      bool
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
	for i, p := range k.asking {
		first := m.KeptFromPod(p.Object.UID)
		if first == nil || i > 0 && first.First != k.forFirst.First {
			k.forFirst = nil
			break
		}
		k.forFirst = first
	}
	return k
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
func (k *keptRoom) nothing() bool { return !k.any && k.forFirst == nil }

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
	if k.forFirst != nil {
		if amount := k.forFirst.On(n, name, free-kept); amount > 0 {
			kept += amount
			keepers.add(holderOfEntity(k.forFirst.First), 0, amount)
		}
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
