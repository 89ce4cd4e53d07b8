package topologycount

import (
	"container/list"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Question says which pods count for a pod that is to be placed. Its answers must depend on nothing but the arguments.
type Question interface {
	// Adds calls to.Add for each column to which a pod like info adds. A nil info is the node itself.
	Adds(info fwk.PodInfo, to *Parts)
	// Admits reports whether the node, and the pods on it, count in the columns of the role.
	Admits(node *v1.Node, role Role) bool
}

// Role says what the pods of a column count for. Its meaning is the Question's.
type Role int32

// Column has a sum for each domain of a topology, for one role. A sum may be negative: a plugin may remove pods that
// were never counted.
type Column struct {
	Role     Role
	Topology *Topology
	Matches  int64   // how many terms matched, over all domains
	sums     []int64 // by domain; 0 beyond the end
	nonzero  int     // how many sums are not 0
	lent     bool    // somebody else has sums too: it must not be changed
}

// At returns the sum of a domain.
func (c *Column) At(domain int32) int64 {
	if domain < 0 || int(domain) >= len(c.sums) {
		return 0
	}
	return c.sums[domain]
}

// Sums returns the sums by domain; domains beyond its end have 0. The caller must not change it.
func (c *Column) Sums() []int64 { return c.sums }

// Empty reports whether all sums are 0.
func (c *Column) Empty() bool { return c.nonzero == 0 }

// Add adds to the sum of a domain.
func (c *Column) Add(domain int32, weight int64) {
	if c.lent || int(domain) >= len(c.sums) {
		sums := make([]int64, max(len(c.sums), int(domain)+1, len(c.Topology.ids)))
		copy(sums, c.sums)
		c.sums, c.lent = sums, false
	}
	n := &c.sums[domain]
	if *n != 0 {
		c.nonzero--
	}
	if *n += weight; *n != 0 {
		c.nonzero++
	}
}

// clear sets all sums to 0.
func (c *Column) clear() {
	c.sums, c.nonzero, c.lent, c.Matches = make([]int64, len(c.Topology.ids)), 0, false, 0
}

// columns belong to Counts, or to a Reading.
type columns []Column

// at returns the place of the column. It makes one if there is none, with the topology that topology returns.
func (c *columns) at(role Role, key Key, topology func(Key) *Topology) int32 {
	for i := range *c {
		if (*c)[i].Role == role && (*c)[i].Topology.key == key {
			return int32(i)
		}
	}
	*c = append(*c, Column{Role: role, Topology: topology(key)})
	return int32(len(*c) - 1)
}

// Parts collects what a pod adds to columns.
type Parts struct {
	columns  *columns
	topology func(Key) *Topology
	list     []part
}

// part says how much a pod adds to one column, in the domain of its node.
type part struct {
	column int32
	terms  int32 // how many terms of the Question it matched
	weight int64
}

// Add says that the pod adds weight to the column, besides what was said before.
func (p *Parts) Add(role Role, key Key, weight int64) {
	at := p.columns.at(role, key, p.topology)
	for i := range p.list {
		if p.list[i].column == at {
			p.list[i].weight += weight
			p.list[i].terms++
			return
		}
	}
	p.list = append(p.list, part{column: at, terms: 1, weight: weight})
}

// Counts are the columns of one Question, kept from pod to pod.
type Counts struct {
	Question Question
	table    *table
	key      string
	element  *list.Element // of memos.order
	bytes    int           // its share of memos.bytes
	dropped  bool

	columns columns
	ready   bool   // all pods were counted once
	since   uint64 // the journal's changes before this one are counted
	// where has by kind the place in lists, from 1, of the parts that a pod adds; or unknown, or nothing.
	where []int32
	lists [][]part
}

const (
	unknown = 0
	nothing = -1
)

// Dropped reports whether the ledger has forgotten the Counts. Then they must not be used again.
func (c *Counts) Dropped() bool { return c.dropped }

// Columns returns the columns as they were at the last Use. The caller must not change them.
func (c *Counts) Columns() []Column { return c.columns }

// AddColumn makes a column behind the others, unless there is one with that role and key.
func (c *Counts) AddColumn(role Role, key Key) { c.columns.at(role, key, c.table.use) }

// update counts what has changed since the last update.
func (c *Counts) update() {
	if changes, ok := c.table.journal.after(c.since); ok && c.ready {
		c.countChanges(changes)
	} else {
		c.countAll()
	}
	c.ready, c.since = true, c.table.journal.end()
}

// countChanges counts the pods that have come and gone.
func (c *Counts) countChanges(changes []change) {
	for i := range changes {
		change := &changes[i]
		for _, p := range c.parts(change.kind) {
			column := &c.columns[p.column]
			domain := column.Topology.Number(change.node)
			if domain != Nowhere && c.Question.Admits(change.node, column.Role) {
				c.add(p, domain, int64(change.by))
			}
		}
	}
}

// countAll counts all pods of all nodes.
func (c *Counts) countAll() {
	t := c.table
	t.counted++
	for i := range c.columns {
		c.columns[i].clear()
	}
	for at := range t.rows {
		r := &t.rows[at]
		c.countOne(at, r.node, nodeKind)
		for _, p := range r.pods {
			c.countOne(at, r.node, p.kind)
		}
	}
}

// countOne counts a pod of the kind on the node at that place.
func (c *Counts) countOne(at int, node *v1.Node, kind int32) {
	for _, p := range c.parts(kind) {
		column := &c.columns[p.column]
		if domain := column.Topology.at[at]; domain != Nowhere && c.Question.Admits(node, column.Role) {
			c.add(p, domain, 1)
		}
	}
}

func (c *Counts) add(p part, domain int32, times int64) {
	column := &c.columns[p.column]
	column.Add(domain, p.weight*times)
	column.Matches += int64(p.terms) * times
}

// parts returns the parts that a pod of the kind adds.
func (c *Counts) parts(kind int32) []part {
	t := c.table
	if int(kind) >= len(c.where) {
		c.where = append(c.where, make([]int32, len(t.kinds.list)-len(c.where))...)
	}
	switch at := c.where[kind]; at {
	case unknown:
	case nothing:
		return nil
	default:
		return c.lists[at-1]
	}
	if kind != nodeKind {
		t.compared++
	}
	p := Parts{columns: &c.columns, topology: t.use}
	c.Question.Adds(t.kinds.list[kind].info, &p)
	if c.where[kind] = nothing; len(p.list) > 0 {
		c.lists = append(c.lists, p.list)
		c.where[kind] = int32(len(c.lists))
	}
	return p.list
}

// size estimates the memory that the Counts take in bytes, with some KiB for the pod and its terms.
func (c *Counts) size() int {
	n := 4096 + len(c.key) + 4*cap(c.where) + 64*len(c.lists)
	for i := range c.columns {
		n += 64 + 8*len(c.columns[i].sums)
	}
	return n
}
