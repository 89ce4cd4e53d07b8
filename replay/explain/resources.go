package explain

import (
	"cmp"
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

const resourcePods = v1.ResourcePods

// podNeeds are the pod's requests: cpu, memory, ephemeral storage, its own place among the node's pods, then
// extended resources by name.
func podNeeds(p *cluster.Pod) []cluster.Need {
	requests := p.Requests()
	names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, resourcePods}
	var scalars []v1.ResourceName
	for name := range requests.GetScalarResources() {
		scalars = append(scalars, name)
	}
	slices.Sort(scalars)
	var needs []cluster.Need
	for _, name := range append(names, scalars...) {
		needs = append(needs, cluster.Need{Resource: name, Amount: cluster.AmountOf(requests, name)})
	}
	return needs
}

// worseThan compares free/needed without rounding; none of the numbers is negative.
func worseThan(free, needed, otherFree, otherNeeded int64) bool {
	hi, lo := bits.Mul64(uint64(free), uint64(otherNeeded))
	thi, tlo := bits.Mul64(uint64(otherFree), uint64(needed))
	return hi < thi || hi == thi && lo < tlo
}

// holderOf names the gang of a pod, or the pod if it has none.
func holderOf(p *cluster.Pod) holderKey {
	if p.Group != nil {
		return holderKey{"group", p.Group.String()}
	}
	return holderKey{"pod", nameOf(p.Object)}
}

// gangNeeds returns, as of an entry, what g lacks to have its minimum and who has it, nil if it lacks no member.
func gangNeeds(asOf answer.Point, m *scheduler.Machine, g *cluster.Group, refused refusal) *answer.GangNeeds {
	if g == nil {
		return nil
	}
	members, needs := m.Cluster().GangNeeds(g)
	if members == 0 {
		return nil
	}
	together := []*cluster.Group{g}
	if c := g.Composite(); c != nil {
		together = c.Gangs() // they are one entity: room that is kept for one is free for the others
	}
	uses := resourceUse(m.Cluster(), needs, heldFor(g), keptFromGang(m, together...),
		askingGangs(m, members, refused, g))
	return &answer.GangNeeds{AsOf: asOf, Members: members, Resources: uses}
}

// holderKey tells holders apart.
type holderKey struct{ kind, name string }

// holders are the entities that hold some of a resource, or for which some is kept.
type holders map[holderKey]*answer.Holder

func (h holders) add(key holderKey, pods int, amount int64) {
	holder := h[key]
	if holder == nil {
		holder = &answer.Holder{Kind: key.kind, Name: key.name}
		h[key] = holder
	}
	holder.Pods += pods
	holder.Amount += amount
}

// heldFor returns a test for pods that are held on nodes for the gang: they give their room back if the rest finds
// none. nil is no gang.
func heldFor(g *cluster.Group) func(*cluster.Pod) bool {
	return func(p *cluster.Pod) bool { return g != nil && p.Group == g && p.Stage == cluster.Waiting }
}

// merge adds what others have.
func (h holders) merge(others holders) {
	// any order: amounts are added up
	for key, holder := range others {
		h.add(key, holder.Pods, holder.Amount)
	}
}

// resourceUse counts, for each resource that is needed, what there is, who has it, and for whom it is kept, on all
// nodes. The room of pods that give it back counts as free. asking are the pods that need it.
func resourceUse(c *cluster.State, needs []cluster.Need, givesBack func(*cluster.Pod) bool, kept *keptRoom,
	asking *askers) []answer.ResourceUse {
	nodes, _ := c.Nodes().List()
	return resourceUseOn(nodes, c, needs, givesBack, kept, asking)
}

// resourceUseOn is resourceUse for some nodes.
func resourceUseOn(nodes []fwk.NodeInfo, c *cluster.State, needs []cluster.Need, givesBack func(*cluster.Pod) bool,
	kept *keptRoom, asking *askers) []answer.ResourceUse {
	table := &roomTable{c: c, nodes: nodes, a: asking, givesBack: givesBack, kept: kept,
		free: map[v1.ResourceName][]int64{}}
	table.domains = table.findDomains()
	var out []answer.ResourceUse
	for _, need := range needs {
		if need.Amount <= 0 {
			continue
		}
		use := answer.ResourceUse{Resource: need.Resource, Needed: need.Amount}
		having, keepers, onUsable := holders{}, holders{}, holders{}
		devices := false // a node may have it as devices, which are not counted here
		for i, n := range nodes {
			back := holdersOn(c, n, need.Resource, givesBack, having)
			allocatable, requested := cluster.AmountOn(n, need.Resource)
			devices = devices || table.asDevices(i, need.Resource)
			free, there := max(0, allocatable-requested+back), holders{}
			onNode := kept.on(n, need.Resource, free, there)
			use.Kept += onNode
			use.Allocatable += allocatable
			use.Free += free - onNode
			keepers.merge(there)
			if _, _, why := table.takers(need.Resource, i); why == (nodeCause{}) {
				onUsable.merge(there)
			}
		}
		none := table.split(&use)
		if devices || need.Resource == resourcePods && (none || use.OnTaking >= need.Amount) {
			continue
		}
		use.Holders, use.Others, use.OthersAmount = having.ranked()
		use.KeptFor, use.KeptForOthers, use.KeptForOthersAmount = keepers.ranked()
		use.KeptUsable.For, use.KeptUsable.Others, use.KeptUsable.OthersAmount = onUsable.ranked()
		out = append(out, use)
	}
	return out
}

// holdersOn adds up who has the resource on a node, and returns how much of it comes back.
func holdersOn(c *cluster.State, n fwk.NodeInfo, name v1.ResourceName, givesBack func(*cluster.Pod) bool,
	having holders) (back int64) {
	for _, info := range n.GetPods() {
		amount := cluster.AmountOf(info.CalculateResource().Resource, name)
		p := c.Pods().Get(info.GetPod().UID)
		switch {
		case amount == 0 || p == nil:
		case givesBack(p):
			back += amount
		default:
			having.add(holderOf(p), 1, amount)
		}
	}
	return back
}

// maxHolders is the number of holders of a resource that are named.
const maxHolders = 5

// ranked returns the largest holders first, and sums up the rest.
func (h holders) ranked() (first []answer.Holder, others int, othersAmount int64) {
	all := make([]answer.Holder, 0, len(h))
	// any order: sorted right below
	for _, holder := range h {
		all = append(all, *holder)
	}
	slices.SortFunc(all, func(a, b answer.Holder) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	first = all[:min(maxHolders, len(all))]
	for _, holder := range all[len(first):] {
		others++
		othersAmount += holder.Amount
	}
	return first, others, othersAmount
}

// keptRoom has room that no pod has requested and that is not free for the pods that need it. It is kept for nominated
// pods, which filters count as if they were on their nodes, or for the first of a lane.
type keptRoom struct {
	m *scheduler.Machine
	// asking are the pods that need the room, one of each kind that the answer depends on. Room that is free for one of
	// them is free. The nominations of own are theirs.
	asking []*cluster.Pod
	own    map[*cluster.Pod]bool
	// keeps are the answers about nominated pods so far.
	keeps map[*cluster.Pod]bool
	any   bool
	// forFirst[i] is the room that is kept from asking[i] for the lane's first entity; nil if none is kept. A pod that
	// is nominated to a node may use more there. forFirstOn is, by node, the room that is kept from the pods nominated
	// to it.
	forFirst   []*backfill.KeptRoom
	forFirstOn map[string][]*backfill.KeptRoom
}

// keptFrom returns the room that is kept from pods that need room, each by itself or all together.
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
		of := kind{m.Cluster().Gangs().PriorityOf(p.Object), m.Queue().Find(p.Object.UID), int64(p.Life())}
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

// keptFromResize returns the room that is kept on its node from a pod that is to be resized there. The cycle for that
// keeps nothing for the first of a lane.
func keptFromResize(m *scheduler.Machine, p *cluster.Pod) *keptRoom {
	return &keptRoom{m: m, asking: []*cluster.Pod{p}, own: map[*cluster.Pod]bool{p: true},
		keeps: map[*cluster.Pod]bool{}, any: m.AnyKept()}
}

// keptFromGang returns the room that is kept from all members of gangs that are not bound or being bound.
func keptFromGang(m *scheduler.Machine, gangs ...*cluster.Group) *keptRoom {
	var pods []*cluster.Pod
	for _, g := range gangs {
		for _, p := range g.Members() {
			if p.Stage == cluster.Waiting || p.Stage == cluster.Pending && p.MayBePlaced() {
				pods = append(pods, p)
			}
		}
	}
	return keptFrom(m, pods...)
}

// nothing reports whether nothing is kept anywhere.
func (k *keptRoom) nothing() bool { return !k.any && len(k.forFirst) == 0 }

// on returns how much is kept of the unrequested amount of a node's resource. It adds the amount to the entities for
// which it is kept: first the nominated pods, in the order of their nominations.
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

// keepsFromAll reports whether the room of a nominated pod is free for none of asking.
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
