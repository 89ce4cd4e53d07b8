package quickfit

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Bounds of groups of nodes (framework.GroupSurveyor of Rollcall). A group has the least or the most of each column of
// the ledger. The highest score that a pod can get on a node of the group follows from these as the score of one node
// follows from its amounts: it takes, for each amount, the end that makes the score highest. Two fractions that are
// computed in another order can differ by some parts in 10^15, so margin is added before a score is cut to a whole
// number.
//
// Example: of two nodes one has 40 % of its CPU left and 10 % of its memory, the other one 20 % and 30 %. A pod that
// takes 10 % of each is scored (30+0)/2 = 15 and (10+20)/2 = 15. The bound is (30+20)/2 = 25.

// margin is more than what rounding can make of a hundred times a sum of a few fractions.
const margin = 1e-9

// largest is the largest amount of which bounds are computed: all smaller whole numbers are float64s, and a hundred
// times such a number is an int64.
const largest = 1 << 53

// groups are the nodes of a ledger in groups. Columns are by group, and made when they are asked for first. Nodes may
// have changed by then: those are of no matter, and only make what is said of the others less exact.
type groups struct {
	places []int32
	size   int

	pods  []int64 // the least that nodes have of it, as the next ones
	left  [kinds][]int64
	free  map[v1.ResourceName][]int64
	of    [kinds]*bounds
	even  []int64
	tilts []tilt // nil: not asked for yet
}

// bounds are what the nodes of each group have of a resource.
type bounds struct {
	exact       bool      // all amounts are from 0 to largest
	least, most []int64   // allocatable
	left        []float64 // the most that is not taken, as a fraction
}

// tilt is by how much more of the first of two resources is taken than of the second one, as fractions: the least and
// the most in a group.
type tilt struct{ least, most float64 }

// set takes note of which nodes are in which group.
func (g *groups) set(places []int32, size int) {
	*g = groups{places: places, size: size, free: map[v1.ResourceName][]int64{}}
}

// n is how many groups there are.
func (g *groups) n() int {
	if g.size == 0 {
		return 0
	}
	return (len(g.places) + g.size - 1) / g.size
}

// group returns the places of a group.
func (g *groups) group(i int) []int32 { return g.places[i*g.size : min((i+1)*g.size, len(g.places))] }

// least and most return, by group, the least and the highest number of the column.
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

// needs is requests.needs for groups instead of nodes; free has what is free on nodes of the pod's extended resources.
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

// leastFree returns, by group, how much of the resource is not requested on any node, at the least.
func (g *groups) leastFree(l *ledger, resource kind) []int64 {
	if g.left[resource] == nil {
		g.left[resource] = g.least(l.of[resource].free)
	}
	return g.left[resource]
}

// boundsOf returns what the groups have of the resource.
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

// tiltsOf returns by how much more of the first resource is taken, by group. Which two resources they are is a matter
// of the plugin's arguments, and so the same for all pods.
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

// taken is which fraction of a resource is taken.
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
			return false // no node has been asked for it yet
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

// GroupScore implements framework.GroupSurveyor of Rollcall. It knows of the strategy LeastAllocated.
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
				most[i] += fwk.MaxScore * share.weight // a node without it is scored by the others, 100 at the most
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

// ArrangeNodes implements framework.Arranger of Rollcall. Nodes are alike if about as much is free of their extended
// resources, and the same fractions of CPU and memory. Those with the same extended resources are sorted by CPU into
// strips, and each strip is sorted by memory: so a group is a patch that is about as wide as it is high.
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

// sortByMemory sorts keys, which end with places.
func (l *ledger) sortByMemory(keys []uint64) {
	for i, key := range keys {
		at := int32(uint32(key))
		keys[i] = l.freeOf(memory, at)<<32 | uint64(uint32(at))
	}
	slices.Sort(keys)
}

// stripOf returns how many of that many nodes are to be in a strip, so that there are about as many strips as groups in
// a strip.
func stripOf(nodes, size int) int {
	groups := math.Sqrt(float64(nodes) / float64(size))
	return size * max(1, int(math.Ceil(groups)))
}

// kindOf sums up in 15 bits what is free of the first five extended resources on a node, of each 0, 1, 2 or 3, 4 to 7,
// or more.
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

// freeOf returns in 16 bits which fraction of the resource is free.
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

// GroupScore implements framework.GroupSurveyor of Rollcall. It knows of two resources.
//
// On a node with room for the pod, or if the pod asks for nothing of a resource, the fraction of it that would be taken
// is the one that is taken and the pod's: so by how much more is taken of the first resource than of the second one is
// the sum of what it is now and of what the pod adds. Without room the fraction is cut to 1, and nothing is said.
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
			off := max(least, -highest, 0) // the least by which the pod leaves a node uneven
			even = int64((1-off/2)*float64(fwk.MaxScore) + margin)
		}
		most[i] = fwk.MaxScore/2 + (fwk.MaxScore/2+even-g.even[i])/2
	}
	return true
}

func fits(amount, room int64) bool { return amount == 0 || amount <= room }
