package room

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Table has what is known of the nodes of a cluster. Everything it keeps is a memo.
type Table struct {
	cluster          *cluster.State
	outlooks, trials int
	comparisons      bool       // see CompareTolerations
	horizons         []*Horizon // the one that was asked for last comes first
	walked           int        // see Walked
}

// NewTable returns a Table that looks at the cluster.
func NewTable(c *cluster.State) *Table { return &Table{cluster: c} }

// CompareTolerations sets whether tolerations with the operators Lt and Gt count, as the feature gate
// TaintTolerationComparisonOperators says. Without the call they do not.
func (t *Table) CompareTolerations(yes bool) {
	t.comparisons = yes
	t.ForgetHorizons()
}

// Work returns how many Outlooks were made, and how often it was tried whether their pods find a node each. Tests bound
// both.
func (t *Table) Work() (outlooks, trials int) { return t.outlooks, t.trials }

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
