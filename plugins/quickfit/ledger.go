package quickfit

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// ledger has the amounts of the nodes in columns, in the order of their list. A node's amounts are valid for the
// NodeInfo with the same generation, because no other content of any node has that generation. The ledger is only a
// memo.
type ledger struct {
	generation []int64 // 0: no node
	pods       []int64 // the number of pods that the node can still take
	even       []int64 // the node's evenness for the pod none
	of         [kinds]columns
	names      []v1.ResourceName // the extended resources that pods have requested
	free       [][]int64         // the free amount of each of them

	none   *shares // a pod without requests, for even; nil if not needed yet
	broken bool    // some node has a form that the ledger cannot store
	groups groups
	every  []int32 // the places of all nodes
}

// columns has the amounts of one resource, by node.
type columns struct {
	has     []int64   // allocatable
	asked   []int64   // the sum of containers' requests
	free    []int64   // has - asked
	counted []int64   // the same, with upstream's minimum of cpu and memory for a container
	inverse []float64 // 1/has; 0 if has is 0, or if percent cannot use it
}

// row is one node.
type row struct {
	generation int64
	pods       int64        // the number of pods that the node can still take
	has        [kinds]int64 // allocatable, by resource
	asked      [kinds]int64 // the sum of containers' requests
	counted    [kinds]int64 // the same, with upstream's minimum of cpu and memory for a container
}

// maxNames bounds the extended resources of a ledger. A cluster has a few. When pods request more, the ledger starts
// again without any.
const maxNames = 16

// columnsOf returns the free amounts of the resources that a pod requests. ok is false if there are too many.
func (l *ledger) columnsOf(scalars []scalar, nodes []fwk.NodeInfo) (free [][]int64, ok bool) {
	if len(scalars) > maxNames {
		return nil, false
	}
	missing := 0
	for _, s := range scalars {
		if !slices.Contains(l.names, s.name) {
			missing++
		}
	}
	if missing > 0 && len(l.names)+missing > maxNames {
		l.names = l.names[:0]
	}
	if missing > 0 {
		for _, s := range scalars {
			if !slices.Contains(l.names, s.name) {
				l.names = append(l.names, s.name)
			}
		}
		clear(l.generation) // so that all nodes are read again
		l.size(len(nodes))
		l.readAt(nodes, l.every)
	}
	for _, s := range scalars {
		free = append(free, l.free[slices.Index(l.names, s.name)])
	}
	return free, !l.broken
}

// size allocates the columns for that many nodes. If the number has changed, all nodes are read again.
func (l *ledger) size(nodes int) {
	for len(l.free) < len(l.names) {
		l.free = append(l.free, make([]int64, nodes))
	}
	if len(l.generation) == nodes {
		return
	}
	for len(l.every) < nodes {
		l.every = append(l.every, int32(len(l.every)))
	}
	l.every = l.every[:nodes]
	l.generation = sized(l.generation, nodes)
	clear(l.generation)
	l.pods, l.even = sized(l.pods, nodes), sized(l.even, nodes)
	for i := range l.of {
		of := &l.of[i]
		of.has, of.asked, of.free = sized(of.has, nodes), sized(of.asked, nodes), sized(of.free, nodes)
		of.counted, of.inverse = sized(of.counted, nodes), sized(of.inverse, nodes)
	}
	for i := range l.free {
		l.free[i] = sized(l.free[i], nodes)
	}
}

func sized[T any](list []T, length int) []T { return slices.Grow(list[:0], length)[:length] }

// read updates the ledger from all nodes. It returns false if it cannot store one of them.
func (l *ledger) read(nodes []fwk.NodeInfo) bool {
	l.size(len(nodes))
	l.readAt(nodes, l.every)
	return !l.broken
}

// readAt updates the ledger from the nodes at places, or from all nodes if their number has changed.
func (l *ledger) readAt(nodes []fwk.NodeInfo, places []int32) {
	if len(l.generation) != len(nodes) {
		l.size(len(nodes))
		places = l.every
	}
	if len(places) == len(nodes) {
		l.broken = false
	}
	for _, at := range places {
		info, ok := nodes[at].(*framework.NodeInfo)
		if !ok {
			l.broken, l.generation[at] = true, 0
			continue
		}
		if l.generation[at] != info.Generation {
			l.put(int(at), info)
		}
	}
}

// put writes a node into the columns.
func (l *ledger) put(at int, info *framework.NodeInfo) {
	var r row
	r.read(info)
	l.generation[at], l.pods[at] = r.generation, r.pods
	for i := range l.of {
		of := &l.of[i]
		of.has[at], of.asked[at], of.counted[at] = r.has[i], r.asked[i], r.counted[i]
		of.free[at], of.inverse[at] = r.has[i]-r.asked[i], inverse(r.has[i])
	}
	if l.none != nil {
		l.even[at] = l.none.evenness(&r)
	}
	for i, name := range l.names {
		l.free[i][at] = info.Allocatable.ScalarResources[name] - info.Requested.ScalarResources[name]
	}
}

func (r *row) read(node *framework.NodeInfo) {
	has, used, nonZero := node.Allocatable, node.Requested, node.NonZeroRequested
	*r = row{
		generation: node.Generation,
		pods:       int64(has.AllowedPodNumber) - int64(len(node.Pods)),
		has:        [kinds]int64{cpu: has.MilliCPU, memory: has.Memory, ephemeral: has.EphemeralStorage},
		asked:      [kinds]int64{cpu: used.MilliCPU, memory: used.Memory, ephemeral: used.EphemeralStorage},
		counted:    [kinds]int64{cpu: nonZero.MilliCPU, memory: nonZero.Memory, ephemeral: used.EphemeralStorage},
	}
}

// row returns the amounts of a node.
func (l *ledger) row(at int32) row {
	r := row{generation: l.generation[at], pods: l.pods[at]}
	for i := range l.of {
		of := &l.of[i]
		r.has[i], r.asked[i], r.counted[i] = of.has[at], of.asked[at], of.counted[at]
	}
	return r
}

// inverse returns 1/has for percent, or 0 if percent could be wrong with it.
func inverse(has int64) float64 {
	const exact = 1 << 53 // integers up to it are exact as float64s
	if has <= 0 || has > exact/fwk.MaxScore {
		return 0
	}
	return 1 / float64(has)
}

// percent returns part*100/has rounded down, for has other than 0. Multiplying takes half the time of dividing. The
// quotient is at most 100 and wrong by less than 1, and the remainder corrects it: see TestPercentDividesExactly.
func percent(part, has int64, inverse float64) int64 {
	if inverse == 0 || uint64(part) > uint64(has) {
		return part * fwk.MaxScore / has
	}
	whole := part * fwk.MaxScore
	quotient := int64(float64(whole) * inverse)
	if rest := whole - quotient*has; rest < 0 {
		quotient--
	} else if rest >= has {
		quotient++
	}
	return quotient
}

// need is the least amount that a node must have.
type need struct {
	of    []int64
	least int64
}

// needs returns the least amounts that a node must have for the pod.
func (r *requests) needs(l *ledger, free [][]int64) []need {
	needs := []need{{l.pods, 1}}
	for i, amount := range r.of {
		if amount > 0 {
			needs = append(needs, need{l.of[i].free, amount})
		}
	}
	for i, s := range r.scalars {
		if s.amount > 0 {
			needs = append(needs, need{free[i], s.amount})
		}
	}
	return needs
}

// ReadNodes implements framework.PlaceSurveyor of Rollcall.
func (f *Fit) ReadNodes(nodes []fwk.NodeInfo, places []int32) { f.ledger.readAt(nodes, places) }

// SurveyFilter implements framework.Surveyor of Rollcall.
func (f *Fit) SurveyFilter(state fwk.CycleState, nodes []fwk.NodeInfo, pass []bool) bool {
	return f.ledger.read(nodes) && f.SurveyFilterAt(state, nodes, f.ledger.every, pass)
}

// SurveyFilterAt implements framework.PlaceSurveyor of Rollcall.
func (f *Fit) SurveyFilterAt(state fwk.CycleState, nodes []fwk.NodeInfo, places []int32, pass []bool) bool {
	data, err := state.Read(podKey)
	if err != nil || f.ledger.broken {
		return false
	}
	r := data.(*requests)
	free, ok := f.ledger.columnsOf(r.scalars, nodes)
	if !ok {
		return false
	}
	for i, n := range r.needs(&f.ledger, free) {
		if i == 0 {
			for _, at := range places {
				pass[at] = n.of[at] >= n.least
			}
			continue
		}
		for _, at := range places {
			if n.of[at] < n.least {
				pass[at] = false
			}
		}
	}
	return true
}

// SurveyScore implements framework.Surveyor of Rollcall.
func (f *Fit) SurveyScore(state fwk.CycleState, nodes []fwk.NodeInfo, scores []int64) bool {
	return f.ledger.read(nodes) && f.SurveyScoreAt(state, nodes, f.ledger.every, scores)
}

// SurveyScoreAt implements framework.PlaceSurveyor of Rollcall.
func (f *Fit) SurveyScoreAt(state fwk.CycleState, _ []fwk.NodeInfo, places []int32, scores []int64) bool {
	data, err := state.Read(leftKey)
	if err != nil || f.ledger.broken {
		return false
	}
	s, most := data.(*shares), f.most()
	if len(s.of) == 2 && !most && f.ledger.leftOfTwo(s, places, scores) {
		return true
	}
	for _, at := range places {
		r := f.ledger.row(at)
		scores[at] = s.left(&r, most)
	}
	return true
}

// leftOfTwo computes shares.left with most false, for two resources. It returns false if some node does not have them.
func (l *ledger) leftOfTwo(s *shares, places []int32, scores []int64) bool {
	a, b := &s.of[0], &s.of[1]
	of, and := &l.of[a.resource], &l.of[b.resource]
	weights := a.weight + b.weight
	for _, at := range places {
		hasA, hasB := of.has[at], and.has[at]
		if hasA <= 0 || hasB <= 0 || weights <= 0 {
			return false
		}
		sum := int64(0)
		if left := hasA - of.counted[at] - a.amount; left >= 0 {
			sum = percent(left, hasA, of.inverse[at]) * a.weight
		}
		if left := hasB - and.counted[at] - b.amount; left >= 0 {
			sum += percent(left, hasB, and.inverse[at]) * b.weight
		}
		if weights == 2 && sum >= 0 {
			scores[at] = sum >> 1
			continue
		}
		scores[at] = sum / weights
	}
	return true
}

// ReadNodes implements framework.PlaceSurveyor of Rollcall.
func (b *Balanced) ReadNodes(nodes []fwk.NodeInfo, places []int32) { b.ledger.readAt(nodes, places) }

// SurveyFilter implements framework.Surveyor of Rollcall: the plugin filters nothing.
func (b *Balanced) SurveyFilter(fwk.CycleState, []fwk.NodeInfo, []bool) bool { return false }

// SurveyFilterAt implements framework.PlaceSurveyor of Rollcall: the plugin filters nothing.
func (b *Balanced) SurveyFilterAt(fwk.CycleState, []fwk.NodeInfo, []int32, []bool) bool { return false }

// SurveyScore implements framework.Surveyor of Rollcall.
func (b *Balanced) SurveyScore(state fwk.CycleState, nodes []fwk.NodeInfo, scores []int64) bool {
	return b.ledger.read(nodes) && b.SurveyScoreAt(state, nodes, b.ledger.every, scores)
}

// SurveyScoreAt implements framework.PlaceSurveyor of Rollcall.
func (b *Balanced) SurveyScoreAt(state fwk.CycleState, nodes []fwk.NodeInfo, places []int32, scores []int64) bool {
	data, err := state.Read(balanceKey)
	if err != nil {
		return false
	}
	s, l := data.(*shares), &b.ledger
	// The arguments determine its resources, so they are the same for all pods.
	if l.none == nil {
		l.none = s.without()
		clear(l.generation)
		l.read(nodes)
	}
	if l.broken {
		return false
	}
	if len(s.of) == 2 && l.balanceOfTwo(s, places, scores) {
		return true
	}
	for _, at := range places {
		r := l.row(at)
		scores[at] = s.balance(&r, l.even[at])
	}
	return true
}

// balanceOfTwo computes shares.balance for two resources. It returns false if some node does not have them.
func (l *ledger) balanceOfTwo(s *shares, places []int32, scores []int64) bool {
	a, b := &s.of[0], &s.of[1]
	of, and := &l.of[a.resource], &l.of[b.resource]
	for _, at := range places {
		hasA, hasB := of.has[at], and.has[at]
		if hasA <= 0 || hasB <= 0 {
			return false
		}
		takenA, takenB := float64(of.asked[at]+a.amount)/float64(hasA), float64(and.asked[at]+b.amount)/float64(hasB)
		if takenA > 1 {
			takenA = 1
		}
		if takenB > 1 {
			takenB = 1
		}
		even := int64((1 - math.Abs((takenA-takenB)/2)) * float64(fwk.MaxScore))
		scores[at] = fwk.MaxScore/2 + (fwk.MaxScore/2+even-l.even[at])/2
	}
	return true
}
