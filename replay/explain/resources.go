package explain

import (
	"cmp"
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
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
func gangNeeds(asOf answer.Point, c *cluster.State, g *cluster.Group, unusable func(string) bool) *answer.GangNeeds {
	if g == nil {
		return nil
	}
	members, needs := c.GangNeeds(g)
	if members == 0 {
		return nil
	}
	return &answer.GangNeeds{AsOf: asOf, Members: members, Resources: resourceUse(c, needs, g, unusable)}
}

// holderKey tells holders apart.
type holderKey struct{ kind, name string }

// resourceUse counts, for each resource that is needed, what there is and who has it. The room of waiting
// members of the gang except counts as free.
func resourceUse(c *cluster.State, needs []cluster.Need, except *cluster.Group,
	unusable func(string) bool) []answer.ResourceUse {
	var out []answer.ResourceUse
	nodes, _ := c.List()
	for _, need := range needs {
		if need.Amount <= 0 {
			continue
		}
		use := answer.ResourceUse{Resource: need.Resource, Needed: need.Amount}
		holders := map[holderKey]*answer.Holder{}
		for _, n := range nodes {
			back := holdersOn(c, n, need.Resource, except, holders)
			allocatable, requested := cluster.AmountOn(n, need.Resource)
			countNode(&use, n.Node().Name, allocatable, max(0, allocatable-requested+back), !unusable(n.Node().Name))
		}
		if need.Resource == resourcePods && use.Usable >= need.Amount {
			continue
		}
		rankHolders(&use, holders)
		out = append(out, use)
	}
	return out
}

// add counts one node.
func countNode(u *answer.ResourceUse, node string, allocatable, free int64, usable bool) {
	u.Allocatable += allocatable
	u.Free += free
	if !usable {
		return
	}
	u.Usable += free
	if free > u.LargestFree {
		u.LargestFree, u.LargestFreeNode = free, node
	}
}

// holdersOn adds up who has the resource on a node, and returns what waiting members of except have of it.
func holdersOn(c *cluster.State, n fwk.NodeInfo, name v1.ResourceName, except *cluster.Group,
	holders map[holderKey]*answer.Holder) (back int64) {
	for _, info := range n.GetPods() {
		amount := cluster.AmountOf(info.CalculateResource().Resource, name)
		p := c.Pod(info.GetPod().UID)
		switch {
		case amount == 0 || p == nil:
		case except != nil && p.Group == except && p.Stage == cluster.Waiting:
			back += amount
		default:
			addHolder(holders, p, amount)
		}
	}
	return back
}

func addHolder(holders map[holderKey]*answer.Holder, p *cluster.Pod, amount int64) {
	key := holderOf(p)
	h := holders[key]
	if h == nil {
		h = &answer.Holder{Kind: key.kind, Name: key.name}
		holders[key] = h
	}
	h.Pods++
	h.Amount += amount
}

// maxHolders is how many holders of a resource are named.
const maxHolders = 5

// rank puts the largest holders first and sums up the rest.
func rankHolders(u *answer.ResourceUse, holders map[holderKey]*answer.Holder) {
	all := make([]answer.Holder, 0, len(holders))
	for _, h := range holders {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b answer.Holder) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	u.Holders = all[:min(maxHolders, len(all))]
	for _, h := range all[len(u.Holders):] {
		u.Others++
		u.OthersAmount += h.Amount
	}
}
