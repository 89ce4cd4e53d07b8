package ledger

// Column is a column of the ledger. Each part of the resource-time is booked in one.
type Column uint8

// The columns. Held time is in the first five, idle time in the ones from IdleNobody on. The first cause of idle time
// that applies counts, for the first entity in the order of the queue that waits, requests the resource, and fits the
// nodes if they are empty.
const (
	// Useful: held by pods that ended well, or that still run at the log's end. A pod that was deleted counts if it was
	// neither evicted by a decision nor lost with its node.
	Useful Column = iota
	// LostPreempted: held by pods that a decision evicted for others.
	LostPreempted
	// LostFailed: held by pods that failed, or whose node was lost or drained, or whose bind failed.
	LostFailed
	// LostWithGang: held by pods that were evicted because their gang had fallen below its minimum.
	LostWithGang
	// Incomplete: held by pods that wait in Permit, or whose gang has fewer members on nodes than its minimum. This
	// time is in no other column, whatever becomes of the pod.
	Incomplete
	// Overcommitted: held beyond what the node offers. The time is also in one of the columns above.
	Overcommitted
	// Unavailable: not held, on a node that is not ready or unreachable.
	Unavailable
	// IdleNobody: no entity that requests the resource waited.
	IdleNobody
	// IdleImpossible: only entities waited that cannot be placed on the nodes that there are, even if all were empty.
	IdleImpossible
	// IdleCordoned: the node is unschedulable, and the pods do not tolerate that.
	IdleCordoned
	// IdleTainted: the pods do not tolerate a taint of the node.
	IdleTainted
	// IdleNotSelected: the pods' node selector or required node affinity leaves the node out.
	IdleNotSelected
	// IdleOtherDomain: the gang must stay within one domain, and the node is in another one or in none.
	IdleOtherDomain
	// IdleReserved: the room is kept for nominated pods of others.
	IdleReserved
	// IdleFragmented: less than one pod needs is free on the node, or is left there beside as many members as fit.
	IdleFragmented
	// IdleLacksOther: the node has too little of another resource for one pod.
	IdleLacksOther
	// IdleUsable: the node takes a pod of the entity. A gang needs more places than there are, or a plugin refuses the
	// node, or the next attempt has not come.
	IdleUsable
	// Capacity: what nodes offer. The other columns add up to it, see the package's comment.
	Capacity

	columns = int(Capacity) + 1
)

var columnNames = [columns]string{"useful", "lostPreempted", "lostFailed", "lostWithGang", "incomplete",
	"overcommitted", "unavailable", "idleNobody", "idleImpossible", "idleCordoned", "idleTainted", "idleNotSelected",
	"idleOtherDomain", "idleReserved", "idleFragmented", "idleLacksOther", "idleUsable", "capacity"}

// String is the column's name in the JSON form.
func (c Column) String() string { return columnNames[c] }

// Held are the columns of held time.
func Held() []Column { return []Column{Useful, LostPreempted, LostFailed, LostWithGang, Incomplete} }

// Idle are the columns of idle time, in the order of the causes.
func Idle() []Column {
	var all []Column
	for c := IdleNobody; c <= IdleUsable; c++ {
		all = append(all, c)
	}
	return all
}

// NotHeld are the columns of time that no pod held.
func NotHeld() []Column { return append([]Column{Unavailable}, Idle()...) }

// row has the cells of a group: by bucket, resource, then column. It also counts what happened to the group.
type row struct {
	name             string
	cells            map[int]*[][columns]Sum
	caused, suffered int
}

func (r *row) cell(bucket, res int, c Column) *Sum {
	if r.cells == nil {
		r.cells = map[int]*[][columns]Sum{}
	}
	cells := r.cells[bucket]
	if cells == nil {
		cells = &[][columns]Sum{}
		r.cells[bucket] = cells
	}
	for len(*cells) <= res {
		*cells = append(*cells, [columns]Sum{})
	}
	return &(*cells)[res][c]
}
