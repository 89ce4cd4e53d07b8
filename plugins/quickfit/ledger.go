package quickfit

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// ledger keeps what the plugins read of the nodes side by side, in the order of their list. A row is that of the
// NodeInfo whose generation it has, which no other content of any node ever has; it is a memo and nothing else.
type ledger struct {
	rows  []row
	names []v1.ResourceName // the extended resources that were asked for
	free  []int64           // what is free of them, len(names) for each row
	none  *shares           // of a pod that requests nothing, for even; nil if nobody asks
}

// row is one node.
type row struct {
	generation int64        // 0: of no node
	pods       int64        // how many more pods the node may have
	even       int64        // with a ledger's none: its evenness
	has        [kinds]int64 // allocatable, by resource
	asked      [kinds]int64 // taken by what containers request
	counted    [kinds]int64 // taken, with the least of cpu and memory that a container counts for
}

// maxNames is how many extended resources a ledger keeps. A cluster has a few; when pods have asked for more, it begins
// anew.
const maxNames = 16

// columns returns the places among names of the resources that a pod requests; ok is false if it requests too many of
// them.
func (l *ledger) columns(scalars []scalar) (at []int, ok bool) {
	if len(scalars) > maxNames {
		return nil, false
	}
	missing := 0
	for _, s := range scalars {
		if !slices.Contains(l.names, s.name) {
			missing++
		}
	}
	if missing > 0 { // then all rows are read anew
		if len(l.names)+missing > maxNames {
			l.names = l.names[:0]
		}
		l.rows, l.free = l.rows[:0], l.free[:0]
	}
	for _, s := range scalars {
		if !slices.Contains(l.names, s.name) {
			l.names = append(l.names, s.name)
		}
		at = append(at, slices.Index(l.names, s.name))
	}
	return at, true
}

// read brings the ledger up to date with the nodes. It returns false if one of them is of a kind that it does not know.
func (l *ledger) read(nodes []fwk.NodeInfo) bool {
	if len(l.rows) != len(nodes) {
		l.rows = slices.Grow(l.rows[:0], len(nodes))[:len(nodes)]
		clear(l.rows)
		l.free = slices.Grow(l.free[:0], len(nodes)*len(l.names))[:len(nodes)*len(l.names)]
	}
	for at, node := range nodes {
		info, ok := node.(*framework.NodeInfo)
		if !ok {
			return false
		}
		if r := &l.rows[at]; r.generation != info.Generation {
			r.read(info)
			if l.none != nil {
				r.even = l.none.evenness(r)
			}
			for i, name := range l.names {
				l.free[at*len(l.names)+i] = info.Allocatable.ScalarResources[name] -
					info.Requested.ScalarResources[name]
			}
		}
	}
	return true
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

// SurveyFilter implements framework.Surveyor of Rollcall.
func (f *Fit) SurveyFilter(state fwk.CycleState, nodes []fwk.NodeInfo, pass []bool) bool {
	data, err := state.Read(roomKey)
	if err != nil {
		return false
	}
	r, l := data.(*room), &f.ledger
	columns, ok := l.columns(r.scalars)
	if !ok || !l.read(nodes) {
		return false
	}
	for at := range l.rows {
		n := &l.rows[at]
		ok := n.pods >= 1 && !lacks(r.of[cpu], n.has[cpu], n.asked[cpu]) &&
			!lacks(r.of[memory], n.has[memory], n.asked[memory]) &&
			!lacks(r.of[ephemeral], n.has[ephemeral], n.asked[ephemeral])
		for i, s := range r.scalars {
			ok = ok && (s.amount <= 0 || s.amount <= l.free[at*len(l.names)+columns[i]])
		}
		pass[at] = ok
	}
	return true
}

// SurveyScore implements framework.Surveyor of Rollcall.
func (f *Fit) SurveyScore(state fwk.CycleState, nodes []fwk.NodeInfo, scores []int64) bool {
	data, err := state.Read(leftKey)
	if err != nil || !f.ledger.read(nodes) {
		return false
	}
	s, most := data.(*shares), f.most()
	for at := range f.ledger.rows {
		scores[at] = s.left(&f.ledger.rows[at], most)
	}
	return true
}

// SurveyFilter implements framework.Surveyor of Rollcall: the plugin filters nothing.
func (b *Balanced) SurveyFilter(fwk.CycleState, []fwk.NodeInfo, []bool) bool { return false }

// SurveyScore implements framework.Surveyor of Rollcall.
func (b *Balanced) SurveyScore(state fwk.CycleState, nodes []fwk.NodeInfo, scores []int64) bool {
	data, err := state.Read(balanceKey)
	if err != nil {
		return false
	}
	s := data.(*shares)
	if b.ledger.none == nil { // which resources they are is a matter of the arguments, and so the same for all pods
		b.ledger.none = s.without()
	}
	if !b.ledger.read(nodes) {
		return false
	}
	for at := range b.ledger.rows {
		r := &b.ledger.rows[at]
		scores[at] = s.balance(r, r.even)
	}
	return true
}
