package room

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Packing places pods on nodes one after the other, and takes them off again, in a model: the state does not change. It
// begins with the free amounts of all nodes now. Pods of one shape request the same and may use the same nodes, so an
// answer about one of them holds for all.
//
// Example: two nodes have 4 cpu free each, and three pods request 3, 3 and 2 cpu. Place puts the first on the first
// node, the second on the second node, and skips the third.
type Packing struct {
	pods      []*cluster.Pod
	resources []v1.ResourceName
	needs     [][]int64 // by pod
	shapes    []int     // by pod
	firsts    []int     // by shape: the first pod of it
	nodes     []packed
	placed    []placing
}

// packed is a node and the pods that are placed on it.
type packed struct {
	name string
	fits []bool // by shape: nothing but what its pods hold is in the way
	free []int64
	all  []int64 // when nothing runs there
}

// placing is a pod and the node that it was placed on, by their indexes in the Packing.
type placing struct{ pod, node int }

// Packing returns a Packing of the pods on all nodes, in the order of the cluster's list.
func (t *Table) Packing(pods []*cluster.Pod) *Packing {
	p := &Packing{pods: pods, resources: ResourcesOf(pods)}
	for _, pod := range pods {
		p.needs = append(p.needs, p.amounts(pod))
	}
	p.findShapes()
	for _, info := range t.nodes(nil) {
		n := packed{name: info.Node().Name}
		for _, first := range p.firsts {
			n.fits = append(n.fits, mayRunOn(pods[first].Object, info.Node(), t.comparisons))
		}
		for _, name := range p.resources {
			allocatable, requested := t.cluster.AmountOn(info, name)
			n.free, n.all = append(n.free, allocatable-requested), append(n.all, allocatable)
		}
		p.nodes = append(p.nodes, n)
	}
	return p
}

func (p *Packing) amounts(pod *cluster.Pod) []int64 {
	out := make([]int64, len(p.resources))
	for k, name := range p.resources {
		out[k] = pod.Amount(name)
	}
	return out
}

// maxCompared is with how many shapes a pod is compared, the latest ones, before it counts as a new one.
const maxCompared = 16

// findShapes finds out which pods are of one shape.
func (p *Packing) findShapes() {
	p.shapes = make([]int, len(p.pods))
	for i := range p.pods {
		shape := len(p.firsts)
		for known := len(p.firsts) - 1; known >= max(0, len(p.firsts)-maxCompared); known-- {
			if p.sameShape(p.firsts[known], i) {
				shape = known
				break
			}
		}
		if shape == len(p.firsts) {
			p.firsts = append(p.firsts, i)
		}
		p.shapes[i] = shape
	}
}

func (p *Packing) sameShape(i, j int) bool {
	if !slices.Equal(p.needs[i], p.needs[j]) {
		return false
	}
	return sameNodes(p.pods[i].Object, p.pods[j].Object)
}

// Free counts a pod on one of the nodes as taken off it.
func (p *Packing) Free(pod *cluster.Pod) { p.add(pod, pod.Node, 1) }

// Hold counts a pod as on one of the nodes.
func (p *Packing) Hold(pod *cluster.Pod, node string) { p.add(pod, node, -1) }

// add adds a pod's requests, times sign, to the free amounts of a node. It ignores a node that does not exist.
func (p *Packing) add(pod *cluster.Pod, node string, sign int64) {
	i := slices.IndexFunc(p.nodes, func(n packed) bool { return n.name == node })
	if i < 0 {
		return
	}
	for k, amount := range p.amounts(pod) {
		p.nodes[i].free[k] += sign * amount
	}
}

// Resources returns the resources that the pods request, and the number of pods, sorted.
func (p *Packing) Resources() []v1.ResourceName { return p.resources }

// Placed returns how many pods are placed: a mark for TakeBack.
func (p *Packing) Placed() int { return len(p.placed) }

// TakeBack takes off all pods that were placed since there were so many.
func (p *Packing) TakeBack(mark int) {
	for _, at := range p.placed[mark:] {
		for k, need := range p.needs[at.pod] {
			p.nodes[at.node].free[k] += need
		}
	}
	p.placed = p.placed[:mark]
}

// Place places each of the pods on the first of the nodes that has room for it, all by their indexes. Pods without room
// are skipped. It returns how many were placed. Pods of one shape examine each node once.
func (p *Packing) Place(pods, nodes []int) int {
	from, before := map[int]int{}, len(p.placed)
	for _, pod := range pods {
		shape := p.shapes[pod]
		at := from[shape]
		for at < len(nodes) && !p.fits(pod, nodes[at]) {
			at++
		}
		if from[shape] = at; at == len(nodes) {
			continue
		}
		for k, need := range p.needs[pod] {
			p.nodes[nodes[at]].free[k] -= need
		}
		p.placed = append(p.placed, placing{pod, nodes[at]})
	}
	return len(p.placed) - before
}

// Uniform reports whether the pods are of one shape.
func (p *Packing) Uniform(pods []int) bool {
	return !slices.ContainsFunc(pods, func(pod int) bool { return p.shapes[pod] != p.shapes[pods[0]] })
}

// PlaceHardestFirst is Place in another order. The shape that fits on the fewest of the nodes comes first. Ties go to
// the shape with the largest part of the requests of all these pods, in any resource. Each pod goes to the node with
// the least room beside it.
func (p *Packing) PlaceHardestFirst(pods, nodes []int) int {
	before := len(p.placed)
	for _, pod := range p.hardestFirst(pods, nodes) {
		best, least := -1, int64(0)
		for _, node := range nodes {
			if !p.fits(pod, node) {
				continue
			}
			rest := int64(0)
			for k, need := range p.needs[pod] {
				rest += cluster.Percent(p.nodes[node].free[k]-need, max(1, p.nodes[node].all[k]))
			}
			if best < 0 || rest < least {
				best, least = node, rest
			}
		}
		if best < 0 {
			continue
		}
		for k, need := range p.needs[pod] {
			p.nodes[best].free[k] -= need
		}
		p.placed = append(p.placed, placing{pod, best})
	}
	return len(p.placed) - before
}

func (p *Packing) hardestFirst(pods, nodes []int) []int {
	totals := make([]int64, len(p.resources))
	fitting := map[int]int{} // by shape
	for _, pod := range pods {
		for k, need := range p.needs[pod] {
			totals[k] = cluster.AddUpTo(totals[k], need)
		}
		shape := p.shapes[pod]
		if _, counted := fitting[shape]; counted {
			continue
		}
		fitting[shape] = 0
		for _, node := range nodes {
			if p.fits(pod, node) {
				fitting[shape]++
			}
		}
	}
	part := func(pod int) (most int64) {
		for k, need := range p.needs[pod] {
			most = max(most, cluster.Percent(need, max(1, totals[k])))
		}
		return most
	}
	order := slices.Clone(pods)
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(fitting[p.shapes[a]], fitting[p.shapes[b]]), cmp.Compare(part(b), part(a)))
	})
	return order
}

func (p *Packing) fits(pod, node int) bool {
	if !p.nodes[node].fits[p.shapes[pod]] {
		return false
	}
	for k, need := range p.needs[pod] {
		if need > 0 && p.nodes[node].free[k] < need {
			return false
		}
	}
	return true
}

// Requested returns how much of a resource, by its index in Resources, is requested on the nodes, and how much the
// nodes offer. The amount includes the pods that this Packing has placed.
func (p *Packing) Requested(resource int, nodes []int) (requested, all int64) {
	for _, n := range nodes {
		offered := p.nodes[n].all[resource]
		requested = cluster.AddUpTo(requested, max(0, offered-p.nodes[n].free[resource]))
		all = cluster.AddUpTo(all, offered)
	}
	return requested, all
}
