package topologycount

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Reading has the columns of Counts at the time of Read, for one pod's cycle. A plugin may add or remove pods in it for
// a trial. Counts may change meanwhile, for example in a rehearsal. They lend their sums: who changes a column makes a
// copy first.
type Reading struct {
	Columns []Column
	table   *table
	version uint64 // of the ledger
	next    int32  // where the node that is asked about next is likely to stand
}

// Read returns a Reading of the columns of such roles.
func (c *Counts) Read(such func(Role) bool) Reading {
	r := Reading{table: c.table, version: c.table.version}
	for i := range c.columns {
		if column := &c.columns[i]; such(column.Role) {
			column.lent = true
			r.Columns = append(r.Columns, *column)
		}
	}
	return r
}

// Clone returns a Reading that changes on its own.
func (r *Reading) Clone() Reading {
	for i := range r.Columns {
		r.Columns[i].lent = true
	}
	out := *r
	out.Columns = slices.Clone(r.Columns)
	return out
}

// Change adds a pod to the node for a trial (+1), or removes it (-1). adds says what the pod adds.
func (r *Reading) Change(node *v1.Node, by int64, adds func(*Parts)) {
	p := Parts{columns: (*columns)(&r.Columns), topology: r.topology}
	adds(&p)
	for _, part := range p.list {
		c := &r.Columns[part.column]
		if domain := c.Topology.Number(node); domain != Nowhere {
			c.Add(domain, part.weight*by)
		}
	}
}

// topology returns the topology of the key. If no Counts count by it, it is the Reading's own.
func (r *Reading) topology(key Key) *Topology {
	if t := r.table.topologies.find(key); t != nil {
		return t
	}
	return newTopology(key)
}

// Surveys reports whether the Reading is current and the nodes are the ledger's list, in whose order
// Topology.Domains are.
func (r *Reading) Surveys(nodes []fwk.NodeInfo) bool {
	t := r.table
	return r.Current() && len(nodes) == len(t.rows) && (len(nodes) == 0 || &nodes[0] == &t.list[0])
}

// Current reports whether the ledger is as it was at the time of Read, and has the topologies of all columns.
func (r *Reading) Current() bool {
	for i := range r.Columns {
		if r.Columns[i].Topology.users == 0 { // the Counts are dropped, or a pod was added for a trial
			return false
		}
	}
	return r.version == r.table.version
}

// Position is a node that is asked about.
type Position struct {
	info fwk.NodeInfo
	at   int // its place in the ledger, Nowhere if it is not as it was there
}

// Position finds the node in the ledger if it stands where the next one is expected, or a little behind.
func (r *Reading) Position(info fwk.NodeInfo) Position {
	const reach = 8
	generation := info.GetGeneration()
	for at := int(r.next); at < min(int(r.next)+reach, len(r.table.rows)); at++ {
		if r.table.rows[at].generation == generation {
			r.next = int32(at) + 1
			return Position{info, at}
		}
	}
	return Position{info, Nowhere}
}

// In returns the node's domain, Nowhere if it does not have the label.
func (s Position) In(t *Topology) int32 {
	if s.at != Nowhere && t.users > 0 {
		return t.at[s.at]
	}
	return t.look(s.info.Node())
}
