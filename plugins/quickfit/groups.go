package quickfit

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// This file bounds the scores of groups of nodes (framework.GroupSurveyor). A group has the least or the most of each
// column of the ledger. The score of one node follows from its amounts. The highest score in the group follows in the
// same way from the group's amounts: for each amount the bound uses the end that makes the score highest. Fractions
// that are computed in another order can differ by some parts in 10^15, so margin is added before a score is rounded
// down.
//
// Example: one node has 40 % of its CPU and 10 % of its memory free, and another one 20 % and 30 %. For a pod that
// takes 10 % of each, their scores are (30+0)/2 = 15 and (10+20)/2 = 15. The bound is (30+20)/2 = 25.

// margin exceeds the rounding error of a hundred times a sum of a few fractions.
const margin = 1e-9

// largest is the largest amount with bounds. All smaller integers are exact as float64s, and a hundred times such a
// number fits into an int64.
const largest = 1 << 53

// groups has the nodes of a ledger in groups. It computes a column of the groups when it is first needed. Nodes that
// have changed since grouping do not matter: they only make the bounds of the others weaker.
type groups struct {
	places []int32
	size   int

	pods  []int64 // the least value on the group's nodes; so are the next ones
	left  [kinds][]int64
	free  map[v1.ResourceName][]int64
	of    [kinds]*bounds
	even  []int64
	tilts []tilt // nil: not computed yet
}

// bounds has the bounds of one resource, by group.
type bounds struct {
	exact       bool      // all amounts are between 0 and largest
	least, most []int64   // allocatable
	left        []float64 // the largest free fraction
}

// tilt has the bounds of a difference in a group: the used fraction of the first resource minus the used fraction of
// the second.
type tilt struct{ least, most float64 }

// set stores the grouping of the nodes.
func (g *groups) set(places []int32, size int) {
	*g = groups{places: places, size: size, free: map[v1.ResourceName][]int64{}}
}

// n returns the number of groups.
func (g *groups) n() int {
	if g.size == 0 {
		return 0
	}
	return (len(g.places) + g.size - 1) / g.size
}

// group returns the places of a group.
func (g *groups) group(i int) []int32 { return g.places[i*g.size : min((i+1)*g.size, len(g.places))] }

// least and most return the smallest and the largest number of the column, by group.
func (g *groups) least(column []int64) []int64 {
	return g.fold(column, func(a, b int64) int64 { return min(a, b) })
}

func (g *groups) most(column []int64) []int64 {
	return g.fold(column, func(a, b int64) int64 { return max(a, b) })
}

func (g *groups) fold(column []int64, with func(a, b int64) int64) []int64 {
	out := make([]int64, g.n())
	for i := range out {
		places := g.group(i)
		out[i] = column[places[0]]
		for _, at := range places[1:] {
			out[i] = with(out[i], column[at])
		}
	}
	return out
}

// needs is requests.needs for groups instead of nodes. free has the free amounts of the pod's extended resources, by
// node.
func (g *groups) needs(l *ledger, r *requests, free [][]int64) []need {
	if g.pods == nil {
		g.pods = g.least(l.pods)
	}
	needs := []need{{g.pods, 1}}
	for i, amount := range r.of {
		if amount > 0 {
			needs = append(needs, need{g.leastFree(l, kind(i)), amount})
		}
	}
	for i, s := range r.scalars {
		if s.amount > 0 {
			if g.free[s.name] == nil {
				g.free[s.name] = g.least(free[i])
			}
			needs = append(needs, need{g.free[s.name], s.amount})
		}
	}
	return needs
}

// leastFree returns, by group, the smallest free amount of the resource on any node.
func (g *groups) leastFree(l *ledger, resource kind) []int64 {
	if g.left[resource] == nil {
		g.left[resource] = g.least(l.of[resource].free)
	}
	return g.left[resource]
}

// boundsOf returns the bounds of the resource.
func (g *groups) boundsOf(l *ledger, resource kind) *bounds {
	if g.of[resource] != nil {
		return g.of[resource]
	}
	of := &l.of[resource]
	b := &bounds{exact: true, least: g.least(of.has), most: g.most(of.has), left: make([]float64, g.n())}
	for i := range b.left {
		b.left[i] = math.Inf(-1)
		for _, at := range g.group(i) {
			b.exact = b.exact && isExact(of.has[at]) && isExact(of.counted[at]) && isExact(of.asked[at])
			b.left[i] = max(b.left[i], float64(of.has[at]-of.counted[at])/float64(max(of.has[at], 1)))
		}
	}
	g.of[resource] = b
	return b
}

func isExact(amount int64) bool { return amount >= 0 && amount <= largest }

// tiltsOf returns the tilt of each group. The two resources come from the plugin's arguments, so they are the same for
// all pods.
func (g *groups) tiltsOf(l *ledger, first, second kind) []tilt {
	if g.tilts != nil {
		return g.tilts
	}
	g.even = g.least(l.even)
	g.tilts = make([]tilt, g.n())
	a, b := &l.of[first], &l.of[second]
	for i := range g.tilts {
		t := tilt{math.Inf(1), math.Inf(-1)}
		for _, at := range g.group(i) {
			by := taken(a.asked[at], a.has[at]) - taken(b.asked[at], b.has[at])
			t.least, t.most = min(t.least, by), max(t.most, by)
		}
		g.tilts[i] = t
	}
	return g.tilts
}

// taken returns the used fraction of a resource.
func taken(asked, has int64) float64 { return min(float64(asked)/float64(max(has, 1)), 1) }

// GroupNodes implements framework.GroupSurveyor of Rollcall.
func (f *Fit) GroupNodes(places []int32, size int) { f.ledger.groups.set(places, size) }

// GroupFilter implements framework.GroupSurveyor of Rollcall.
func (f *Fit) GroupFilter(state fwk.CycleState, pass []bool) bool {
	l := &f.ledger
	data, err := state.Read(podKey)
	if err != nil || l.broken || l.groups.n() != len(pass) {
		return false
	}
	r := data.(*requests)
	var free [][]int64
	for _, s := range r.scalars {
		at := slices.Index(l.names, s.name)
		if at < 0 {
			return false // no pod has requested it yet
		}
		free = append(free, l.free[at])
	}
	for i := range pass {
		pass[i] = true
	}
	for _, n := range l.groups.needs(l, r, free) {
		for i, least := range n.of {
			if least < n.least {
				pass[i] = false
			}
		}
	}
	return true
}

// GroupScore implements framework.GroupSurveyor of Rollcall, for the strategy LeastAllocated.
func (f *Fit) GroupScore(state fwk.CycleState, most []int64) bool {
	l, g := &f.ledger, &f.ledger.groups
	data, err := state.Read(leftKey)
	if err != nil || l.broken || g.n() != len(most) || f.most() {
		return false
	}
	s, weights := data.(*shares), int64(0)
	for _, share := range s.of {
		if share.weight < 0 || !isExact(share.amount) || !g.boundsOf(l, share.resource).exact {
			return false
		}
		weights += share.weight
	}
	if weights == 0 {
		return false
	}
	clear(most)
	for _, share := range s.of {
		b := g.boundsOf(l, share.resource)
		for i := range most {
			if b.least[i] == 0 {
				most[i] += fwk.MaxScore * share.weight // a node without it scores by the others, at most 100
			} else if left := b.left[i] - float64(share.amount)/float64(b.most[i]); left > 0 {
				most[i] += int64(left*float64(fwk.MaxScore)+margin) * share.weight
			}
		}
	}
	for i := range most {
		most[i] /= weights
	}
	return true
}

// ArrangeNodes implements framework.Arranger of Rollcall. Nodes are similar if they have similar free amounts of
// extended resources, and similar free fractions of CPU and memory. It divides the nodes with similar extended
// resources into strips by CPU, and sorts each strip by memory. So a group is a patch about as wide as high.
func (f *Fit) ArrangeNodes(places []int32, size int) {
	l := &f.ledger
	keys := make([]uint64, len(places))
	for i, at := range places {
		keys[i] = l.kindOf(at)<<48 | l.freeOf(cpu, at)<<32 | uint64(uint32(at))
	}
	slices.Sort(keys)
	for from := 0; from < len(keys); {
		to := from
		for to < len(keys) && keys[to]>>48 == keys[from]>>48 {
			to++
		}
		for strip := stripOf(to-from, size); from < to; {
			end := min(from+strip, to)
			l.sortByMemory(keys[from:end])
			from = end
		}
	}
	for i, key := range keys {
		places[i] = int32(uint32(key))
	}
}

// sortByMemory sorts keys by memory. The lower bits of a key are a place.
func (l *ledger) sortByMemory(keys []uint64) {
	for i, key := range keys {
		at := int32(uint32(key))
		keys[i] = l.freeOf(memory, at)<<32 | uint64(uint32(at))
	}
	slices.Sort(keys)
}

// stripOf returns the number of nodes in a strip, so that there are about as many strips as groups in a strip.
func stripOf(nodes, size int) int {
	groups := math.Sqrt(float64(nodes) / float64(size))
	return size * max(1, int(math.Ceil(groups)))
}

// kindOf describes the free amounts of the node's first five extended resources in 15 bits: 0, 1, 2 to 3, 4 to 7, and
// so on.
func (l *ledger) kindOf(at int32) (kind uint64) {
	for _, free := range l.free[:min(len(l.names), 5)] {
		bits := 0
		for n := max(free[at], 0); n > 0 && bits < 4; n >>= 1 {
			bits++
		}
		kind = kind<<3 | uint64(bits)
	}
	return kind
}

// freeOf returns the free fraction of the resource in 16 bits.
func (l *ledger) freeOf(resource kind, at int32) uint64 {
	of := &l.of[resource]
	if of.has[at] <= 0 || of.counted[at] >= of.has[at] {
		return 0
	}
	return uint64(float64(of.has[at]-max(of.counted[at], 0)) / float64(of.has[at]) * math.MaxUint16)
}

// GroupNodes implements framework.GroupSurveyor of Rollcall.
func (b *Balanced) GroupNodes(places []int32, size int) { b.ledger.groups.set(places, size) }

// GroupFilter implements framework.GroupSurveyor of Rollcall: the plugin filters nothing.
func (b *Balanced) GroupFilter(fwk.CycleState, []bool) bool { return false }

// GroupScore implements framework.GroupSurveyor of Rollcall, for two resources.
//
// If a node has room for the pod, the fraction used with the pod is the sum of the used fraction and the pod's
// fraction. This also holds for a resource that the pod does not request. So the tilt with the pod is the sum of the
// node's tilt and the pod's. Without room the fraction is cut to 1, and there is no bound.
func (b *Balanced) GroupScore(state fwk.CycleState, most []int64) bool {
	l, g := &b.ledger, &b.ledger.groups
	data, err := state.Read(balanceKey)
	if err != nil || l.broken || l.none == nil || g.n() != len(most) {
		return false
	}
	s := data.(*shares)
	if len(s.of) != 2 {
		return false
	}
	x, y := &s.of[0], &s.of[1]
	hasX, hasY := g.boundsOf(l, x.resource), g.boundsOf(l, y.resource)
	if !isExact(x.amount) || !isExact(y.amount) || !hasX.exact || !hasY.exact {
		return false
	}
	tilts := g.tiltsOf(l, x.resource, y.resource)
	freeX, freeY := g.leastFree(l, x.resource), g.leastFree(l, y.resource)
	ofX, ofY := float64(x.amount), float64(y.amount)
	for i := range most {
		even := int64(fwk.MaxScore)
		if hasX.least[i] > 0 && hasY.least[i] > 0 && fits(x.amount, freeX[i]) && fits(y.amount, freeY[i]) {
			least := tilts[i].least + ofX/float64(hasX.most[i]) - ofY/float64(hasY.least[i])
			highest := tilts[i].most + ofX/float64(hasX.least[i]) - ofY/float64(hasY.most[i])
			off := max(least, -highest, 0) // the pod leaves every node at least this uneven
			even = int64((1-off/2)*float64(fwk.MaxScore) + margin)
		}
		most[i] = fwk.MaxScore/2 + (fwk.MaxScore/2+even-g.even[i])/2
	}
	return true
}

func fits(amount, room int64) bool { return amount == 0 || amount <= room }
