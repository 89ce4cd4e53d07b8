package outlook

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Room is what all nodes have free now, as far as it matters for some pods. Pods of one shape need the same and ask the
// same of nodes: what is found out of one of them is found out of all.
type Room struct {
	pods      []*cluster.Pod
	resources []v1.ResourceName
	needs     [][]int64 // by pod
	shapes    []int     // by pod
	firsts    []int     // by shape: the first pod of it
	nodes     []roomOn
}

// roomOn is the room on a node.
type roomOn struct {
	name string
	fits []bool // by shape: nothing but what its pods hold is in the way
	free []int64
	all  []int64 // when nothing runs there
}

// Room returns what all nodes, in the order of the cluster's list, have free for the pods.
func (p *Projector) Room(pods []*cluster.Pod) *Room {
	p.outlooks++
	r := &Room{pods: pods, resources: ResourcesOf(pods)}
	for _, pod := range pods {
		r.needs = append(r.needs, r.amounts(pod))
	}
	r.findShapes()
	for _, info := range p.nodes(nil) {
		n := roomOn{name: info.Node().Name}
		for _, first := range r.firsts {
			n.fits = append(n.fits, mayRunOn(pods[first].Object, info.Node(), p.comparisons))
		}
		for _, name := range r.resources {
			allocatable, requested := p.cluster.AmountOn(info, name)
			n.free, n.all = append(n.free, allocatable-requested), append(n.all, allocatable)
		}
		r.nodes = append(r.nodes, n)
	}
	return r
}

func (r *Room) amounts(p *cluster.Pod) []int64 {
	out := make([]int64, len(r.resources))
	for k, name := range r.resources {
		out[k] = p.Amount(name)
	}
	return out
}

// maxShapes is with how many shapes a pod is compared, those that came last, before it is taken for another one.
const maxShapes = 16

// findShapes finds out which pods are of one shape.
func (r *Room) findShapes() {
	r.shapes = make([]int, len(r.pods))
	for i := range r.pods {
		shape := len(r.firsts)
		for known := len(r.firsts) - 1; known >= max(0, len(r.firsts)-maxShapes); known-- {
			if r.sameShape(r.firsts[known], i) {
				shape = known
				break
			}
		}
		if shape == len(r.firsts) {
			r.firsts = append(r.firsts, i)
		}
		r.shapes[i] = shape
	}
}

func (r *Room) sameShape(i, j int) bool {
	if !slices.Equal(r.needs[i], r.needs[j]) {
		return false
	}
	return sameNodes(r.pods[i].Object, r.pods[j].Object)
}

// Free counts a pod, which stands on one of the nodes, as taken off it.
func (r *Room) Free(p *cluster.Pod) {
	i := slices.IndexFunc(r.nodes, func(n roomOn) bool { return n.name == p.Node })
	if i < 0 {
		return
	}
	for k, amount := range r.amounts(p) {
		r.nodes[i].free[k] += amount
	}
}

// Resources returns the resources that the pods request, and the number of pods, sorted.
func (r *Room) Resources() []v1.ResourceName { return r.resources }

// Trial places pods of a Room, one after the other, and takes them off again. It answers what would be, and changes
// nothing of the Room.
type Trial struct {
	room   *Room
	free   [][]int64 // by node
	placed []placing
}

// placing is a pod and the node that it was placed on, by their indexes in the Room.
type placing struct{ pod, node int }

// Try begins a Trial.
func (r *Room) Try() *Trial {
	t := &Trial{room: r, free: make([][]int64, len(r.nodes))}
	for i := range r.nodes {
		t.free[i] = slices.Clone(r.nodes[i].free)
	}
	return t
}

// Placed returns how many pods are placed: a mark for TakeBack.
func (t *Trial) Placed() int { return len(t.placed) }

// TakeBack takes off all pods that were placed since there were so many.
func (t *Trial) TakeBack(mark int) {
	for _, p := range t.placed[mark:] {
		for k, need := range t.room.needs[p.pod] {
			t.free[p.node][k] += need
		}
	}
	t.placed = t.placed[:mark]
}

// Place places each of the pods on the first of the nodes that has room for it, all by their indexes in the Room. Pods
// for which there is none are passed over. It returns how many were placed. Pods of one shape look at each node once.
func (t *Trial) Place(pods, nodes []int) int {
	from, before := map[int]int{}, len(t.placed)
	for _, pod := range pods {
		shape := t.room.shapes[pod]
		at := from[shape]
		for at < len(nodes) && !t.fits(pod, nodes[at]) {
			at++
		}
		if from[shape] = at; at == len(nodes) {
			continue
		}
		for k, need := range t.room.needs[pod] {
			t.free[nodes[at]][k] -= need
		}
		t.placed = append(t.placed, placing{pod, nodes[at]})
	}
	return len(t.placed) - before
}

func (t *Trial) fits(pod, node int) bool {
	if !t.room.nodes[node].fits[t.room.shapes[pod]] {
		return false
	}
	for k, need := range t.room.needs[pod] {
		if need > 0 && t.free[node][k] < need {
			return false
		}
	}
	return true
}

// Requested returns how much of a resource, by its index in Resources, is requested on the nodes with what is placed,
// and how much they offer.
func (t *Trial) Requested(resource int, nodes []int) (requested, all int64) {
	for _, n := range nodes {
		offered := t.room.nodes[n].all[resource]
		requested = cluster.AddUpTo(requested, max(0, offered-t.free[n][resource]))
		all = cluster.AddUpTo(all, offered)
	}
	return requested, all
}
