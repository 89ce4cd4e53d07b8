package room

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Table answers for the nodes of a cluster. Everything that it keeps is a memo.
type Table struct {
	cluster          *cluster.State
	comparisons      bool              // see CompareTolerations
	outlooks, trials int               // see Work
	walked           int               // see Walked
	horizons         []*Horizon        // the one that was asked for last comes first
	places           [rules]placesMemo // by Rule.gone
}

// NewTable returns a Table of a cluster's nodes.
func NewTable(c *cluster.State) *Table { return &Table{cluster: c} }

// CompareTolerations sets whether tolerations with the operators Lt and Gt count, as the feature gate
// TaintTolerationComparisonOperators says. Without the call they do not.
func (t *Table) CompareTolerations(yes bool) {
	t.comparisons = yes
	t.ForgetMemos()
}

// ForgetMemos forgets all that is remembered. No later answer differs because of it.
func (t *Table) ForgetMemos() {
	t.horizons = nil
	for i := range t.places {
		t.places[i].by = nil
	}
}

// Work returns how many Outlooks were made, and how often it was tried whether their pods find a node each. Tests bound
// both.
func (t *Table) Work() (outlooks, trials int) { return t.outlooks, t.trials }

// nodes returns the nodes of these names, all nodes if within is nil.
func (t *Table) nodes(within []string) []fwk.NodeInfo {
	if within == nil {
		nodes, _ := t.cluster.Nodes().List()
		return nodes
	}
	nodes := make([]fwk.NodeInfo, 0, len(within))
	for _, name := range within {
		if info, err := t.cluster.Nodes().Get(name); err == nil {
			nodes = append(nodes, info)
		}
	}
	return nodes
}

// seen is up to which change a memo has seen the nodes. The zero value is up to none.
type seen struct {
	valid      bool
	change     uint64
	list       uint64 // which nodes there are
	priorities uint64 // which priorities the pods on them count with
}

// changedSince returns the places, in the State's list, of the nodes on which the answer by a rule may have changed. It
// sets s to the current change counters. known is false if the answer may have changed for any node. For Empty only the
// nodes' objects matter.
func (t *Table) changedSince(s *seen, r Rule) (places []int32, known bool) {
	now := seen{valid: true, list: t.cluster.Changed(cluster.NodeListed)}
	if r.gone == all {
		places, now.change, known = t.cluster.Nodes().ObjectsChangedSince(s.change)
	} else {
		places, now.change, known = t.cluster.Nodes().ChangedSince(s.change)
		now.priorities = t.cluster.Changed(cluster.Reprioritised)
	}
	known = known && s.valid && s.list == now.list && s.priorities == now.priorities
	*s = now
	return places, known
}
